//! Statuses and messages.

use mainstay_engine::{Error, ErrorKind};
use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::LazyLock,
};

/// Result of a call. The names are the same in Rust, C and Python.
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
    /// A saved region is not protected, or a protected region was not saved.
    RegionMissing,
    /// Another number of ranks saved the revision, and a region is neither a box of a global array nor the same on
    /// all ranks (mainstay_same_on_all_ranks).
    RankCount,
    /// Another job has the space open.
    InUse,
    /// A newer job has taken over the space: this one saves nothing more.
    Fenced,
    /// A sync failed: close the session and open the space again.
    SyncFailed,
    /// A peer is gone, or MPI failed.
    GroupFailed,
    /// Two runs took the same lineage without seeing each other.
    LineageConflict,
    /// A shard is on another node.
    OutOfSight,
    /// A bug in Mainstay.
    Internal,
    /// An output file is shorter than when the revision was saved.
    OutputShort,
    /// There is no such revision, or it is incomplete, or the running job removed it.
    RevisionMissing,
    /// The ranks have made different collective calls; the message names the ranks and the calls.
    CallMismatch,
    /// The space holds revisions of an earlier job, and this job has not restored: its checkpoint would replace them.
    NotRestored,
    /// This rank waited as a spare until the job ended, and was never needed. There is no session, and nothing is
    /// wrong.
    NotNeeded,
    /// The revision holds the globals of another program (mainstay_protect_globals).
    OtherProgram,
}

macro_rules! status_of {
    ($value:expr; $($kind:ident)*) => {
        match $value {
            $(ErrorKind::$kind => Status::$kind,)*
        }
    };
}

impl From<ErrorKind> for Status {
    fn from(kind: ErrorKind) -> Status {
        status_of! { kind;
            InvalidArgument InvalidName DuplicateName NotASpace NewerVersion Damaged
            PortionTooSmall DiskFull PoolFull Io RegionChanged RegionMissing
            RankCount InUse Fenced SyncFailed GroupFailed LineageConflict
            OutOfSight Internal OutputShort RevisionMissing CallMismatch NotRestored NotNeeded OtherProgram
        }
    }
}

/// By number.
static NAMES: LazyLock<Vec<CString>> =
    LazyLock::new(|| iter::once("OK").chain(ErrorKind::ALL.map(ErrorKind::name)).map(c_text).collect());

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs `call`. Keeps the message of an error, and turns a panic into an error.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Error>) -> Status {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(error)) => error,
        Err(_) => Error::Internal { what: "a panic".to_owned() },
    };
    MESSAGE.set(c_text(&error.to_string()));
    error.kind().into()
}

/// The message of this thread's last call.
pub(crate) fn message() -> String {
    MESSAGE.with(|message| message.borrow().to_string_lossy().into_owned())
}

/// Sets the message, for an adapter's own errors.
pub(crate) fn set_message(text: &str) {
    MESSAGE.set(c_text(text));
}

/// Text for C. A zero byte inside would end it; no message of ours has one.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// Message of the last failed call on this thread: the problem, the object, and the remedy. Valid until the next
/// failed call on this thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_error_message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// For adapters such as mainstay_mpi.h: sets the message of this thread's last call, and returns `status`, which must
/// not be MAINSTAY_OK. NULL gives the message of the status alone.
///
/// # Safety
/// `message` is null or ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_adapter_error(status: u32, message: *const c_char) -> Status {
    let kind = ErrorKind::from(status);
    let text = match kind {
        // SAFETY: not null, and as the caller promised.
        _ if !message.is_null() => unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned(),
        ErrorKind::NotNeeded => Error::NotNeeded.to_string(),
        _ => kind.name().to_owned(),
    };
    MESSAGE.set(c_text(&text));
    kind.into()
}

/// The name of a status, without its prefix: "DISK_FULL". A number that is not a status gives "UNKNOWN".
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_status_name(status: u32) -> *const c_char {
    NAMES.get(status as usize).map_or(c"UNKNOWN", CString::as_c_str).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_the_kinds_of_error_by_number_and_name() {
        let header = include_str!("../include/mainstay.h");
        let (body, _) = header.split_once("} mainstay_status;").unwrap();
        let (_, body) = body.rsplit_once("typedef enum {").unwrap();
        let constants = body.lines().map(str::trim).filter_map(|line| line.strip_prefix("MAINSTAY_"));
        let constants: Vec<_> = constants.map(|line| line.split([' ', ',']).next().unwrap_or(line)).collect();
        let names: Vec<_> = NAMES.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(constants, names);
        for kind in ErrorKind::ALL {
            assert_eq!((Status::from(kind) as u32, names[kind as usize]), (kind as u32, kind.name()));
        }
    }
}
