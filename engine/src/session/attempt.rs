//! A revision on its way to a level: one that was begun, until all ranks know what became of it.

use super::copies::Copying;
use crate::{commit::RevisionKey, error::Error, place::Shard};
use std::sync::Arc;

/// A revision that was begun, until all ranks know what became of it.
pub(super) enum Attempt {
    Running(Arc<Shard>),
    /// Copies on their way to the holders.
    Copying(Copying),
    /// The revision failed before there was anything to wait for.
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
