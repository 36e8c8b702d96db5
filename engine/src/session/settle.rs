//! What became of a revision that was begun: waiting for it, asking, and the end of the session.

use super::{Record, inner::Inner};
use crate::{
    commit::RevisionKey,
    error::{Error, Result},
    group::agree,
    place::{Saving, lock},
};
use std::sync::Arc;

/// A revision that was begun, until all ranks know what became of it.
pub(super) enum Attempt {
    Running(Arc<Saving>),
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
        self.fail_if_failed();
        let ready = self.check_not_begun("wait");
        let mine = self.settle_together();
        let agreed = agree(&*self.group, ready.and(mine));
        match self.saving.take() {
            Some(Attempt::Running(saving)) if agreed.is_ok() => {
                self.complete = self.complete_with(Some(saving.key()));
                // Not only at the next checkpoint: a job may take but one.
                if self.layouts.len() > 1 {
                    self.drop_old_layouts();
                }
            }
            _ => {}
        }
        agreed
    }

    pub(super) fn poll(&mut self) -> Result<bool> {
        if self.begun.is_some() {
            return Ok(false);
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
        self.fail_if_failed();
        self.abandon_begun();
        let waited = self.wait();
        let ended = match (&self.current, &waited) {
            (Some(current), Ok(())) => lock(&current.ledger).end(),
            _ => Ok(()),
        };
        let ended = agree(&*self.group, ended);
        waited.and(ended)
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
