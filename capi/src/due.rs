//! When to checkpoint.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};
use std::ffi::c_int;

/// Puts 1 into `*due` if the program should checkpoint now, after `step` steps, else 0. The answer is the same on all
/// ranks. Every rank calls it at the same steps, with the same number. A checkpoint is due by the settings
/// every_steps, every_seconds and mtbf_seconds, by the signal of the setting checkpoint_signal on any rank, and by a
/// request from outside: `mainstay checkpoint`, and `mainstay run` before the job's end.
///
/// While the last revision is not durable on the nearest level of any rank, no checkpoint is due by steps or time. It
/// is due at the first step after that, unless the setting when_busy is `now`. Signals and requests are never put
/// off.
///
/// Most calls cost one increment. About every agree_seconds, and at steps that make a checkpoint due, the call is
/// collective, with one small all-reduce. Each all-reduce also fixes the number of calls until the next, so the calls
/// in between pay nothing for it.
///
/// # Safety
/// `session` is open, `due` points to an int.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_due(session: *mut Session, step: u64, due: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, due) = unsafe { (session_of(session)?, due.as_mut()) };
        let due = due.ok_or_else(|| null("due"))?;
        *due = c_int::from(session.engine.due(step)?);
        Ok(())
    })
}
