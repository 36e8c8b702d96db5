//! The last checkpoint: `run` asks the job to save itself before it asks the job to end.

use super::spaces::is_free;
use crate::{
    exit::say,
    space::asking::{Asking, Progress, unsaved},
};
use mainstay_engine::printable_path;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// The requests under way, one for each space of the job.
pub struct LastCheckpoint {
    asking: Vec<Asking>,
    /// `None` if it is beyond the range of the clock.
    deadline: Option<Instant>,
}

impl LastCheckpoint {
    /// Sends a request, if the job has looked for requests: otherwise the wait would be in vain.
    pub fn ask(spaces: &[PathBuf], why: &str, is_last: bool, limit: Duration) -> Option<LastCheckpoint> {
        // A space that the job has closed already, or not opened yet, has no process to answer.
        let open = spaces.iter().filter(|space| !is_free(space));
        let asked = open.filter_map(|space| match Asking::begin(space) {
            Ok(asking) if asking.is_heard() => Some(asking),
            Ok(asking) => {
                asking.withdraw();
                None
            }
            Err(failure) => {
                say(&failure.message);
                None
            }
        });
        let asking: Vec<Asking> = asked.collect();
        if asking.is_empty() {
            return None;
        }
        say(&format!("{why}: asking the job for a {}checkpoint", if is_last { "last " } else { "" }));
        Some(LastCheckpoint { asking, deadline: Instant::now().checked_add(limit) })
    }

    /// Is there nothing more to wait for?
    pub fn is_over(&mut self) -> bool {
        // It was closed, or all ranks with the space open have failed. This is checked before the saved revisions.
        self.asking.retain(|asking| !is_told(asking, is_free(asking.space())));
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            for asking in self.asking.drain(..) {
                let space = printable_path(asking.space());
                match asking.progress() {
                    Progress::Begun(revision, Some(level)) => {
                        say(&format!("revision {revision} is complete in {}, but not in {space} in time", level.name()))
                    }
                    _ => say(&format!("no checkpoint of {space} in time")),
                }
                asking.withdraw();
            }
        }
        self.asking.is_empty()
    }

    /// Reports the result of requests that were under way when the job ended.
    pub fn end(self) {
        for asking in self.asking {
            is_told(&asking, true);
            asking.withdraw();
        }
    }
}

/// Is the result known and reported? `is_closed`: no rank will work on it any more.
fn is_told(asking: &Asking, is_closed: bool) -> bool {
    let space = printable_path(asking.space());
    match asking.progress() {
        Progress::Complete(revision) => say(&format!("revision {revision} of {space} is complete")),
        Progress::Waiting if is_closed => {
            say(&format!("no rank has {space} open any more, and no checkpoint was made"));
        }
        Progress::Begun(revision, whole_in) if is_closed => {
            say(&format!("no rank had {space} open any more {}", unsaved(revision, whole_in)));
        }
        Progress::Waiting | Progress::Begun(..) => return false,
    }
    true
}
