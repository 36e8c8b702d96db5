//! The limit on a pool that sizes itself, as recorded in profiles.

use serde::{Deserialize, Serialize};

/// The limit that keeps a pool from being larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PoolBound {
    /// The size is set by `pool_bytes`.
    #[default]
    Set,
    /// The pool holds everything that the ranks of its node save, and needs no more.
    Needed,
    /// A quarter of the machine's free memory.
    Memory,
    /// A quarter of the control group's free memory.
    ControlGroup,
    /// Half of `pool_directory`, or its free space.
    Directory,
}

impl PoolBound {
    const ALL: [PoolBound; 5] =
        [PoolBound::Set, PoolBound::Needed, PoolBound::Memory, PoolBound::ControlGroup, PoolBound::Directory];

    /// The bound as a number in a profile.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The bound with this number; a number of a newer build counts as no bound.
    pub fn of_code(code: u8) -> PoolBound {
        Self::ALL.get(usize::from(code)).copied().unwrap_or_default()
    }

    /// Completes "N bytes: ".
    pub fn why(self) -> &'static str {
        match self {
            PoolBound::Set => "as set",
            PoolBound::Needed => "all that its ranks save",
            PoolBound::Memory => "a quarter of the free memory",
            PoolBound::ControlGroup => "a quarter of the control group's free memory",
            PoolBound::Directory => "half of pool_directory, or its free space",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_numbers() {
        for bound in PoolBound::ALL {
            assert_eq!(PoolBound::of_code(bound.code()), bound);
        }
        assert_eq!(PoolBound::of_code(200), PoolBound::Set);
    }
}
