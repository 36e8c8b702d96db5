//! A shard that has come from another rank: in parts that lie in the portion already, and in others.

use crate::{
    capture::{Contents, Led},
    device::Mapped,
    error::{Error, Result},
    place::{Shard, StagingTime},
    space::{Aligned, format::Hash},
};

#[derive(Debug)]
pub(crate) struct Arrived {
    /// `None` if what the other rank told of it made no sense.
    contents: Option<(Contents, Option<Led>)>,
    /// Of the hashes of all blocks, as the other rank has them.
    hash: Hash,
    in_place: Vec<(u64, Mapped)>,
    beside: Vec<(u64, Aligned, u64)>,
}

impl Arrived {
    /// `contents`: of the whole log, and what of it is led to instead of carried.
    pub(crate) fn new(contents: Option<(Contents, Option<Led>)>, hash: Hash) -> Arrived {
        Arrived { contents, hash, in_place: Vec::new(), beside: Vec::new() }
    }

    /// A part of the log, from `at` on, is where it belongs in the portion.
    pub(crate) fn in_place(&mut self, at: u64, mapped: Mapped) {
        self.in_place.push((at, mapped));
    }

    /// A part of the log, from `at` on, is in the first `bytes` bytes of `memory`.
    pub(crate) fn beside(&mut self, at: u64, memory: Aligned, bytes: u64) {
        self.beside.push((at, memory, bytes));
    }

    /// Puts all that has come into `copy`, if it is what the other rank has.
    pub(super) fn put_into(self, copy: &Shard) -> Result<()> {
        let Arrived { contents, hash, in_place, beside } = self;
        in_place.iter().for_each(|(at, mapped)| copy.hash(*at, mapped.as_ref()));
        beside.iter().try_for_each(|(at, memory, bytes)| copy.carry(*at, &memory[..*bytes as usize]))?;
        let (contents, led) = contents.ok_or_else(|| Error::Internal { what: "a copy of nothing".to_owned() })?;
        let found = match &led {
            Some(led) => copy.with_rows(led.contents.blocks, |rows| led.hash_of_hashes(rows)),
            None => Some(copy.hash_of_hashes(contents.blocks)),
        };
        if found != Some(hash) {
            return Err(Error::damaged(format!(
                "shard {} of revision {}: what has come from its rank is not what that rank had saved; its blocks were \
                 damaged there, or on the way",
                copy.number(),
                copy.key().number
            )));
        }
        copy.note_staged(StagingTime::default(), led.map_or(contents, |led| led.contents));
        Ok(())
    }
}
