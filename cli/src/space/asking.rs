//! Asking a running job for a checkpoint, or to empty a node before one, and waiting for the result.

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
/// How long a space must be unlocked before its job counts as over: a job that goes on after a failure locks it anew.
const GRACE: Duration = Duration::from_secs(2);

/// A request to the job that has the space open.
pub struct Asking {
    space: PathBuf,
    request: Request,
    /// The node to empty. The revision must survive its loss, so it must be complete in its copies, too.
    leaves: Option<String>,
    /// The last answer: an answer to another request may overwrite it later.
    answer: RefCell<Option<CheckpointAnswer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The job has not come to its next safe point.
    Waiting,
    /// The revision is on its way. It may be complete on this level before the space, which is lost with the job or its
    /// nodes.
    Begun(u64, Option<LevelKind>),
    /// The revision is complete in the space itself; for a node to empty, also beside that node.
    Complete(u64),
}

impl Asking {
    pub fn begin(space: &Path) -> Result<Asking, Failure> {
        Ok(Asking::of(space, Request::send(space)?, None))
    }

    /// Asks that all objects and copies leave `node` before the checkpoint.
    pub fn begin_to_leave(space: &Path, node: &str) -> Result<Asking, Failure> {
        Ok(Asking::of(space, Request::evacuate(space, node)?, Some(node.to_owned())))
    }

    fn of(space: &Path, request: Request, leaves: Option<String>) -> Asking {
        Asking { space: space.to_owned(), request, leaves, answer: RefCell::default() }
    }

    /// Waits until the requested revision is complete. Returns its number and the result for the node. Fails if there
    /// is no job, or if the job was too late; then the request is withdrawn.
    pub fn until_complete(self, timeout: Duration) -> Result<(u64, Emptied), Failure> {
        let space = printable_path(&self.space);
        let start = Instant::now();
        loop {
            // Before the progress: a revision that was saved at the very end counts.
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
                "revision {revision} is complete in {}, and after {after} not in {space}: until it is, it may be lost with the job",
                level.name()
            ),
            (Progress::Begun(revision, _), Some(node)) => format!(
                "revision {revision} was begun, and after {after} it is not complete beside node {}: mainstay status {space} shows which losses the job would survive",
                printable(node)
            ),
            _ if self.is_heard() => format!(
                "the job has not reached a safe point within {after}: its steps take longer, or it waits for something; \
                 the request is withdrawn"
            ),
            _ => format!(
                "no program looked for requests within {after}: the program must call mainstay_due (in Python: session.due) \
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
        // After the request was sent again, an earlier answer no longer counts.
        *known = new.or_else(|| known.take().filter(|_| self.request.ticket() == before));
        let Some(answer) = &*known else { return Progress::Waiting };
        let is_it = |saved: &Saved| saved.lineage == answer.lineage.number && saved.revision >= answer.number;
        // An unreadable state may be readable the next moment.
        let standing = Standing::of(&self.space);
        let has_it = |saved: &[Saved]| saved.iter().any(is_it);
        let whole_in = standing.as_ref().ok().and_then(|now| now.levels.iter().find(|level| has_it(&level.complete)));
        let whole_in = whole_in.map(|level| level.level);
        // The caller may be about to end the job, and then the memory of its nodes is lost, perhaps also their disks.
        let is_whole = |level: &LevelStanding| match &self.leaves {
            Some(_) => has_it(&level.complete) && level.copies.iter().all(|copy| has_it(copy)),
            None => has_it(&level.complete) && level.level == LevelKind::Pfs,
        };
        // A level that is lost with the node has no copies, or may be the first to be complete.
        let outlives = |now: &Standing| {
            let (Some(node), Some(status)) = (&self.leaves, &now.status) else { return true };
            let is_left = |loss: &Loss| matches!(loss, Loss::Node(index) if is_called(&status.job.nodes[*index], node));
            let mut left = now.losses.iter().filter(|(loss, _)| is_left(loss));
            left.all(|(_, left)| left.as_ref().is_some_and(|left| is_it(&left.saved)))
        };
        // The job would not go back to a revision that is complete in files but that it does not know yet.
        let is_known = |now: &Standing| match (&self.leaves, &now.status) {
            (Some(_), Some(status)) => status
                .progress
                .levels
                .iter()
                .any(|level| has_it(&level.complete) && level.copies.iter().all(|copy| has_it(&copy.complete))),
            _ => true,
        };
        let complete = standing.is_ok_and(|now| now.levels.iter().any(is_whole) && outlives(&now) && is_known(&now));
        if complete { Progress::Complete(answer.number) } else { Progress::Begun(answer.number, whole_in) }
    }

    /// Has a job ever looked for requests here?
    pub fn is_heard(&self) -> bool {
        self.request.listener().is_some()
    }

    /// Gives up, so that the job does not save itself much later.
    pub fn withdraw(self) {
        // A request that stays costs one checkpoint, nothing more.
        let _ = self.request.withdraw();
    }
}

/// The reason that a begun revision is not complete in the space.
pub fn unsaved(revision: u64, whole_in: Option<LevelKind>) -> String {
    match whole_in {
        Some(level) => format!("before revision {revision}, complete in {}, was complete there", level.name()),
        None => format!("before revision {revision} was complete"),
    }
}

/// Does the job empty this node when it is asked for `asked`? It uses the same names as objects.
fn is_called(node: &Node, asked: &str) -> bool {
    // Nodes of one name: all but the first have their lowest rank appended.
    let shared = node.name.rsplit_once('/').map(|(name, _)| name);
    [Some(node.name.as_str()), Some(node.host.as_str()), shared].contains(&Some(asked))
}

/// True if no job has `space` open, nor had it open for some time.
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
