//! Lists the revisions that a restore could choose, with the step and the notes of each.
//!
//! Invariant: a listing reads descriptions of shards, not their data, and it changes no saved state.

use super::{
    damage::Attempted,
    entry::Call,
    level::Level,
    restore::{is_of_revision, notes_of_program, pour_together},
    shard_transfers::ShardTransfers,
    state::SessionState,
};
use crate::{commit::Complete, error::Result, group::Group, space::format::Note};
use std::collections::BTreeMap;

/// A complete revision, as `revisions` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRevision {
    pub revision: u64,
    /// The step that the program had last given to `due` when it saved the revision; `None` if it had given none.
    pub step: Option<u64>,
    /// The notes of this rank's program, by name. If another number of ranks saved the revision, the notes of rank 0.
    pub notes: BTreeMap<String, String>,
}

/// The step and the notes in the description of a shard.
type Described = (u64, Vec<Note>);

impl SessionState {
    /// All complete revisions whose shards can be described, the newest first. Collective.
    pub(super) fn revisions(&mut self) -> Result<Vec<ListedRevision>> {
        let (entry, mut found) = self.look(Call::Revisions, None)?;
        let group = self.epoch.group.with(&entry);
        self.program.share_passed_over(group)?;
        self.levels.pass_over(&mut found, &self.program.restored.passed_over)?;
        let (mut listed, mut steps) = (Vec::new(), Vec::new());
        for of_one in std::mem::take(&mut found.all).chunk_by(|a, b| a.complete.key == b.complete.key) {
            found.all = of_one.to_vec();
            let read = |level: &Level, candidate: &Complete, transfers: &mut ShardTransfers| {
                level.described(group, candidate, transfers)
            };
            match self.levels.newest(group, &mut self.epoch.post, &found, read) {
                Ok((Some((chosen, (step, notes))), _)) => {
                    steps.push(step);
                    let notes = notes_of_program(notes);
                    listed.push(ListedRevision { revision: chosen.complete.key.number, step: None, notes });
                }
                Ok((None, _)) => {}
                Err(error) if is_of_revision(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // A rank may see no shard that has the step.
        group.all_max(&mut steps)?;
        for (one, step) in listed.iter_mut().zip(steps) {
            one.step = Some(step).filter(|step| *step > 0);
        }
        Ok(listed)
    }
}

impl Level {
    /// The step and the notes of this rank's shard of `candidate`, or of shard 0 if another number of ranks saved the
    /// revision. Collective.
    fn described(
        &self,
        group: &dyn Group,
        candidate: &Complete,
        transfers: &mut ShardTransfers,
    ) -> Attempted<Described> {
        if candidate.shards as usize != group.size() {
            let (_, shards) = self.describe_shards(group, candidate, transfers)?;
            let first = shards.into_iter().next();
            return Ok(first.map(|shard| (shard.entry.phases.step, shard.notes)).unwrap_or_default());
        }
        let (portion, manifest) = self.read_shard(group, candidate, transfers)?;
        let own = self.own_shard(group.rank() as u32, candidate, transfers);
        let step = own.map_or(0, |(_, kept)| kept.entry.phases.step);
        let notes = manifest.as_ref().map(|manifest| manifest.annex.notes.clone()).unwrap_or_default();
        pour_together(group, &portion, &manifest, None)?;
        Ok((step, notes))
    }
}
