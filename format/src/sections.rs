//! Cutting a buffer into tables of fixed records without trusting any length in it.

use super::{Refusal, damaged};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The part that has not been read yet.
pub(super) struct Sections<'a> {
    rest: &'a [u8],
    of: &'static str,
}

impl<'a> Sections<'a> {
    pub(super) fn new(bytes: &'a [u8], of: &'static str) -> Self {
        Sections { rest: bytes, of }
    }

    pub(super) fn record<T: FromBytes + KnownLayout + Immutable + Unaligned>(&mut self) -> Result<&'a T, Refusal> {
        match T::ref_from_prefix(self.rest) {
            Ok((record, rest)) => {
                self.rest = rest;
                Ok(record)
            }
            Err(_) => damaged(format!("the {} ends early", self.of)),
        }
    }

    pub(super) fn table<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &mut self,
        count: u64,
    ) -> Result<&'a [T], Refusal> {
        let fits =
            usize::try_from(count).ok().and_then(|count| <[T]>::ref_from_prefix_with_elems(self.rest, count).ok());
        match fits {
            Some((table, rest)) => {
                self.rest = rest;
                Ok(table)
            }
            None => damaged(format!("the {} ends before its {count} records", self.of)),
        }
    }
}

/// `table[first..first + count]`, or a refusal.
pub(super) fn part<'a, T>(table: &'a [T], first: u64, count: u64, of: &str) -> Result<&'a [T], Refusal> {
    let range = usize::try_from(first).ok().zip(first.checked_add(count).and_then(|end| usize::try_from(end).ok()));
    match range.and_then(|(first, end)| table.get(first..end)) {
        Some(part) => Ok(part),
        None => damaged(format!("{of} points outside its table")),
    }
}
