//! The kinds of error; programs distinguish errors by them.

use serde::{Deserialize, Serialize};

/// The one table of the kinds of error. Tests compare it with the handwritten lists: C's `mainstay_status`, Fortran's
/// constants, Python's stubs and the guide's table (`docs/guide/src/errors.md`).
macro_rules! kinds {
    ($($number:literal, $kind:ident, $name:literal;)*) => {
        /// The name of an error, the same in Rust, C and Python; the numbers are those of `mainstay_status`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "u32", from = "u32")]
        #[repr(u32)]
        pub enum ErrorKind {
            $($kind = $number,)*
        }

        impl ErrorKind {
            /// All kinds, in the order of their numbers, from 1 on.
            pub const ALL: [ErrorKind; [$($number),*].len()] = [$(ErrorKind::$kind),*];

            /// The name in C, without its prefix: "DISK_FULL".
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorKind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    1, InvalidArgument, "INVALID_ARGUMENT";
    2, InvalidName, "INVALID_NAME";
    3, DuplicateName, "DUPLICATE_NAME";
    4, NotASpace, "NOT_A_SPACE";
    5, NewerVersion, "NEWER_VERSION";
    6, Damaged, "DAMAGED";
    7, PortionTooSmall, "PORTION_TOO_SMALL";
    8, DiskFull, "DISK_FULL";
    9, PoolFull, "POOL_FULL";
    10, Io, "IO";
    11, RegionChanged, "REGION_CHANGED";
    12, RegionMissing, "REGION_MISSING";
    13, RankCount, "RANK_COUNT";
    14, InUse, "IN_USE";
    15, Fenced, "FENCED";
    16, SyncFailed, "SYNC_FAILED";
    17, GroupFailed, "GROUP_FAILED";
    18, LineageConflict, "LINEAGE_CONFLICT";
    19, OutOfSight, "OUT_OF_SIGHT";
    20, Internal, "INTERNAL";
    21, OutputShort, "OUTPUT_SHORT";
    22, RevisionMissing, "REVISION_MISSING";
    23, CallMismatch, "CALL_MISMATCH";
    24, NotRestored, "NOT_RESTORED";
    25, NotNeeded, "NOT_NEEDED";
    26, OtherProgram, "OTHER_PROGRAM";
}

impl From<u32> for ErrorKind {
    /// A kind that only a newer build knows is `Internal`.
    fn from(number: u32) -> ErrorKind {
        ErrorKind::ALL.into_iter().find(|kind| *kind as u32 == number).unwrap_or(ErrorKind::Internal)
    }
}

impl From<ErrorKind> for u32 {
    fn from(kind: ErrorKind) -> u32 {
        kind as u32
    }
}
