//! The program's own variables.

use crate::{
    argument::null,
    error::{Status, guard},
    memory::check,
    session::{Session, session_of},
};
use std::ffi::c_void;

/// Has the program's own variables saved and restored, its .data and .bss, where C and Fortran programs keep their
/// static arrays: as regions whose names begin with "globals/", into a fresh run of the same program. Before
/// mainstay_restore; local.
///
/// Not among them are variables that the program takes over from shared libraries (stdout, environ, the handles of MPI),
/// variables of shared libraries and of threads (_Thread_local), what mainstay_leave_out has named, and what is protected
/// by a name of its own, before or after this. After a restore the variables that hold `session`, those that point to the beginning of
/// another region, and pointers to the program's own variables and functions that the compiler filled in point to what they
/// pointed to, wherever that lies now. Every other pointer, such as one from malloc, has the address of the run that saved
/// it: protect what it points to by a name, or leave it out.
///
/// A restore of a revision with the globals of another program, also of one compiled anew, is refused:
/// MAINSTAY_OTHER_PROGRAM. MAINSTAY_INVALID_ARGUMENT: the program is linked statically (-static), or a
/// region is followed (mainstay_follow) that lies among its variables: these come back with the pointers to them, and are
/// not to be protected by a name of their own. Where one that has taken variables out of them moves later, the next checkpoint or
/// restore is refused so.
///
/// # Safety
/// `session` is open. No other thread writes the program's variables during a checkpoint or a restore.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_globals(session: *mut Session) -> Status {
    guard(|| {
        let handle = session.expose_provenance();
        // SAFETY: the caller's promises are passed on.
        unsafe { session_of(session)?.engine.protect_globals(&[handle]) }
    })
}

/// Has a later mainstay_protect_globals leave out the `bytes` bytes at `address`: they are not saved, and a restore
/// leaves them as they are. For what belongs to one run: communicators and files that are open, pointers to memory that is
/// not protected. Local.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_leave_out(session: *mut Session, address: *const c_void, bytes: usize) -> Status {
    guard(|| {
        // SAFETY: the caller's promise is passed on.
        let session = unsafe { session_of(session) }?;
        if address.is_null() {
            return Err(null("address"));
        }
        session.engine.leave_out(address.addr(), check(bytes)?)
    })
}
