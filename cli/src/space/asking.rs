//! Asking a running job for a checkpoint, or to have a node left before it, and seeing that through.

use crate::exit::Failure;
use mainstay_engine::{
    LevelKind, SpaceSurvey, printable, printable_path,
    space::format::{CheckpointAnswer, Emptied},
    status::{LevelStanding, Loss, Node, Saved, Standing},
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
    /// The node whose loss the revision is to outlive: it is to be complete in its copies, too.
    leaves: Option<String>,
    /// The last one: that to another request may lie over it later.
    answer: RefCell<Option<CheckpointAnswer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The job has not come to its next safe point.
    Waiting,
    /// The revision of this number is on its way: whole on this level before the space, which goes with the job or its nodes.
    Begun(u64, Option<LevelKind>),
    /// It is whole in the space itself; where a node is left, beside that.
    Complete(u64),
}

impl Asking {
    pub fn begin(space: &Path) -> Result<Asking, Failure> {
        Ok(Asking::of(space, Request::send(space)?, None))
    }

    /// Has all objects, and the copies that are there, leave `node` before.
    pub fn begin_to_leave(space: &Path, node: &str) -> Result<Asking, Failure> {
        Ok(Asking::of(space, Request::evacuate(space, node)?, Some(node.to_owned())))
    }

    fn of(space: &Path, request: Request, leaves: Option<String>) -> Asking {
        Asking { space: space.to_owned(), request, leaves, answer: RefCell::default() }
    }

    /// Waits until the revision that was asked for is complete, and returns its number and what came of the wish to leave a
    /// node. `Failure`: there is no job, or it did not come to it in time; the request is withdrawn.
    pub fn until_complete(self, timeout: Duration) -> Result<(u64, Emptied), Failure> {
        let space = printable_path(&self.space);
        let start = Instant::now();
        loop {
            // Before looking at what there is: what was saved at the very end counts.
            let is_over = is_over(&self.space)?;
            let progress = self.progress();
            if let Progress::Complete(revision) = progress {
                return Ok((revision, self.answer.into_inner().map(|answer| answer.emptied).unwrap_or_default()));
            }
            if is_over {
                self.withdraw();
                let without = match progress {
                    Progress::Begun(revision, whole_in) => unsaved(revision, whole_in),
                    _ => "without another checkpoint".to_owned(),
                };
                return Err(Failure::lost(format!("the job that had {space} open ended {without}")));
            }
            if start.elapsed() > timeout {
                return Err(self.too_late(progress, timeout));
            }
            thread::sleep(POLL);
        }
    }

    fn too_late(self, progress: Progress, timeout: Duration) -> Failure {
        let space = printable_path(&self.space);
        let after = humantime::format_duration(timeout);
        let message = match (progress, &self.leaves) {
            (Progress::Begun(revision, None), None) => {
                format!("revision {revision} was begun, and is not complete after {after}")
            }
            (Progress::Begun(revision, Some(level)), None) => format!(
                "revision {revision} is complete in {}, and after {after} not in {space}: until it is, it may go with the job",
                level.name()
            ),
            (Progress::Begun(revision, _), Some(node)) => format!(
                "revision {revision} was begun, and after {after} it is not complete beside node {}: mainstay status {space} tells \
                 which loss would be survived",
                printable(node)
            ),
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
        let whole_in = standing.as_ref().ok().and_then(|now| now.levels.iter().find(|level| has_it(&level.complete)));
        let whole_in = whole_in.map(|level| level.level);
        // Whoever asks may be about to end the job, with which the memory of its nodes goes, and their disks perhaps.
        let is_whole = |level: &LevelStanding| match &self.leaves {
            Some(_) => has_it(&level.complete) && level.copies.iter().all(|copy| has_it(copy)),
            None => has_it(&level.complete) && level.level == LevelKind::Pfs,
        };
        // A level that goes with the node has no copies, or may be the first to be complete.
        let outlives = |now: &Standing| {
            let (Some(node), Some(told)) = (&self.leaves, &now.told) else { return true };
            let is_left = |loss: &Loss| matches!(loss, Loss::Node(index) if is_called(&told.job.nodes[*index], node));
            let mut left = now.losses.iter().filter(|(loss, _)| is_left(loss));
            left.all(|(_, left)| left.as_ref().is_some_and(|left| is_it(&left.saved)))
        };
        // What is whole in files alone, and of which the job does not know yet, is not what it would go back to.
        let is_known = |now: &Standing| match (&self.leaves, &now.told) {
            (Some(_), Some(told)) => told
                .told
                .levels
                .iter()
                .any(|level| has_it(&level.complete) && level.copies.iter().all(|copy| has_it(&copy.complete))),
            _ => true,
        };
        let complete = standing.is_ok_and(|now| now.levels.iter().any(is_whole) && outlives(&now) && is_known(&now));
        if complete { Progress::Complete(answer.number) } else { Progress::Begun(answer.number, whole_in) }
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

/// Why a revision that was begun is not complete in the space.
pub fn unsaved(revision: u64, whole_in: Option<LevelKind>) -> String {
    match whole_in {
        Some(level) => format!("before revision {revision}, complete in {}, was complete there", level.name()),
        None => format!("before revision {revision} was complete"),
    }
}

/// Whether the job leaves this node when it is asked to leave `asked`: as objects go by it.
fn is_called(node: &Node, asked: &str) -> bool {
    // Of nodes of one name, all but the first have their lowest rank behind it.
    let shared = node.name.rsplit_once('/').map(|(name, _)| name);
    [Some(node.name.as_str()), Some(node.host.as_str()), shared].contains(&Some(asked))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_left_by_its_name_by_its_host_and_by_the_name_that_others_have_too() {
        let node = |name: &str| Node { name: name.to_owned(), host: "h1".to_owned(), ranks: vec![(2, 4)] };
        for asked in ["rack", "rack/2", "h1"] {
            assert!(is_called(&node("rack/2"), asked), "{asked}");
        }
        for asked in ["rack/0", "2", "h"] {
            assert!(!is_called(&node("rack/2"), asked), "{asked}");
        }
    }
}
