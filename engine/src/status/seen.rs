//! The visible state of a space and its levels: the reports of jobs, and the data there.

use super::{Saved, document::Status};
use crate::{
    device::Disk,
    error::Error,
    printable::printable_path,
    space::LevelKind,
    survey::{Place, SpaceSurvey},
};
use std::collections::{BTreeMap, BTreeSet};

/// The visible state of a level.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) directories: Vec<String>,
    /// For each revision its shards, the number of a complete set, and the time when it was saved.
    pub(super) revisions: BTreeMap<(u64, u64), Found>,
    /// Some place could not be examined.
    pub(super) is_unsure: bool,
}

impl Seen {
    fn add(&mut self, survey: &SpaceSurvey) {
        for revision in &survey.revisions {
            let key = (revision.key.lineage.number, revision.key.number);
            let saved = (BTreeSet::new(), revision.shard_count, u64::MAX);
            let (shards, _, unix_ns) = self.revisions.entry(key).or_insert(saved);
            shards.extend(revision.shards.iter().map(|shard| shard.shard));
            *unix_ns = (*unix_ns).min(revision.t1_unix_ns());
        }
        self.is_unsure |= !survey.damage.is_empty();
    }

    pub(super) fn has(&self, revision: (u64, u64), shard: u32) -> bool {
        self.revisions.get(&revision).is_some_and(|(shards, ..)| shards.contains(&shard))
    }

    /// The revisions that are whole here, newest first.
    pub(super) fn whole(&self) -> Vec<Saved> {
        let whole = self.revisions.iter().rev().filter(|(_, found)| is_whole(found));
        whole.map(|(key, found)| saved(*key, found)).collect()
    }

    /// The other revisions that were saved by `ranks` ranks, with the shards that are here.
    pub(super) fn in_part(&self, ranks: u32) -> impl Iterator<Item = (Saved, BTreeSet<u32>)> {
        let in_part = self.revisions.iter().filter(move |(_, found)| !is_whole(found) && found.1 == ranks);
        in_part.map(|(key, found)| (saved(*key, found), found.0.clone()))
    }
}

type Found = (BTreeSet<u32>, u32, u64);

fn is_whole((shards, count, _): &Found) -> bool {
    shards.len() as u64 == u64::from(*count)
}

fn saved((lineage, revision): (u64, u64), (.., unix_ns): &Found) -> Saved {
    Saved { lineage, revision, saved_unix_ns: Some(*unix_ns) }
}

/// The last report of the newest job, in any place; unreadable places are added to `unseen`.
pub(super) fn newest_status(places: &[Place], unseen: &mut Vec<String>) -> Option<Status> {
    let age_key = |status: &Status| (status.progress.lineage, status.progress.told_unix_ns);
    let mut newest: Option<Status> = None;
    for place in places {
        match Status::read(&place.directory) {
            Ok(Some(status)) if newest.as_ref().is_none_or(|best| age_key(best) < age_key(&status)) => {
                newest = Some(status);
            }
            Ok(_) => {}
            Err(error) => unseen.push(text_of(error)),
        }
    }
    newest
}

/// The contents of the `places` of a space, by level and copy; `survey` is that of the space itself. Unreadable places
/// are added to `unseen`.
pub(super) fn seen_of(
    survey: &SpaceSurvey,
    places: &[Place],
    unseen: &mut Vec<String>,
) -> BTreeMap<(LevelKind, u32), Seen> {
    let mut seen: BTreeMap<(LevelKind, u32), Seen> = BTreeMap::new();
    for place in places.iter().filter(|place| place.level != LevelKind::Pfs) {
        let of_place = seen.entry((place.level, place.copy)).or_default();
        of_place.directories.push(printable_path(&place.directory));
        match SpaceSurvey::open_on(&Disk::existing(&place.directory)) {
            Ok(found) => {
                of_place.add(&found);
                unseen.extend(found.damage);
            }
            // A level is opened before anything is saved there.
            Err(Error::NotASpace { .. }) => {}
            Err(error) => {
                of_place.is_unsure = true;
                unseen.push(text_of(error));
            }
        }
    }
    let mut of_space = Seen { directories: vec![survey.path.clone()], ..Seen::default() };
    of_space.add(survey);
    seen.insert((LevelKind::Pfs, 0), of_space);
    seen
}

/// The text for an unreadable place, without advice.
fn text_of(error: Error) -> String {
    match error {
        Error::Damaged { what } | Error::Unreadable { what } => what.join("; "),
        other => other.to_string(),
    }
}
