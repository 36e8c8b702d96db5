//! Protects revisions of earlier jobs. A job pushes them out only after it has restored or read one, or if the setting
//! `start` allows it.
//!
//! Invariant: a refusal depends only on facts that all ranks know, so all ranks get the same answer.

use super::{entry::Call, level::Level, state::SessionState};
use crate::{
    commit::RevisionKey,
    error::{Error, ErrorKind, Result},
};

impl SessionState {
    /// Makes a call that reads. The program knows the saved state once `read` returns something, or finds nothing
    /// readable.
    pub(super) fn reading<T>(&mut self, read: impl FnOnce(&mut SessionState) -> Result<T>) -> Result<T> {
        let came = read(self);
        if came.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Damaged) {
            self.program.restored.unread = false;
        }
        came
    }

    /// Refuses `call` if its checkpoint would push out a revision that the program has not read. `put` may add
    /// revisions, as a log does, until one has to go.
    pub(super) fn check_read(&self, call: Call) -> Result<()> {
        let is_earlier = |key: &RevisionKey| key.lineage != self.epoch.lineage;
        let pushed_out = self.levels.iter().filter(|level| call != Call::Put || level.is_full());
        let oldest = pushed_out.filter_map(|level| level.keys().filter(is_earlier).min()).next();
        match oldest {
            Some(oldest) if self.program.restored.unread => {
                let path = self.levels.farthest().location.device.path();
                Err(Error::NotRestored { path, revision: oldest.number })
            }
            _ => Ok(()),
        }
    }
}

impl Level {
    /// The revisions that are complete here, on the level alone or with its copies.
    pub(super) fn keys(&self) -> impl Iterator<Item = RevisionKey> {
        self.complete.iter().map(|complete| complete.key).chain(self.joint.iter().copied())
    }

    /// Whether the next complete revision pushes an older one out.
    fn is_full(&self) -> bool {
        self.complete.len() >= self.keep()
    }
}
