//! If a shard cannot be read in the nearest place that has it, it is read in the next.

use crate::{error::Error, survey::RevisionSurvey};
use std::collections::BTreeMap;

/// The shards that are read in other places than the nearest.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// The number of places of each shard that were tried without success.
    turns: BTreeMap<u32, usize>,
    told: Vec<String>,
}

impl Elsewhere {
    /// Lets `revision` read `shard` from its next place, if `error` says that the shard is damaged or was removed where
    /// it was read. False: there is no other place, or another place would not help.
    pub(super) fn turn(&mut self, revision: &mut RevisionSurvey, shard: u32, error: &Error) -> bool {
        let why = match error {
            Error::Unreadable { what } => what.join("; "),
            Error::RevisionMissing { .. } => format!("shard {shard}: it was removed meanwhile"),
            _ => return false,
        };
        let turn = self.turns.entry(shard).or_default();
        let Some((place, spare)) = revision.spares(shard).nth(*turn) else { return false };
        *turn += 1;
        self.told.push(format!("{why}; read from {place} instead"));
        let spare = spare.clone();
        revision.shards[shard as usize] = spare;
        true
    }

    pub(super) fn told(&self) -> &[String] {
        &self.told
    }
}
