//! Saving.

use crate::{
    argument::{bytes_of, null, or_refuse},
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::LevelKind;
use std::ffi::{c_char, c_int};

/// Saves all protected regions as a new revision and returns at t2: the program may go on and change its memory.
/// `revision` may be NULL; otherwise it receives the revision's number.
///
/// Collective: one small all-reduce, which all ranks must reach at the same place of the program. If the call ends a
/// checkpoint of mainstay_begin, it is local, because the ranks agreed there.
///
/// Mainstay reads the program's memory and never changes it. No thread may write to it until the call returns: a
/// concurrent write can make a restore refuse the whole revision as damaged. If the revision before this one failed
/// and no rank has seen the error (mainstay_wait returns it), this call returns that error and saves nothing: call it
/// again.
///
/// # Safety
/// `session` is open, and the protected memory is valid and at rest until the call returns.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_checkpoint(session: *mut Session, revision: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, revision) = unsafe { (session_of(session)?, revision.as_mut()) };
        let number = session.engine.checkpoint()?;
        if let Some(revision) = revision {
            *revision = number;
        }
        Ok(())
    })
}

/// Waits until the last revision is complete: durable on all ranks. Collective. An error means that the revision is
/// not complete. Earlier revisions are unchanged. After MAINSTAY_SYNC_FAILED and MAINSTAY_GROUP_FAILED the next
/// opening of the space may still find it complete. All ranks get the error once, here or from mainstay_checkpoint.
/// Then nothing is in progress, and until the next checkpoint this returns MAINSTAY_OK at once: the failed revision
/// does not exist.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_wait(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.wait())
}

/// Waits until the last revision that went to `level` is complete there: "memory" or "disk" of the nodes, or "space",
/// the space that you opened. It does not wait for the levels behind it. It always waits for the nearest level, and
/// returns that level's errors like mainstay_wait. Collective. MAINSTAY_INVALID_ARGUMENT: the session has no such
/// level, or the ranks name different ones. Another error means that the level did not get the revision; ranks get
/// this error once. A revision whose turn came while the level was busy did not go there.
///
/// # Safety
/// `session` is open, `level` ends with a zero byte.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_wait_for(session: *mut Session, level: *const c_char) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, level) = unsafe { (session_of(session)?, bytes_of(level, "level")) };
        let level = level.and_then(|level| LevelKind::named(&String::from_utf8_lossy(level)));
        let level = or_refuse(&mut session.engine, level);
        session.engine.wait_for(level)
    })
}

/// Advances the transfers between this rank and others, such as copies to other nodes. Call it in programs that
/// compute for long between two calls of their session. Local, never waits. mainstay_wait, mainstay_close or the next
/// checkpoint return the errors of transfers. An error here means that the session is over.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_progress(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.progress())
}

/// Marks a moment inside a step, where one phase ends and the next begins. With `trace` or `predictor` Mainstay then
/// looks for the pages that the program has written since the last such moment. Otherwise the call does nothing.
/// Local, never waits for a write.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_tick(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.tick())
}

/// Puts into `*durable` whether this rank's part of the last revision is durable. Local, never waits. The answer is
/// also 1 if nothing is in progress: nothing was saved yet, or all ranks know that the last revision failed. The call
/// returns the error of this rank's part. `mainstay_wait` or the next checkpoint return it on all ranks.
///
/// # Safety
/// `session` is open, `durable` points to an int.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_poll(session: *mut Session, durable: *mut c_int) -> Status {
    guard(|| {
        // SAFETY: the caller's promises are passed on.
        let (session, durable) = unsafe { (session_of(session)?, durable.as_mut()) };
        let durable = durable.ok_or_else(|| null("durable"))?;
        *durable = c_int::from(session.engine.poll()?);
        Ok(())
    })
}
