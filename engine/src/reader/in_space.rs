//! The revision of a reader outside a job: its holds, and all places of its shards. If a shard cannot be read in the
//! nearest place that has it, it is read in the next.

use super::{ShardPlace, guard::Guard};
use crate::{
    error::{Error, Result},
    space::format::{Item, Manifest},
    survey::{RevisionSurvey, ShardSurvey},
};
use std::collections::BTreeMap;

/// The revision as it was found in a space, and the holds on it.
pub(super) struct InSpace {
    /// Its `shards` are the places where they are read.
    pub(super) revision: RevisionSurvey,
    /// The number of places of each shard that were tried without success.
    turns: BTreeMap<u32, usize>,
    /// The shards that are read in other places than the nearest, and why.
    pub(super) elsewhere: Vec<String>,
    /// The parts of the space that could not be read.
    pub(super) damage: Vec<String>,
    guards: Vec<Guard>,
}

impl InSpace {
    pub(super) fn new(revision: RevisionSurvey, damage: Vec<String>, guards: Vec<Guard>) -> InSpace {
        InSpace { revision, turns: BTreeMap::new(), elsewhere: Vec::new(), damage, guards }
    }

    /// Renews the holds before they end.
    pub(super) fn renew(&mut self) {
        let key = self.revision.key;
        self.guards.iter_mut().for_each(|guard| guard.renew(key));
    }

    /// Where `shard` is read.
    pub(super) fn survey(&self, shard: u32) -> Option<&ShardSurvey> {
        self.revision.shards.get(shard as usize)
    }

    /// Each shard in the nearest place in which it can be read; `None` if a job removed the revision meanwhile.
    pub(super) fn places(&mut self) -> Result<Option<Vec<ShardPlace>>> {
        let mut all = Vec::new();
        while let Some(survey) = self.revision.shards.get(all.len()) {
            let error = match survey.manifest() {
                Ok(Some(manifest)) => {
                    all.push(ShardPlace::with(survey.portion(), survey.entry(), manifest));
                    continue;
                }
                Ok(None) => survey.let_go(),
                Err(error) => survey.judge(error),
            };
            if !self.turn(all.len() as u32, &error) {
                return if matches!(error, Error::RevisionMissing { .. }) { Ok(None) } else { Err(error) };
            }
        }
        Ok(Some(all))
    }

    /// The next place of `shard`, after an `error` of reading it where its manifest is `before`. Returns the error if
    /// there is none.
    pub(super) fn next(&mut self, shard: u32, error: Error, before: &Manifest) -> Result<ShardPlace> {
        let mut error = match self.survey(shard) {
            Some(survey) => survey.judge(error),
            None => error,
        };
        while self.turn(shard, &error) {
            let survey = &self.revision.shards[shard as usize];
            match survey.manifest() {
                Ok(Some(manifest)) if is_same(&manifest, before) => {
                    return Ok(ShardPlace::with(survey.portion(), survey.entry(), manifest));
                }
                Ok(Some(_)) => error = Error::Unreadable { what: vec![format!("shard {shard}: it has other items")] },
                Ok(None) => error = survey.let_go(),
                Err(other) => error = survey.judge(other),
            }
        }
        Err(error)
    }

    /// Lets `shard` be read in its next place, if `error` says that it is damaged or was removed where it was read.
    /// False: there is no other place, or another place would not help.
    fn turn(&mut self, shard: u32, error: &Error) -> bool {
        let why = match error {
            Error::Unreadable { what } => what.join("; "),
            Error::RevisionMissing { .. } => format!("shard {shard}: it was removed meanwhile"),
            _ => return false,
        };
        let turn = self.turns.entry(shard).or_default();
        let Some((place, spare)) = self.revision.spares(shard).nth(*turn) else { return false };
        *turn += 1;
        self.elsewhere.push(format!("{why}; read from {place} instead"));
        let spare = spare.clone();
        self.revision.shards[shard as usize] = spare;
        true
    }
}

/// Whether two manifests describe the same shard, possibly in different places.
fn is_same(one: &Manifest, other: &Manifest) -> bool {
    let same = |one: &Item, other: &Item| {
        (&one.name, one.bytes, one.element, &one.shape) == (&other.name, other.bytes, other.element, &other.shape)
    };
    one.items.len() == other.items.len() && one.items.iter().zip(&other.items).all(|(one, other)| same(one, other))
}
