//! The end of a shard in one of its targets: published or failed there, independently of the other targets.

use crate::{
    error::{Error, Result},
    ground::{Condvar, lock},
    space::format::PhaseRecord,
};
use std::sync::{Mutex, OnceLock};

#[derive(Debug, Default)]
pub(super) struct TargetOutcome {
    failure: OnceLock<Error>,
    /// The checkpoint's times, or the failure; from t3 on.
    outcome: Mutex<Option<Result<PhaseRecord>>>,
    ended: Condvar,
}

impl TargetOutcome {
    /// Marks the shard as unsavable in this target. The first failure is the cause of later ones.
    pub(super) fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }

    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Sets the outcome and wakes the waiting threads.
    pub(super) fn tell(&self, outcome: Result<PhaseRecord>) {
        lock(&self.outcome).get_or_insert(outcome);
        self.ended.notify_all();
    }

    /// Lets `note` add facts that became known only after the shard was published.
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
            outcome = self.ended.wait(&self.outcome, outcome);
        }
    }

    /// The outcome, without waiting; `None` before t3.
    pub(super) fn poll(&self) -> Option<Result<PhaseRecord>> {
        lock(&self.outcome).clone()
    }
}
