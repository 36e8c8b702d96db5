//! Revisions of earlier jobs are pushed out only by a job that has restored or read one, or that is set to (`start`).
//!
//! What must hold: whether a call is refused follows from what all ranks know, so that the answer is the same on all of
//! them.

use super::{entry::Call, inner::Inner, level::Level};
use crate::{
    commit::RevisionKey,
    error::{Error, ErrorKind, Result},
};

impl Inner {
    /// Makes a call that reads. Once `read` has returned something, or found nothing that can be read, the program
    /// knows what is there.
    pub(super) fn reading<T>(&mut self, read: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
        let came = read(self);
        if came.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Damaged) {
            self.program.unread = false;
        }
        came
    }

    /// Refuses `call` if the checkpoint that it begins would push out a revision that nobody has read. `put` may go on
    /// adding revisions, as a log does, and is refused once one has to go.
    pub(super) fn check_read(&self, call: Call) -> Result<()> {
        let is_earlier = |key: &RevisionKey| key.lineage != self.epoch.lineage;
        let pushed_out = self.levels.iter().filter(|level| call != Call::Put || level.is_full());
        let oldest = pushed_out.filter_map(|level| level.keys().filter(is_earlier).min()).next();
        match oldest {
            Some(oldest) if self.program.unread => {
                let path = self.levels.farthest().device.path();
                Err(Error::NotRestored { path, revision: oldest.number })
            }
            _ => Ok(()),
        }
    }
}

impl Level {
    /// The revisions that are complete here, with the copies of the level or without.
    pub(super) fn keys(&self) -> impl Iterator<Item = RevisionKey> {
        self.complete.iter().map(|complete| complete.key).chain(self.joint.iter().copied())
    }

    /// Whether the next complete revision pushes an older one out.
    fn is_full(&self) -> bool {
        self.complete.len() >= self.keep()
    }
}
