//! How a shard ends in one of its targets: on its own, published or failed, whatever becomes of the others.

use crate::{
    error::{Error, Result},
    ground::lock,
    space::format::PhaseRecord,
};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Ending {
    failure: OnceLock<Error>,
    /// t3: with what the checkpoint took.
    outcome: Mutex<Option<Result<PhaseRecord>>>,
    ended: Condvar,
}

impl Ending {
    /// It cannot be saved there. The first failure is the cause of the others.
    pub(super) fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }

    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Tells whoever waits.
    pub(super) fn tell(&self, outcome: Result<PhaseRecord>) {
        lock(&self.outcome).get_or_insert(outcome);
        self.ended.notify_all();
    }

    /// What is known only after it was published: `note` gets what is told of that.
    pub(super) fn note_after(&self, note: impl FnOnce(&mut PhaseRecord)) {
        if let Some(Ok(phases)) = &mut *lock(&self.outcome) {
            note(phases);
        }
    }

    /// Waits for t3, or for the failure.
    pub(super) fn wait(&self) -> Result<PhaseRecord> {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = self.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is known so far, without waiting.
    pub(super) fn poll(&self) -> Option<Result<PhaseRecord>> {
        lock(&self.outcome).clone()
    }
}
