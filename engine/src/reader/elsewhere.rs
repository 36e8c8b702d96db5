//! A shard that cannot be read in the nearest place that has it is read in the next.

use crate::{error::Error, survey::RevisionSurvey};
use std::collections::BTreeMap;

/// Which shards are read elsewhere than in the nearest place.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// How many places of each shard were tried in vain.
    turns: BTreeMap<u32, usize>,
    told: Vec<String>,
}

impl Elsewhere {
    /// Has `revision` take `shard` from the next place that has it, if `error` says that the shard is damaged where it was
    /// read, or was let go there. False: there is no other place, or none would mend the error.
    pub(super) fn turn(&mut self, revision: &mut RevisionSurvey, shard: u32, error: &Error) -> bool {
        let why = match error {
            Error::Unreadable { what } => what.join("; "),
            Error::RevisionMissing { .. } => format!("shard {shard}: it was let go meanwhile"),
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
