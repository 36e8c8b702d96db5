//! Saving.

use crate::{
    argument::{bytes_of, null, or_refuse},
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::LevelKind;
use std::ffi::{c_char, c_int};

/// Saves all protected regions as a new revision and returns at t2: the program may go on and change
/// its memory. `revision` may be NULL; else it gets the revision's number.
///
/// Collective: the ranks talk to each other in one small all-reduce, all of them at the same place of the program. Where it
/// ends a checkpoint that mainstay_begin has begun, the ranks have talked there, and it is local.
///
/// The program's memory is read, never changed. It has to be at rest in all threads until the call returns: what is written to it
/// meanwhile can have the whole revision refused as damaged later. If the revision before this one failed and nobody has
/// been told (mainstay_wait tells), this call returns that error and saves nothing: call it again.
///
/// # Safety
/// `session` is open, and what is protected is valid and at rest until the call returns.
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

/// Waits until the last revision is complete: durable on all ranks. Collective. An error means that it
/// is not, and earlier revisions are as they were. After MAINSTAY_SYNC_FAILED and MAINSTAY_GROUP_FAILED
/// it may yet be found complete when the space is opened again. All ranks are told of it once, here or by
/// mainstay_checkpoint. Then nothing is under way, and until the next checkpoint this returns MAINSTAY_OK at once:
/// the revision that failed is not there.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_wait(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.wait())
}

/// Waits until the last revision that went to `level` is complete there: "memory" or "disk" of the nodes, or "space", the
/// space that was opened. Levels behind it go on meanwhile, and are not waited for; the nearest is in any case, and told
/// of as mainstay_wait does. Collective. MAINSTAY_INVALID_ARGUMENT if the session has no such level, or ranks wait for
/// different ones; another error means that the level did not get the revision, and is told once. A revision that found
/// the level busy at its turn did not go there.
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

/// Moves on what is under way between this rank and others, such as copies that go to other nodes: for programs that
/// compute for long between two calls of their session. Local, never waits. What fails is told by mainstay_wait,
/// mainstay_close or the next checkpoint; an error here means that the session is over.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_progress(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.progress())
}

/// A moment between two steps of the program at which it may be seen what it has written since the moment before: where one
/// phase of a step ends and the next begins. With `trace` it is recorded, for `mainstay oracle`; else nothing happens.
/// Local, never waits.
///
/// # Safety
/// `session` is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_tick(session: *mut Session) -> Status {
    // SAFETY: the caller's promise is passed on.
    guard(|| unsafe { session_of(session) }?.engine.tick())
}

/// Puts into `*durable` whether this rank's part of the last revision is durable. Local, never waits. If another
/// rank writes for this one (`aggregators`), as the medium shows: that it failed is told by `mainstay_wait`. 1 also
/// if nothing is under way: nothing was saved yet, or all ranks were told that the last revision failed. What this rank's part
/// failed at is returned; all ranks are told of it by `mainstay_wait`, or the next checkpoint.
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
