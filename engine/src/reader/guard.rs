//! The hold of a reader: it keeps the revision while it is read, and no longer.

use crate::{
    commit::RevisionKey,
    device::{Device, forks},
    ground::unix_ns,
    space::format::Hold,
    tend::{Holding, hold_on, release_one_on},
};
use std::{sync::Arc, time::Duration};

/// The duration of a hold without renewal. After a reader was interrupted, its hold ends by then.
const HOLD: Duration = Duration::from_secs(3600);
/// The age from which the next use renews a hold, and the delay before a failed renewal is tried again.
const RENEWED_AFTER: Duration = Duration::from_secs(300);

/// The hold of one reader. Dropping it releases the hold, except in a forked child, because the parent owns it.
pub(super) struct Guard {
    device: Arc<dyn Device>,
    note: String,
    /// `None`: no job has the space open, or there is no permission or room for a hold.
    hold: Option<Hold>,
    /// The time when it was last taken, or a renewal failed.
    tried_unix_ns: u64,
    /// The fork count of the process when it took the hold.
    forks: u32,
}

impl Guard {
    /// Holds nothing yet. `note` names the reader.
    pub(super) fn new(device: Arc<dyn Device>, note: &str) -> Guard {
        Guard { device, note: note.to_owned(), hold: None, tried_unix_ns: 0, forks: forks() }
    }

    /// Holds the revision `key`; false if it was removed already.
    pub(super) fn hold(&mut self, key: RevisionKey) -> bool {
        self.tried_unix_ns = unix_ns();
        let ends = self.tried_unix_ns + HOLD.as_nanos() as u64;
        match hold_on(&*self.device, key, &self.note, ends, Duration::ZERO) {
            Ok(Holding::Counts(hold) | Holding::Pending(hold)) => self.hold = Some(hold),
            Ok(Holding::Gone) => return false,
            // Without a hold the reader goes on: every block that it reads is verified.
            _ => {}
        }
        true
    }

    /// Renews the hold before it ends.
    pub(super) fn renew(&mut self, key: RevisionKey) {
        let is_old = self.tried_unix_ns + (RENEWED_AFTER.as_nanos() as u64) < unix_ns();
        if self.forks == forks() && self.hold.is_some() && is_old {
            let before = self.hold.take();
            self.hold(key);
            match self.hold {
                Some(_) => self.release(before),
                // The previous hold still counts.
                None => self.hold = before,
            }
        }
    }

    fn release(&self, hold: Option<Hold>) {
        if let Some(hold) = hold {
            // A hold that cannot be released ends by itself.
            let _ = release_one_on(&*self.device, &hold);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let hold = self.hold.take();
        if self.forks == forks() {
            self.release(hold);
        }
    }
}
