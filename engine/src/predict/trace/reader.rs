//! Reads a trace, and trusts none of it.

use super::{Moment, WORD, Written};
use crate::error::{Error, Result};
use std::io::{ErrorKind, Read};

/// A record with more is invalid: no machine has memory of so many pages in so many pieces.
const STRETCHES_MAX: u64 = 1 << 32;
const PAGES_MAX: u64 = 1 << 52;
/// Pages that are written between two records, at most: 1 TiB.
const WRITTEN_MAX: u64 = 1 << 28;
/// Pages written between two records were in memory at one of them, except memory that was added and freed in between.
/// The limit is this multiple of the pages in memory, plus a constant.
const OF_RESIDENT: u64 = 4;
const MORE: u64 = 1 << 16;

/// Reads a trace record by record: a trace may be larger than memory.
pub struct Reader<R> {
    from: R,
    name: String,
    /// Number of words read, for messages.
    at: u64,
    last_us: u64,
    /// Pages in the program's memory at the record before.
    last_resident: u64,
}

impl<R: Read> Reader<R> {
    /// A reader of `from`; messages call it `name`.
    pub fn new(from: R, name: &str) -> Reader<R> {
        Reader { from, name: name.to_owned(), at: 0, last_us: 0, last_resident: 0 }
    }

    fn wrong(&self, why: &str) -> Error {
        let what = format!("{}, at byte {}", self.name, self.at * WORD as u64);
        Error::InvalidArgument { what, why: format!("{why}; give a trace as the guide describes it") }
    }

    /// The next word; `None` at the end of the file, which must be between two records if `is_first`.
    fn word(&mut self, is_first: bool) -> Result<Option<u64>> {
        let mut bytes = [0; WORD];
        let mut have = 0;
        while have < WORD {
            match self.from.read(&mut bytes[have..]) {
                Ok(0) if have == 0 && is_first => return Ok(None),
                Ok(0) => return Err(self.wrong("it ends inside a record: it was cut off")),
                Ok(read) => have += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("reading", &self.name, e)),
            }
        }
        self.at += 1;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    fn next_word(&mut self) -> Result<u64> {
        self.word(false).map(Option::unwrap_or_default)
    }

    fn record(&mut self) -> Result<Option<Written>> {
        let Some(kind) = self.word(true)? else { return Ok(None) };
        let moment = Moment::ALL.into_iter().find(|moment| *moment as u64 == kind);
        let moment = moment.ok_or_else(|| self.not_a_record(kind))?;
        let (at_us, resident, count) = (self.next_word()?, self.next_word()?, self.next_word()?);
        if at_us < self.last_us {
            return Err(self.wrong("its time runs backwards"));
        }
        self.last_us = at_us;
        if count > STRETCHES_MAX {
            return Err(self.wrong(&format!("a record of {count} stretches of pages is none")));
        }
        let most = match resident.max(std::mem::replace(&mut self.last_resident, resident)) {
            0 => WRITTEN_MAX,
            in_memory => WRITTEN_MAX.min(in_memory.saturating_mul(OF_RESIDENT).saturating_add(MORE)),
        };
        let (mut stretches, mut written) = (Vec::new(), 0_u64);
        for _ in 0..count {
            let (first, pages) = (self.next_word()?, self.next_word()?);
            if first.checked_add(pages).is_none_or(|end| end > PAGES_MAX) {
                return Err(self.wrong("it has pages beyond all memory"));
            }
            written = written.saturating_add(pages);
            if written > most {
                return Err(self.wrong("a record has more pages than any process writes between two of them"));
            }
            if pages > 0 {
                stretches.push((first, pages));
            }
        }
        Ok(Some(Written { moment, at_us, resident, stretches }))
    }

    fn not_a_record(&self, found: u64) -> Error {
        let is = |word: u64| Moment::ALL.into_iter().any(|moment| moment as u64 == word);
        self.wrong(if is(found.swap_bytes()) {
            "its words have the high byte first: it comes from another kind of machine"
        } else if is(found & u64::from(u32::MAX)) {
            "its words have 32 bits, not 64"
        } else {
            "no record begins here: it is not a trace, or damaged"
        })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Written>;

    fn next(&mut self) -> Option<Result<Written>> {
        self.record().transpose()
    }
}
