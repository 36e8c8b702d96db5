//! Goes back to a revision as a restore does, but fills nothing: the program reads the shards itself.
//!
//! Invariant: the ranks verify every shard of the chosen revision, each shard on one of them.

use super::{
    damage::{Attempted, Damage, Intact, intact},
    entry::Call,
    level::{Level, LevelKind},
    outputs::{Known, cut_outputs, find_outputs},
    reading::Reading,
    restore::{Restored, RestoredExtras},
    shard_transfers::{OwnShard, ShardTransfers},
    state::SessionState,
};
use crate::{
    capture::Outputs,
    commit::Complete,
    error::Result,
    ground::Instant,
    group::{Group, agree, gather_unequal},
    restore::{SavedShard, pour},
    space::format::OutputLength,
};
use std::collections::{BTreeMap, BTreeSet};

impl SessionState {
    /// Chooses only `revision` if given, otherwise the newest revision that can be read whole.
    pub(super) fn choose(&mut self, revision: Option<u64>) -> Result<Option<Restored>> {
        let ready = self.program.ready();
        let begun = Instant::now();
        let chosen = self.go_back(Call::Choose, revision, ready);
        self.has_gone_back(&chosen, begun);
        chosen
    }
}

impl Level {
    /// Verifies `candidate`, and cuts the output files. The result is damage of any ranks, or an error that is the same
    /// on all. Collective.
    pub(super) fn choose_one(
        &self,
        group: &dyn Group,
        outputs: &Outputs,
        candidate: &Complete,
        transfers: &ShardTransfers,
    ) -> Attempted<RestoredExtras> {
        if candidate.shards as usize == group.size() {
            self.choose_by_rank(group, outputs, candidate, transfers)
        } else {
            self.choose_by_sight(group, outputs, candidate, transfers)
        }
    }

    /// Each rank verifies its own shard. Collective.
    fn choose_by_rank(
        &self,
        group: &dyn Group,
        outputs: &Outputs,
        candidate: &Complete,
        transfers: &ShardTransfers,
    ) -> Attempted<RestoredExtras> {
        let number = candidate.key.number;
        let (portion, manifest) = self.read_shard(group, candidate, transfers)?;
        let known = manifest.as_ref().map_or_else(|_| Vec::new(), |manifest| manifest.annex.outputs.clone());
        let found = find_outputs(group, outputs, Known::OfThisRank(known))?;
        let verified = manifest
            .as_ref()
            .map_or_else(|damage| Ok(Err(damage.clone())), |manifest| intact(pour(&portion, manifest, &|_, _| ())));
        all_intact(group, verified)?;
        cut_outputs(group, outputs, &found, number)?;
        let manifest = manifest?;
        let notes = manifest.annex.notes.clone();
        let own = self.own_shard(group.rank() as u32, candidate, transfers);
        let seen: BTreeMap<_, _> =
            own.map(|(portion, kept)| (kept.entry.shard, (portion, kept.entry.clone()))).into_iter().collect();
        let verified = seen.keys().copied().collect();
        Ok(RestoredExtras { notes, reading: Reading::of(number, portion, manifest), seen, verified })
    }

    /// The ranks share the shards out by the place where each lies. Collective.
    fn choose_by_sight(
        &self,
        group: &dyn Group,
        outputs: &Outputs,
        candidate: &Complete,
        transfers: &ShardTransfers,
    ) -> Attempted<RestoredExtras> {
        let (own, shards) = self.describe_shards(group, candidate, transfers)?;
        let found = find_outputs(group, outputs, Known::OfAll(outputs_of(&shards)))?;
        all_intact(group, self.verify(&own))?;
        cut_outputs(group, outputs, &found, candidate.key.number)?;
        let notes = shards.first().map(|saved| saved.notes.clone()).unwrap_or_default();
        let verified: BTreeSet<u32> = own.iter().map(|own| own.saved.entry.shard).collect();
        let mut seen = self.readable(candidate, &shards, transfers);
        seen.extend(own.into_iter().map(|own| (own.saved.entry.shard, (own.portion, own.saved.entry))));
        Ok(RestoredExtras { notes, reading: Reading::OfOtherRanks(shards.len()), seen, verified })
    }

    /// Reads all blocks of these shards.
    fn verify(&self, own: &[OwnShard]) -> Result<Intact<()>> {
        let mut damage = Damage::default();
        for OwnShard { portion, manifest, saved } in own {
            if self.location.kind == LevelKind::Memory {
                // A mapped portion is read in place. If it cannot be mapped, it is read as from a disk.
                let _ = portion.map_all();
            }
            if let Err(what) = intact(pour(portion, manifest, &|_, _| ()))? {
                damage.add(what.of(&format!("shard {}", saved.entry.shard)));
            }
        }
        Ok(if damage.is_empty() { Ok(()) } else { Err(damage) })
    }
}

/// The damage of all ranks, if there is any. Collective.
fn all_intact(group: &dyn Group, mine: Result<Intact<()>>) -> Attempted<()> {
    let all = gather_unequal(group, &agree(group, mine)?.err())?;
    if all.iter().all(Option::is_none) {
        return Ok(());
    }
    Err(Damage::united(all.into_iter().flatten()).into())
}

/// The output files of all shards, each once.
fn outputs_of(shards: &[SavedShard]) -> Vec<OutputLength> {
    let mut all: Vec<OutputLength> = Vec::new();
    for output in shards.iter().flat_map(|shard| &shard.outputs) {
        if !all.contains(output) {
            all.push(output.clone());
        }
    }
    all
}
