//! The last checkpoint: before the job is asked to end, it is asked to save itself.

use super::spaces::is_free;
use crate::{
    exit::say,
    space::asking::{Asking, Progress},
};
use mainstay_engine::printable_path;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// One that is under way in each space of the job.
pub struct LastCheckpoint {
    asking: Vec<Asking>,
    /// `None` if it is further off than the clock goes.
    deadline: Option<Instant>,
}

impl LastCheckpoint {
    /// Asks, if the job has looked for requests: else it would wait in vain.
    pub fn ask(spaces: &[PathBuf], why: &str, is_last: bool, limit: Duration) -> Option<LastCheckpoint> {
        // One that the job has closed already, or not opened yet, is in nobody's hands.
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
        say(&format!("{why}: the job is asked for a {}checkpoint", if is_last { "last " } else { "" }));
        Some(LastCheckpoint { asking, deadline: Instant::now().checked_add(limit) })
    }

    /// Whether there is nothing to wait for any more.
    pub fn is_over(&mut self) -> bool {
        self.asking.retain(|asking| match asking.progress() {
            Progress::Complete(revision) => {
                say(&format!("revision {revision} of {} is complete", printable_path(asking.space())));
                false
            }
            Progress::Waiting if is_free(asking.space()) => {
                // It was closed, or all who had it open have failed.
                say(&format!(
                    "no rank has {} open any more, and no checkpoint was made",
                    printable_path(asking.space())
                ));
                false
            }
            _ => true,
        });
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            for asking in self.asking.drain(..) {
                say(&format!("no checkpoint of {} within the time given", printable_path(asking.space())));
                asking.withdraw();
            }
        }
        self.asking.is_empty()
    }
}
