//! The program's own variables.

use crate::{
    argument::null,
    error::{Status, guard},
    memory::check,
    session::{Session, session_of},
};
use std::ffi::c_void;

/// Protects the program's own variables, its .data and .bss, where C and Fortran programs keep their static arrays.
/// They are regions with names that begin with "globals/", and come back in a fresh run of the same program. Call it
/// before mainstay_restore. Local.
///
/// Not included are variables that the program takes over from shared libraries (stdout, environ, the handles of
/// MPI), variables of shared libraries and of threads (_Thread_local), memory of mainstay_leave_out, and memory
/// protected by a name of its own, before or after this call. After a restore these pointers point to the same
/// objects, wherever they are now: the variables that hold `session`, pointers to the beginning of another region,
/// and pointers to the program's own variables and functions that the compiler filled in. Every other pointer, such
/// as one from malloc, has the address of the run that saved it: protect the memory that it points to by a name, or
/// leave the pointer out.
///
/// A restore of a revision with the globals of another program, also of one compiled anew, fails with
/// MAINSTAY_OTHER_PROGRAM. MAINSTAY_INVALID_ARGUMENT: the program is linked statically (-static), or a followed
/// region (mainstay_follow) is among its variables. Variables come back with the pointers to them, and need no name
/// of their own. If a region protected among them moves later, the next checkpoint or restore fails in the same way.
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

/// Makes a later mainstay_protect_globals leave out the `bytes` bytes at `address`: checkpoints do not save them, and
/// a restore leaves them as they are. Use it for the data of one run: communicators, open files, and pointers to
/// memory that is not protected. Local.
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
