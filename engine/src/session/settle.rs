//! What became of a revision that was begun: waiting for it, asking, and the end of the session.

use super::{
    Record,
    entry::{Call, Entry},
    inner::Inner,
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
    pub(super) fn wait(&mut self) -> Result<()> {
        self.wait_in(Call::Wait).map(drop)
    }

    /// Waits until the last revision is complete, as a part of `call`. Collective.
    pub(super) fn wait_in(&mut self, call: Call) -> Result<Entry> {
        self.enter_if(call, Ok(())).map(|(entry, ())| entry)
    }

    /// What the ranks compare by a maximum: the number of the revision under way, 0 for none, and its complement, whose
    /// maximum is the lowest number's.
    pub(super) fn under_way(&self) -> [u64; 2] {
        let number = self.saving.as_ref().and_then(Attempt::key).map_or(0, |key| key.number);
        [number, !number]
    }

    pub(super) fn poll(&mut self) -> Result<bool> {
        if let Some(begun) = &self.begun {
            return begun.failure().map_or(Ok(false), Err);
        }
        match &self.saving {
            None => Ok(true),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Running(saving)) => match saving.poll() {
                None => self.is_seen_durable(),
                Some(Ok(())) => self.settle().map(|()| true),
                Some(Err(error)) => Err(error),
            },
        }
    }

    pub(super) fn last_record(&mut self) -> Option<Record> {
        if let Some(Attempt::Running(saving)) = &self.saving
            && matches!(saving.poll(), Some(Ok(())))
        {
            // It has ended: this does not wait.
            let _ = self.settle();
        }
        self.last
    }

    pub(super) fn close(mut self) -> Result<()> {
        let entry = self.wait_in(Call::Close)?;
        let ended = self.current.as_ref().map_or(Ok(()), |current| lock(&current.ledger).end());
        agree(self.group.with(&entry), ended)
    }

    /// Waits for this rank's part of the last revision.
    pub(super) fn settle(&mut self) -> Result<()> {
        match &self.saving {
            None => Ok(()),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Running(saving)) => {
                let phases = saving.wait()?;
                self.last = Some(Record { revision: saving.key().number, bytes: saving.item_bytes(), phases });
                Ok(())
            }
        }
    }
}

/// Ranks that keep different revisions would let go of the only complete one. What `under_way` came to over all ranks
/// tells.
pub(super) fn same_revision([highest, lowest]: [u64; 2]) -> Result<()> {
    if highest == !lowest {
        return Ok(());
    }
    let why = "the ranks have different revisions under way, or some have none; begin, end and give up each checkpoint on all \
               ranks";
    Err(Error::argument("checkpoint", why))
}
