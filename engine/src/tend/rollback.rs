//! Going back to a revision for good: every root, on all levels, leaves out the newer ones.
//!
//! Invariants: all reasons for refusal are found before anything is written. In one place all newer revisions go at
//! once, with the write that takes the first portion's last root that refers to them: once one portion has let a
//! revision go, it is not complete any more. The revision itself and older ones stay as they are. The note in the space
//! comes first: from then on no job goes back to a newer revision in any place, even if the rollback is interrupted
//! between two places, or cannot see one.

use super::{
    prune::{Pruned, Tending, carry_out_all, on_disks},
    rules::{Fate, Reason},
    unseen::Unseen,
};
use crate::{
    commit::RevisionKey,
    device::Device,
    error::{Error, Result},
    mutant::{self, Mutant},
    space::{LevelsNote, format::Hold},
    survey::{HoldState, RevisionSurvey, SpaceSurvey},
};
use std::{collections::BTreeSet, path::Path};

/// The result of a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolledBack {
    /// The removed and the remaining revisions, in each place.
    Done(Vec<Pruned>),
    /// Newer revisions are held: nothing was changed.
    Held(Vec<Hold>),
}

/// Removes all revisions newer than `to` from the places `directories` of one space, complete or not. The space notes
/// that those in other places, out of sight, are left out. Fails as missing if `to` is not complete in these places, as
/// in use while a job has one of them open, and as out of sight if a job that did not end normally may have staged data
/// out of sight, unless `unseen` gives it up; checks `unseen` in each place. Calls `progress` with the number of
/// further portions done.
pub fn rollback(directories: &[(&Path, Unseen<'_>)], to: RevisionKey, progress: &dyn Fn(u64)) -> Result<RolledBack> {
    let note = || directories.iter().try_for_each(|(directory, _)| note_back(directory, to));
    on_disks(directories, |places| go_back(places, to, &note, progress))
}

/// Notes the rollback in the space of `directory`, if that has other levels before it.
fn note_back(directory: &Path, to: RevisionKey) -> Result<()> {
    let Some(mut note) = LevelsNote::of_space(directory)? else { return Ok(()) };
    note.go_back((to.lineage.number, to.number));
    note.replace(directory)
}

/// Like `rollback`, on devices.
pub fn rollback_on(
    places: &[(&dyn Device, Unseen<'_>)],
    to: RevisionKey,
    progress: &dyn Fn(u64),
) -> Result<RolledBack> {
    go_back(places, to, &|| Ok(()), progress)
}

/// Calls `note` when nothing can be refused any more, before anything else is written.
fn go_back<'a>(
    places: &[(&'a dyn Device, Unseen<'_>)],
    to: RevisionKey,
    note: &dyn Fn() -> Result<()>,
    progress: &dyn Fn(u64),
) -> Result<RolledBack> {
    let (mut held, mut there) = (Vec::new(), There::default());
    let mut begin = |(device, unseen): &(&'a dyn Device, Unseen<'_>)| {
        let mut can_write = Ok(());
        let fates = |survey: &SpaceSurvey| {
            held.extend(held_after(survey, to));
            there.add(survey, to);
            // Also if no revision goes: data staged out of sight is newer, and would come back.
            can_write = unseen.check(survey);
            after(survey, to)
        };
        let begun = Tending::begin_where(*device, fates, *unseen, |survey| unseen.ends_a_claim(survey))?;
        can_write.map(|()| begun)
    };
    let begun = places.iter().map(&mut begin).collect::<Result<Vec<_>>>()?;
    // The caller chose the revision before the places were locked.
    if !there.is_complete() {
        let path = places.last().map(|(device, _)| device.path()).unwrap_or_default();
        let why = format!("revision {} is not complete any more; nothing was changed; choose another one", to.number);
        return Err(Error::RevisionMissing { path, why });
    }
    if !held.is_empty() {
        return Ok(RolledBack::Held(held));
    }
    note()?;
    carry_out_all(begun, progress).map(RolledBack::Done)
}

/// The shards of a revision that are present in some places.
#[derive(Default)]
struct There {
    shards: BTreeSet<u32>,
    of: Option<u32>,
}

impl There {
    fn add(&mut self, survey: &SpaceSurvey, key: RevisionKey) {
        for revision in survey.revisions.iter().filter(|revision| revision.key == key) {
            self.of = Some(revision.shard_count);
            self.shards.extend(revision.shards.iter().map(|shard| shard.shard));
        }
    }

    fn is_complete(&self) -> bool {
        self.of.is_some_and(|count| (0..count).all(|shard| self.shards.contains(&shard)))
    }
}

/// The fates that `rollback` would give the revisions in the place of `survey`. Changes nothing.
pub fn after(survey: &SpaceSurvey, to: RevisionKey) -> Vec<Fate> {
    let newest = survey.newest().map(|newest| newest.key);
    let is_left = |key| mutant::is(Mutant::RollbackLeavesNewest) && Some(key) == newest;
    let fate = |revision: &RevisionSurvey| Fate {
        key: revision.key,
        layout: revision.layout,
        complete: revision.complete,
        bytes: revision.bytes(),
        t1_unix_ns: revision.t1_unix_ns(),
        reasons: if revision.key > to && !is_left(revision.key) { Vec::new() } else { vec![Reason::NotNewer] },
    };
    survey.revisions.iter().map(fate).collect()
}

/// The holds in the place of `survey` that a rollback would break.
pub fn held_after(survey: &SpaceSurvey, to: RevisionKey) -> Vec<Hold> {
    let wanted = survey.holds.iter().filter(|held| held.state != HoldState::Expired && held.key() > to);
    wanted.map(|held| held.hold.clone()).collect()
}
