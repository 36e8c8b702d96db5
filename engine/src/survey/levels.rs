//! A space with the levels before it, as far as visible: each revision once, with its places.

use super::{Place, Places, RevisionPart, RevisionSurvey, ShardSurvey, SpaceSurvey};
use crate::{
    commit::RevisionKey,
    device::Disk,
    error::{Error, Result},
    space::{LevelsNote, format::Manifest},
};
use std::{cmp::Reverse, collections::BTreeMap, path::Path};

impl SpaceSurvey {
    /// As `open`, with all revisions of the visible levels and copies: every shard of a revision from the nearest place
    /// that has it. Locks, layouts and portions are those of the space alone. Places that could not be read count as
    /// damage.
    pub fn open_all(directory: &Path) -> Result<SpaceSurvey> {
        let mut survey = SpaceSurvey::open(directory)?;
        let Places { all, unseen } = Places::of(directory);
        let (own, nearer) = match all.split_last() {
            Some((own, nearer)) if !nearer.is_empty() => (own, nearer),
            _ => {
                survey.damage.extend(unseen);
                return Ok(survey);
            }
        };
        let mut found = Vec::new();
        for place in nearer {
            match SpaceSurvey::open_on(&Disk::existing(&place.directory)) {
                Ok(SpaceSurvey { revisions, holds, damage, .. }) => {
                    survey.damage.extend(damage);
                    // A revision needs only one hold, even if it is held on several levels.
                    let is_new = |key| !survey.holds.iter().any(|held| held.key() == key);
                    let new: Vec<_> = holds.into_iter().filter(|held| is_new(held.key())).collect();
                    survey.holds.extend(new);
                    found.push((place.clone(), revisions));
                }
                // The level was opened, and nothing was saved there yet.
                Err(Error::NotASpace { .. }) => {}
                Err(Error::Damaged { what }) => survey.damage.extend(what),
                Err(error) => survey.damage.push(error.to_string()),
            }
        }
        found.push((own.clone(), std::mem::take(&mut survey.revisions)));
        if let Ok(Some(note)) = LevelsNote::of_space(directory) {
            let is_out = |key: RevisionKey| note.back.iter().any(|it| it.leaves_out(key.lineage.number, key.number));
            found.iter_mut().for_each(|(_, revisions)| revisions.retain(|revision| !is_out(revision.key)));
        }
        survey.revisions = united(found);
        survey.damage.extend(unseen);
        Ok(survey)
    }
}

/// Each revision of `found` once, the newest first. `found` has the nearest place first.
fn united(found: Vec<(Place, Vec<RevisionSurvey>)>) -> Vec<RevisionSurvey> {
    let mut all: BTreeMap<(RevisionKey, u32), RevisionSurvey> = BTreeMap::new();
    for (place, revision) in
        found.into_iter().flat_map(|(place, all)| all.into_iter().map(move |one| (place.clone(), one)))
    {
        let RevisionSurvey { key, layout, held, shard_count, complete, shards, .. } = revision;
        let new = || RevisionSurvey { key, layout, held, shard_count, complete, shards: Vec::new(), parts: Vec::new() };
        let united = all.entry((key, shard_count)).or_insert_with(new);
        if complete && !united.complete {
            united.layout = layout;
        }
        united.held |= held;
        united.complete |= complete;
        united.parts.push(RevisionPart { place, whole: complete, shards });
    }
    let mut all: Vec<RevisionSurvey> = all.into_values().map(RevisionSurvey::taken_together).collect();
    all.sort_by_key(|revision| Reverse(revision.key));
    all
}

impl RevisionSurvey {
    /// With each shard from the nearest place that has it.
    fn taken_together(mut self) -> RevisionSurvey {
        let shards = self.parts.iter().rev().flat_map(|part| &part.shards).map(|shard| (shard.shard, shard.clone()));
        self.shards = shards.collect::<BTreeMap<_, _>>().into_values().collect();
        self.complete |= self.shards.len() as u64 == u64::from(self.shard_count);
        self
    }

    /// The manifest of `shard`, which is one of `shards`, from the nearest place in which it can be read; `None` if a
    /// job removed it meanwhile.
    pub fn manifest(&self, shard: &ShardSurvey) -> Result<Option<Manifest>> {
        let nearest = shard.manifest();
        if matches!(nearest, Ok(Some(_))) {
            return nearest;
        }
        let spare = self.spares(shard.shard).find_map(|(_, spare)| spare.manifest().ok().flatten());
        spare.map_or(nearest, |manifest| Ok(Some(manifest)))
    }

    /// The same shard in other places, the nearest first, without the one in `shards`.
    pub(crate) fn spares(&self, shard: u32) -> impl Iterator<Item = (&Place, &ShardSurvey)> {
        let there = move |part: &&RevisionPart| part.shards.iter().any(|one| one.shard == shard);
        let of_place = self.parts.iter().filter(there).skip(1);
        of_place.filter_map(move |part| Some((&part.place, part.shards.iter().find(move |one| one.shard == shard)?)))
    }
}
