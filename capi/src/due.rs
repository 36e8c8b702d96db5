//! When to checkpoint.

use crate::{
    argument::null,
    error::{Status, guard},
    session::{Session, session_of},
};
use std::ffi::c_int;

/// Puts 1 into `*due` if a checkpoint should be taken now that the program has done `step` steps, else 0;
/// the same on all ranks. Every rank calls it at the same steps, with the same number. A checkpoint is
/// due by the settings every_steps, every_seconds and mtbf_seconds, by the signal of the setting
/// checkpoint_signal on any rank, and when someone asks from outside: `mainstay checkpoint`, and
/// `mainstay run` before the job's end.
///
/// While the last revision is not durable on the nearest level of any rank, none is due by steps or time: it is due at the
/// next step after that, unless the setting when_busy says `now`. Signals and requests are never put off.
///
/// Costs a count. About every agree_seconds, and where steps make a checkpoint due, it is collective, one small all-reduce: how many calls there
/// are until then came out of the one before, so that no step in between pays for it.
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
