//! Files that the program appends to.

use crate::{
    argument::bytes_of,
    error::{Status, guard},
    session::{Session, session_of},
};
use std::{
    ffi::{OsStr, c_char},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Registers a file that this rank's program appends to. Local. Only one rank may register a file: mainstay_restore
/// and the checkpoint refuse one that several ranks registered. A checkpoint records the file's length at t1, and
/// syncs the file before it publishes the revision. mainstay_restore truncates the file to that length, so output
/// that the program repeats after a restart appears only once. The next start may use any path to the file, even
/// after a move. If Mainstay cannot be sure that it is the same file, it leaves the file as it is and names it in a
/// line on standard error. Restore before you write to the file, and fflush before a checkpoint. The file need not
/// exist yet. If it is shorter than at the checkpoint, the restore fails with MAINSTAY_OUTPUT_SHORT and changes
/// nothing. Files that no call registers stay as they are.
///
/// # Safety
/// `session` is open, `path` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_output(session: *mut Session, path: *const c_char) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, path) = unsafe { (session_of(session)?, bytes_of(path, "path")?) };
        session.engine.protect_output(Path::new(OsStr::from_bytes(path)))
    })
}
