//! The type, shape and size of a saved region, before the program protects it: for arrays that grow.
//!
//! Invariant: the answer comes from the revision that `restore` tries first.

use super::{
    damage::Attempted, entry::Call, level::Level, restore::pour_together, shard_transfers::ShardTransfers,
    state::SessionState,
};
use crate::{commit::Complete, error::Result, group::Group, space::format::Item};

impl SessionState {
    /// The item `name` of this rank's shard in the newest revision, or in the requested one. `None` if there is no
    /// revision, or no such item in it. Collective.
    pub(super) fn saved(&mut self, revision: Option<u64>, name: &str) -> Result<Option<Item>> {
        let (entry, mut found) = self.look(Call::Saved, revision)?;
        let group = self.epoch.group.with(&entry);
        self.program.share_passed_over(group)?;
        self.levels.pass_over(&mut found, &self.program.restored.passed_over)?;
        let read = |level: &Level, candidate: &Complete, transfers: &mut ShardTransfers| {
            level.saved(group, candidate, transfers, name)
        };
        let (came, _) = self.levels.newest(group, &mut self.epoch.post, &found, read)?;
        Ok(came.and_then(|(_, item)| item))
    }
}

impl Level {
    /// The item of this name in this rank's shard of `candidate`. If another number of ranks saved the revision, the
    /// item of the first shard that has one. Collective.
    fn saved(
        &self,
        group: &dyn Group,
        candidate: &Complete,
        transfers: &ShardTransfers,
        name: &str,
    ) -> Attempted<Option<Item>> {
        let of_name = |items: &[Item]| {
            let found = items.iter().find(|item| item.name == name);
            found.map(|item| Item { extents: Vec::new(), ..item.clone() })
        };
        if candidate.shards as usize != group.size() {
            let (_, shards) = self.describe_shards(group, candidate, transfers)?;
            return Ok(shards.iter().find_map(|saved| of_name(&saved.items)));
        }
        let (portion, manifest) = self.read_shard(group, candidate, transfers)?;
        let item = manifest.as_ref().ok().and_then(|manifest| of_name(&manifest.items));
        pour_together(group, &portion, &manifest, None)?;
        Ok(item)
    }
}
