//! A program as steps: it begins, goes on, and goes back where ranks fail, all by one loop.

use super::{Restored, Session};
use crate::{
    capture::Region,
    config::Recovery,
    error::{Error, ErrorKind, Result},
    plural::count,
    remark::remark,
    space::format::ElementType,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The region in which the number of steps that are done lies.
const STEPS: &str = "mainstay_steps";

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped {
    /// It was done.
    Done,
    /// There is no such step any more: the program has come to its end.
    Over,
}

/// An error of a program that runs in steps.
pub trait Failing: From<Error> {
    /// Whether it may be that a rank has failed.
    fn is_of_group(&self) -> bool;
}

impl Failing for Error {
    fn is_of_group(&self) -> bool {
        self.kind() == ErrorKind::GroupFailed
    }
}

/// Runs a program, from the newest complete revision if there is one, and through failures of ranks where the setting
/// `recovery` says how. `layout` makes the program ready on the ranks that there are, with the values that it begins
/// with, and protects what is to be saved: it is called at the beginning and after each failure, with nothing protected.
/// `brought_back` is told what came back then, before the next step. `step` does the step of this number, from 0 on. A checkpoint is taken after a step when one is due (`Session::due`).
/// Returns how many steps are done once the last revision is complete.
///
/// `session` is what the front has of the session. A checkpoint that cannot be saved is remarked, and the program goes on;
/// if it was the last one, its error is returned. An error of `layout` or `step` that is not one of the group ends the
/// run, and is returned, and so is one of the group where the ranks that are left cannot go on. Collective: all ranks are over at the
/// same step.
pub fn run<S: AsMut<Session>, E: Failing>(
    session: &mut S,
    mut layout: impl FnMut(&mut S) -> std::result::Result<(), E>,
    mut brought_back: impl FnMut(&mut S, Option<&Restored>),
    mut step: impl FnMut(&mut S, u64) -> std::result::Result<Stepped, E>,
) -> std::result::Result<u64, E> {
    let mut again = false;
    let went = loop {
        let mut went = || {
            let (steps, restored) = begin(session, &mut layout, std::mem::replace(&mut again, true))?;
            brought_back(session, restored.as_ref());
            let (mut done, mut unsaved) = (steps.load(Ordering::Relaxed), Ok(()));
            if let Some(Restored { revision, .. }) = restored {
                remark(
                    session.as_mut().rank(),
                    &format!("restored revision {revision}, after {}", count(done, "step")),
                );
            }
            loop {
                let stepped = step(session, done)?;
                session.as_mut().check()?;
                if stepped == Stepped::Over {
                    break;
                }
                done += 1;
                steps.store(done, Ordering::Relaxed);
                if session.as_mut().due(done)? {
                    unsaved = save(session.as_mut())?;
                }
            }
            session.as_mut().wait().and(unsaved)?;
            Ok(done)
        };
        match went() {
            Err(error) if E::is_of_group(&error) && session.as_mut().recovers() => match session.as_mut().recover() {
                Ok(_) => {}
                // The group cannot go on without ranks, whatever the setting says.
                Err(refused) if refused.kind() == ErrorKind::InvalidArgument => break Err(error),
                Err(failed) => break Err(E::from(failed)),
            },
            went => break went,
        }
    };
    // It lasts as long as the session. After the last step it stays with what the layout has protected, so that the program can
    // save the end itself, and start again from there.
    if went.is_err() {
        let _ = session.as_mut().unprotect(STEPS);
    }
    went
}

/// Takes a checkpoint; one that is not saved, but for ranks that failed, harms nothing. The inner error is that.
fn save(session: &mut Session) -> Result<Result<()>> {
    match session.checkpoint() {
        Ok(_) => Ok(Ok(())),
        Err(error) if error.kind() == ErrorKind::GroupFailed => Err(error),
        Err(error) => {
            remark(session.rank(), &format!("a checkpoint was not saved, the program goes on: {error}"));
            Ok(Err(error))
        }
    }
}

/// Lays the program out, `again` after a failure, and brings it back to the newest complete revision: returns where the number of
/// steps lies, and what came back.
#[allow(unsafe_code)]
fn begin<S: AsMut<Session>, E: Failing>(
    session: &mut S,
    layout: &mut impl FnMut(&mut S) -> std::result::Result<(), E>,
    again: bool,
) -> std::result::Result<(Arc<AtomicU64>, Option<Restored>), E> {
    session.as_mut().ours()?.begin_layout(again)?;
    let laid_out = layout(session);
    session.as_mut().ours()?.program.laid_out_before.clear();
    laid_out?;
    let session = session.as_mut();
    let steps = session.ours()?.program.steps.clone();
    steps.store(0, Ordering::Relaxed);
    // SAFETY: it lies there as long as the session.
    session.protect(unsafe { Region::array(STEPS, steps.as_ptr().cast(), ElementType::U64, &[1]) }?)?;
    let restored = session.restore()?;
    Ok((steps, restored))
}

impl Session {
    /// Whether ranks have failed as far as this rank knows: an error of the kind `GroupFailed`. Local, never waits; for
    /// programs that do not look at what their own messages come to.
    pub fn check(&mut self) -> Result<()> {
        let inner = self.ours()?;
        if inner.program.config.recovery == Recovery::Off {
            return Ok(());
        }
        inner.epoch.group.check()
    }

    /// Whether the session is set to go on without ranks that have failed.
    fn recovers(&mut self) -> bool {
        self.ours().is_ok_and(|inner| inner.program.config.recovery != Recovery::Off)
    }
}
