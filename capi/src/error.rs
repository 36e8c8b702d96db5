//! Statuses and messages.

use mainstay_engine::{Error, ErrorKind};
use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What a call came to. The names are the same in Rust, C and Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    Ok = 0,
    /// A null pointer, or a setting out of range.
    InvalidArgument,
    /// A region's name with characters that cannot be used.
    InvalidName,
    DuplicateName,
    /// The path is no Mainstay space.
    NotASpace,
    /// The space was written by a newer Mainstay.
    NewerVersion,
    /// Nothing can be restored because of damage; the regions are undefined.
    Damaged,
    /// The shard does not fit its portion.
    PortionTooSmall,
    DiskFull,
    /// The pool does not fit into /dev/shm.
    PoolFull,
    /// Reading or writing failed.
    Io,
    /// A region has another type or size than when it was saved.
    RegionChanged,
    /// A region was saved and is not protected, or the other way round.
    RegionMissing,
    /// The revision was saved by another number of ranks, and a region of it is no box of a global array.
    RankCount,
    /// Another job has the space open.
    InUse,
    /// A newer job has taken the space over: this one saves nothing more.
    Fenced,
    /// A sync failed: close the session and open the space again.
    SyncFailed,
    /// A peer is gone, or MPI failed.
    GroupFailed,
    /// Two runs took the same lineage without seeing each other.
    LineageConflict,
    /// A shard lies on another node.
    OutOfSight,
    /// A bug in Mainstay.
    Internal,
    /// An output file is shorter than when the revision was saved.
    OutputShort,
    /// There is no such revision, or it is incomplete, or the job at work let it go.
    RevisionMissing,
    /// The ranks have made different collective calls; the message says who called what.
    CallMismatch,
    /// The space holds what an earlier job saved, and this one has not restored it: it would be pushed out.
    NotRestored,
}

impl From<ErrorKind> for Status {
    fn from(kind: ErrorKind) -> Status {
        match kind {
            ErrorKind::InvalidArgument => Status::InvalidArgument,
            ErrorKind::InvalidName => Status::InvalidName,
            ErrorKind::DuplicateName => Status::DuplicateName,
            ErrorKind::NotASpace => Status::NotASpace,
            ErrorKind::NewerVersion => Status::NewerVersion,
            ErrorKind::Damaged => Status::Damaged,
            ErrorKind::PortionTooSmall => Status::PortionTooSmall,
            ErrorKind::DiskFull => Status::DiskFull,
            ErrorKind::PoolFull => Status::PoolFull,
            ErrorKind::Io => Status::Io,
            ErrorKind::RegionChanged => Status::RegionChanged,
            ErrorKind::RegionMissing => Status::RegionMissing,
            ErrorKind::RankCount => Status::RankCount,
            ErrorKind::InUse => Status::InUse,
            ErrorKind::Fenced => Status::Fenced,
            ErrorKind::SyncFailed => Status::SyncFailed,
            ErrorKind::GroupFailed => Status::GroupFailed,
            ErrorKind::LineageConflict => Status::LineageConflict,
            ErrorKind::OutOfSight => Status::OutOfSight,
            ErrorKind::Internal => Status::Internal,
            ErrorKind::OutputShort => Status::OutputShort,
            ErrorKind::RevisionMissing => Status::RevisionMissing,
            ErrorKind::CallMismatch => Status::CallMismatch,
            ErrorKind::NotRestored => Status::NotRestored,
        }
    }
}

impl Status {
    fn name(self) -> &'static CStr {
        match self {
            Status::Ok => c"OK",
            Status::InvalidArgument => c"INVALID_ARGUMENT",
            Status::InvalidName => c"INVALID_NAME",
            Status::DuplicateName => c"DUPLICATE_NAME",
            Status::NotASpace => c"NOT_A_SPACE",
            Status::NewerVersion => c"NEWER_VERSION",
            Status::Damaged => c"DAMAGED",
            Status::PortionTooSmall => c"PORTION_TOO_SMALL",
            Status::DiskFull => c"DISK_FULL",
            Status::PoolFull => c"POOL_FULL",
            Status::Io => c"IO",
            Status::RegionChanged => c"REGION_CHANGED",
            Status::RegionMissing => c"REGION_MISSING",
            Status::RankCount => c"RANK_COUNT",
            Status::InUse => c"IN_USE",
            Status::Fenced => c"FENCED",
            Status::SyncFailed => c"SYNC_FAILED",
            Status::GroupFailed => c"GROUP_FAILED",
            Status::LineageConflict => c"LINEAGE_CONFLICT",
            Status::OutOfSight => c"OUT_OF_SIGHT",
            Status::Internal => c"INTERNAL",
            Status::OutputShort => c"OUTPUT_SHORT",
            Status::RevisionMissing => c"REVISION_MISSING",
            Status::CallMismatch => c"CALL_MISMATCH",
            Status::NotRestored => c"NOT_RESTORED",
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs `call`; keeps the message of an error, and turns a panic into one.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Error>) -> Status {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(error)) => error,
        Err(_) => Error::Internal { what: "a panic".to_owned() },
    };
    MESSAGE.set(c_text(&error.to_string()));
    error.kind().into()
}

/// Text for C: a zero byte inside, which no message of ours has, would end it.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

pub(crate) fn null(what: &str) -> Error {
    Error::argument(what, "a null pointer, which this call does not take")
}

/// What the last call on this thread that failed had to say: what happened, to what, and what to do.
/// Valid until the next call that fails on this thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_error_message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// The name of a status, without its prefix: "DISK_FULL". A number that is no status gives "UNKNOWN".
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_status_name(status: u32) -> *const c_char {
    let known = match status {
        0 => Some(Status::Ok),
        code => ErrorKind::ALL.into_iter().find(|kind| *kind as u32 == code).map(Status::from),
    };
    known.map_or(c"UNKNOWN", Status::name).as_ptr()
}
