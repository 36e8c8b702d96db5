//! What ranks tell each other of one fact, so that the highest of all ranks' words says it.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Whether it is so on any rank.
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

/// A value that ranks may have to share: the highest of all ranks, and the highest complement, which is the lowest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Alike([u64; 2]);

impl Alike {
    /// Of this rank alone.
    pub(super) fn of(value: u64) -> Alike {
        Alike([value, !value])
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

impl Default for Alike {
    fn default() -> Alike {
        Alike::of(0)
    }
}
