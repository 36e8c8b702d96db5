//! What became of a revision that was begun: waiting for it, asking, and the end of the session.

use super::{
    Record,
    agreement::Alike,
    entry::{Call, Entry},
    inner::Inner,
    level::Level,
};
use crate::{
    commit::RevisionKey,
    error::{Error, Result},
    group::agree,
    place::{Shard, lock},
};
use std::sync::Arc;

/// A revision that was begun, until all ranks know what became of it.
pub(super) enum Attempt {
    Running(Arc<Shard>),
    /// It failed before there was anything to wait for.
    Failed(Error),
}

impl Attempt {
    pub(super) fn key(&self) -> Option<RevisionKey> {
        match self {
            Attempt::Running(saving) => Some(saving.key()),
            Attempt::Failed(_) => None,
        }
    }
}

impl Inner {
    /// Waits until the last revision is complete, as a part of `call`. Collective.
    pub(super) fn wait_in(&mut self, call: Call) -> Result<Entry> {
        self.enter_if(call, Ok(())).map(|(entry, ())| entry)
    }

    pub(super) fn poll(&mut self) -> Result<bool> {
        if let Some(begun) = &self.program.begun {
            return begun.failure().map_or(Ok(false), Err);
        }
        let level = self.levels.nearest_mut();
        match &level.saving {
            None => Ok(true),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Running(saving)) => match saving.poll() {
                None => saving.is_seen_durable(),
                Some(Ok(())) => level.settle().map(|()| true),
                Some(Err(error)) => Err(error),
            },
        }
    }

    pub(super) fn close(mut self) -> Result<()> {
        let entry = self.wait_in(Call::Close)?;
        // Each of them, whatever became of the others.
        let ended = self.levels.iter_mut().map(Level::end).fold(Ok(()), Result::and);
        agree(self.epoch.group.with(&entry), ended)
    }
}

impl Level {
    pub(super) fn last_record(&mut self) -> Option<Record> {
        if let Some(Attempt::Running(saving)) = &self.saving
            && matches!(saving.poll(), Some(Ok(())))
        {
            // It has ended: this does not wait.
            let _ = self.settle();
        }
        self.last
    }

    /// The session ends in order; and so do the portions that it took over from a job which is sure to have ended.
    fn end(&mut self) -> Result<()> {
        self.current.as_ref().map_or(Ok(()), |current| lock(&current.ledger).end())?;
        if self.locks_work {
            // What is left in doubt there is nothing that this session has saved.
            self.others.iter_mut().filter(|other| other.is_begun()).for_each(|other| drop(other.end()));
        }
        Ok(())
    }

    /// Waits for what this rank writes of the last revision.
    pub(super) fn settle(&mut self) -> Result<()> {
        match &self.saving {
            None => Ok(()),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Running(saving)) => {
                // A holder that has not told is in a call that waits for nothing, as the all-reduce is going to tell.
                if let Some(phases) = saving.wait()? {
                    self.last = Some(Record { revision: saving.key().number, bytes: saving.item_bytes(), phases });
                }
                Ok(())
            }
        }
    }
}

/// Ranks that keep different revisions would let go of the only complete one.
pub(super) fn same_revision(under_way: Alike) -> Result<()> {
    if under_way.is_so() {
        return Ok(());
    }
    let why = "the ranks have different revisions under way, or some have none; begin, end and give up each checkpoint on all \
               ranks";
    Err(Error::argument("checkpoint", why))
}
