//! Asking a running job for a checkpoint, or to have a node left before it, and seeing that through.

use crate::exit::Failure;
use mainstay_engine::{
    SpaceSurvey, printable_path,
    space::format::{CheckpointAnswer, Emptied},
    status::{LevelStanding, Saved, Standing},
    tend::Request,
};
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(20);
/// How long a space has to be nobody's before its job is over: one that goes on after a failure takes its locks anew.
const GRACE: Duration = Duration::from_secs(2);

/// A request to the job that has a space open.
pub struct Asking {
    space: PathBuf,
    request: Request,
    /// Whether the revision is to be complete in its copies, too.
    with_copies: bool,
    /// The last one: that to another request may lie over it later.
    answer: RefCell<Option<CheckpointAnswer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The job has not come to its next safe point.
    Waiting,
    /// The revision of this number is on its way.
    Begun(u64),
    /// It can be restored.
    Complete(u64),
}

impl Asking {
    pub fn begin(space: &Path) -> Result<Asking, Failure> {
        Ok(Asking::of(space, Request::send(space)?, false))
    }

    /// Has all objects, and the copies that are there, leave `node` before.
    pub fn begin_to_leave(space: &Path, node: &str) -> Result<Asking, Failure> {
        Ok(Asking::of(space, Request::evacuate(space, node)?, true))
    }

    fn of(space: &Path, request: Request, with_copies: bool) -> Asking {
        Asking { space: space.to_owned(), request, with_copies, answer: RefCell::default() }
    }

    /// Waits until the revision that was asked for is complete, and returns its number and what came of the wish to leave a
    /// node. `Failure`: there is no job, or it did not come to it in time; the request is withdrawn.
    pub fn until_complete(self, timeout: Duration) -> Result<(u64, Emptied), Failure> {
        let space = printable_path(&self.space);
        let start = Instant::now();
        loop {
            let progress = self.progress();
            if let Progress::Complete(revision) = progress {
                return Ok((revision, self.answer.into_inner().map(|answer| answer.emptied).unwrap_or_default()));
            }
            if start.elapsed() > timeout {
                return Err(self.too_late(progress, timeout));
            }
            if progress == Progress::Waiting && is_over(&self.space)? {
                self.withdraw();
                return Err(Failure::lost(format!("the job that had {space} open ended without another checkpoint")));
            }
            thread::sleep(POLL);
        }
    }

    fn too_late(self, progress: Progress, timeout: Duration) -> Failure {
        let after = humantime::format_duration(timeout);
        let message = match progress {
            Progress::Begun(revision) => format!("revision {revision} was begun, and is not complete after {after}"),
            _ if self.is_heard() => format!(
                "the job has not come to a safe point within {after}: its steps take longer, or it waits for something; \
                 the request is withdrawn"
            ),
            _ => format!(
                "nobody looked for requests within {after}: the program must call mainstay_due (in Python: session.due) \
                 in its loop; the request is withdrawn"
            ),
        };
        self.withdraw();
        Failure::lost(message)
    }

    pub fn space(&self) -> &Path {
        &self.space
    }

    pub fn progress(&self) -> Progress {
        let (before, new) = (self.request.ticket(), self.request.answer());
        let mut known = self.answer.borrow_mut();
        // Once the request had to be sent again, what was answered before counts no more.
        *known = new.or_else(|| known.take().filter(|_| self.request.ticket() == before));
        let Some(answer) = &*known else { return Progress::Waiting };
        let is_it = |saved: &Saved| saved.lineage == answer.lineage.number && saved.revision >= answer.number;
        // What cannot be read this moment may be the next.
        let standing = Standing::of(&self.space);
        let has_it = |saved: &[Saved]| saved.iter().any(is_it);
        let is_whole = |level: &LevelStanding| {
            has_it(&level.complete) && (!self.with_copies || level.copies.iter().all(|copy| has_it(copy)))
        };
        let complete = standing.is_ok_and(|now| now.levels.iter().any(is_whole));
        if complete { Progress::Complete(answer.number) } else { Progress::Begun(answer.number) }
    }

    /// Whether a job ever looked for requests here.
    pub fn is_heard(&self) -> bool {
        self.request.listener().is_some()
    }

    /// Gives up: the job is not to save itself long after.
    pub fn withdraw(self) {
        // One that stays costs a checkpoint, and no more.
        let _ = self.request.withdraw();
    }
}

/// Whether no job has `space` open, nor has for some time.
pub fn is_over(space: &Path) -> Result<bool, Failure> {
    let start = Instant::now();
    while SpaceSurvey::is_in_use(space)? == Some(false) {
        if start.elapsed() > GRACE {
            return Ok(true);
        }
        thread::sleep(POLL);
    }
    Ok(false)
}
