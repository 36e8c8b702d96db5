//! A revision on its way to a level, from its begin until all ranks know the outcome.

use super::copies::Copying;
use crate::{commit::RevisionKey, error::Error, place::Shard};
use std::sync::Arc;

/// The state of a revision, from its begin until all ranks know the outcome.
pub(super) enum Attempt {
    Running(Arc<Shard>),
    /// Copies on their way to the holders.
    Copying(Copying),
    /// The revision failed before this rank could start to save it.
    Failed(Error),
}

impl Attempt {
    pub(super) fn key(&self) -> Option<RevisionKey> {
        match self {
            Attempt::Running(saving) => Some(saving.key()),
            Attempt::Copying(copying) => Some(copying.key()),
            Attempt::Failed(_) => None,
        }
    }
}
