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

/// Names a file that this rank's program appends to. Local; one rank a file: mainstay_restore and the checkpoint
/// refuse one that several ranks name. It is synced before a revision is published,
/// its length at t1 is kept, and mainstay_restore cuts it back to that, so that
/// what the program writes again after a restart is there once. Any path to the file will do at the next start, also after it
/// was moved; a file that is not surely the one stays as it is, and a line on standard error names it. Restore before writing to it, and fflush
/// before a checkpoint. It need not be there yet. If it is shorter than it was, the restore ends with
/// MAINSTAY_OUTPUT_SHORT and changes nothing. Files that no call names stay as they are.
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
