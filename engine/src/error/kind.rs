//! The kinds of error; programs distinguish errors by them.

use serde::{Deserialize, Serialize};

/// The one table of the kinds of error. Tests compare it with the handwritten lists: C's `mainstay_status`, Fortran's
/// constants, Python's stubs and the guide's table (`docs/guide/src/errors.md`).
macro_rules! kinds {
    ($($number:literal, $kind:ident, $name:literal, $meaning:literal;)*) => {
        /// The name of an error, the same in Rust, C and Python; the numbers are those of `mainstay_status`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "u32", from = "u32")]
        #[repr(u32)]
        pub enum ErrorKind {
            $(#[doc = $meaning] $kind = $number,)*
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

            /// A sentence about the event.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(ErrorKind::$kind => $meaning,)*
                }
            }
        }
    };
}

kinds! {
    1, InvalidArgument, "INVALID_ARGUMENT", "An argument or a setting that the call does not take.";
    2, InvalidName, "INVALID_NAME", "A name of a region or a stream with characters that cannot be used.";
    3, DuplicateName, "DUPLICATE_NAME", "Another region or stream has the name.";
    4, NotASpace, "NOT_A_SPACE", "The path is no Mainstay space.";
    5, NewerVersion, "NEWER_VERSION", "The space was written by a newer Mainstay.";
    6, Damaged, "DAMAGED", "Nothing can be restored because of damage; the regions are undefined.";
    7, PortionTooSmall, "PORTION_TOO_SMALL", "The shard does not fit its portion.";
    8, DiskFull, "DISK_FULL", "The file system is full, or over quota.";
    9, PoolFull, "POOL_FULL", "The pool does not fit into /dev/shm.";
    10, Io, "IO", "Reading or writing failed.";
    11, RegionChanged, "REGION_CHANGED", "A region has another type or size than when it was saved.";
    12, RegionMissing, "REGION_MISSING", "A saved region is not protected, or a protected region was not saved.";
    13, RankCount, "RANK_COUNT", "Another number of ranks saved the revision, and a region is neither a box of a global array nor the same on all ranks.";
    14, InUse, "IN_USE", "Another job has the space open.";
    15, Fenced, "FENCED", "A newer job has taken over the space: this one saves nothing more.";
    16, SyncFailed, "SYNC_FAILED", "A sync failed: close the session and open the space again.";
    17, GroupFailed, "GROUP_FAILED", "A peer is gone, or MPI failed.";
    18, LineageConflict, "LINEAGE_CONFLICT", "Two runs took the same lineage without seeing each other.";
    19, OutOfSight, "OUT_OF_SIGHT", "A shard is on another node.";
    20, Internal, "INTERNAL", "A bug in Mainstay.";
    21, OutputShort, "OUTPUT_SHORT", "An output file is shorter than when the revision was saved.";
    22, RevisionMissing, "REVISION_MISSING", "There is no such revision, or it is incomplete, or the running job removed it.";
    23, CallMismatch, "CALL_MISMATCH", "The ranks have made different collective calls; the message names the ranks and the calls.";
    24, NotRestored, "NOT_RESTORED", "The space holds revisions of an earlier job, and this job has not restored: its checkpoint would replace them.";
    25, NotNeeded, "NOT_NEEDED", "This rank waited as a spare until the job ended, and was never needed. There is no session, and nothing is wrong.";
    26, OtherProgram, "OTHER_PROGRAM", "The revision holds the globals of another program.";
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
