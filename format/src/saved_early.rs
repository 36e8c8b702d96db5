//! Result of speculative saving on one rank, in the interval that a checkpoint has ended.

use super::{Refusal, sections::Sections};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian::U64};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SavedEarlyRecord {
    dirty: U64,
    early: U64,
    saved: U64,
    wasted: U64,
    off: u8,
    reserved: [u8; 7],
}

const _: () = assert!(size_of::<SavedEarlyRecord>() == 40);

/// Why speculative saving had stopped when the checkpoint began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EarlyOff {
    /// It had not stopped.
    #[default]
    No,
    InVain,
    PredictorFailed,
    WriteFailed,
    Recording,
    NoRoom,
}

impl EarlyOff {
    const ALL: [(EarlyOff, &'static str); 6] = [
        (EarlyOff::No, ""),
        (EarlyOff::InVain, "more was saved in vain than was gained"),
        (EarlyOff::PredictorFailed, "its predictor had failed"),
        (EarlyOff::WriteFailed, "an early write had failed"),
        (EarlyOff::Recording, "the rest of the recorded run could not be read"),
        (EarlyOff::NoRoom, "its portion had no more room for it"),
    ];

    /// Empty if it had not stopped.
    pub fn why(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A code of a newer build counts as unknown.
    fn of_code(code: u8) -> EarlyOff {
        Self::ALL.get(usize::from(code)).map(|(off, _)| *off).unwrap_or_default()
    }
}

/// In blocks of 4 KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedEarly {
    /// Blocks that the program had written when the checkpoint began.
    pub dirty: u64,
    /// Those of them that the revision uses at the place where they had been saved early.
    pub early: u64,
    /// Blocks that were saved early.
    pub saved: u64,
    /// Those that were saved, or about to be, in vain, because they were written again.
    pub wasted: u64,
    pub off: EarlyOff,
}

impl SavedEarly {
    /// Its bytes in a manifest.
    pub(super) const BYTES: u64 = size_of::<SavedEarlyRecord>() as u64;

    pub(super) fn build(&self) -> Vec<u8> {
        let record = SavedEarlyRecord {
            dirty: self.dirty.into(),
            early: self.early.into(),
            saved: self.saved.into(),
            wasted: self.wasted.into(),
            off: self.off as u8,
            reserved: [0; 7],
        };
        record.as_bytes().to_vec()
    }

    /// Parses the next part of `sections`. The numbers are statistics: no value makes the shard unreadable.
    pub(super) fn parse(sections: &mut Sections<'_>) -> Result<SavedEarly, Refusal> {
        let r: &SavedEarlyRecord = sections.record()?;
        Ok(SavedEarly {
            dirty: r.dirty.get(),
            early: r.early.get(),
            saved: r.saved.get(),
            wasted: r.wasted.get(),
            off: EarlyOff::of_code(r.off),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_parsed_and_what_is_not_known_is_passed_over() {
        for (off, _) in EarlyOff::ALL {
            let told = SavedEarly { dirty: 4, early: 3, saved: u64::MAX, wasted: 1, off };
            let mut bytes = told.build();
            let parse = |bytes: &[u8]| SavedEarly::parse(&mut Sections::new(bytes, "manifest"));
            assert_eq!(parse(&bytes), Ok(told));
            assert!(parse(&bytes[..39]).is_err());
            bytes[32] = EarlyOff::ALL.len() as u8;
            assert_eq!(parse(&bytes).unwrap().off, EarlyOff::No);
        }
    }
}
