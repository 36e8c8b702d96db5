//! Facts that ranks exchange, encoded for a maximum over all ranks.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A fact that is true for all if it is true on any rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Flag(u64);

impl Flag {
    pub(super) fn is_set(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Flag {
    fn from(is_set: bool) -> Flag {
        Flag(is_set.into())
    }
}

/// A value that should be equal on all ranks. The maximum over all ranks holds the highest value and the highest
/// complement. The latter belongs to the lowest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct EqualOnAllRanks([u64; 2]);

impl EqualOnAllRanks {
    /// The value of this rank alone, before the all-reduce.
    pub(super) fn of(value: u64) -> EqualOnAllRanks {
        EqualOnAllRanks([value, !value])
    }

    pub(super) fn highest(self) -> u64 {
        self.0[0]
    }

    pub(super) fn lowest(self) -> u64 {
        !self.0[1]
    }

    pub(super) fn is_so(self) -> bool {
        self.highest() == self.lowest()
    }
}

impl Default for EqualOnAllRanks {
    fn default() -> EqualOnAllRanks {
        EqualOnAllRanks::of(0)
    }
}
