//! Runs a program as steps: one loop for start, restart and recovery.

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

/// The region that holds the number of completed steps.
const STEPS: &str = "mainstay_steps";

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// The step was done.
    Done,
    /// There is no such step: the program has ended.
    Over,
}

/// An error of a program that runs in steps.
pub trait StepError: From<Error> {
    /// Whether the cause may be a failed rank.
    fn is_of_group(&self) -> bool;
}

impl StepError for Error {
    fn is_of_group(&self) -> bool {
        self.kind() == ErrorKind::GroupFailed
    }
}

/// Runs a program, from the newest complete revision if there is one. The setting `recovery` says how it goes on if
/// ranks fail. Returns the number of completed steps once the last revision is complete.
///
/// `layout` prepares the program on the present ranks with its initial values, and protects its regions. It is called
/// at the beginning and after each failure, with nothing protected. `brought_back` gets the result of the restore,
/// before the next step. `step` does the step of the given number, from 0 on. After a step a checkpoint is taken if one
/// is due (`Session::due`).
///
/// `session` is the front end's form of the session. A failed checkpoint causes a remark, and the program goes on; if
/// it was the last one, its error is returned. An error of `layout` or `step` ends the run and is returned. This
/// includes a group error if the remaining ranks cannot go on. Collective: all ranks end at the same step.
pub fn run<S: AsMut<Session>, E: StepError>(
    session: &mut S,
    mut layout: impl FnMut(&mut S) -> std::result::Result<(), E>,
    mut brought_back: impl FnMut(&mut S, Option<&Restored>),
    mut step: impl FnMut(&mut S, u64) -> std::result::Result<StepOutcome, E>,
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
                if stepped == StepOutcome::Over {
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
                // The group cannot go on without ranks, even if `recovery` is set.
                Err(refused) if refused.kind() == ErrorKind::InvalidArgument => break Err(error),
                Err(failed) => break Err(E::from(failed)),
            },
            went => break went,
        }
    };
    // The counter lasts as long as the session. After the last step it stays protected. Then the program can save its
    // end itself, and restart from there.
    if went.is_err() {
        let _ = session.as_mut().unprotect(STEPS);
    }
    went
}

/// Takes a checkpoint. A failed one does no harm, and its error is the inner one. Only a rank failure is the outer
/// error.
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

/// Lays the program out, `again` after a failure, and restores the newest complete revision. Returns the step counter
/// and the result of the restore.
#[allow(unsafe_code)]
fn begin<S: AsMut<Session>, E: StepError>(
    session: &mut S,
    layout: &mut impl FnMut(&mut S) -> std::result::Result<(), E>,
    again: bool,
) -> std::result::Result<(Arc<AtomicU64>, Option<Restored>), E> {
    session.as_mut().ours()?.begin_layout(again)?;
    let laid_out = layout(session);
    session.as_mut().ours()?.program.allocated.laid_out_before.clear();
    laid_out?;
    let session = session.as_mut();
    let steps = session.ours()?.program.steps.clone();
    steps.store(0, Ordering::Relaxed);
    // SAFETY: the counter lives as long as the session.
    session.protect(unsafe { Region::array(STEPS, steps.as_ptr().cast(), ElementType::U64, &[1]) }?)?;
    let restored = session.restore()?;
    Ok((steps, restored))
}

impl Session {
    /// Fails with `GroupFailed` if this rank knows of failed ranks. For programs that ignore the results of their own
    /// messages. Local, never waits.
    pub fn check(&mut self) -> Result<()> {
        let inner = self.ours()?;
        if inner.program.config.recovery == Recovery::Off {
            return Ok(());
        }
        inner.epoch.group.check()
    }

    /// Whether the setting `recovery` lets the session go on without failed ranks.
    fn recovers(&mut self) -> bool {
        self.ours().is_ok_and(|inner| inner.program.config.recovery != Recovery::Off)
    }
}
