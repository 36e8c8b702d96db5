//! Removing unwanted revisions as a job does: under its locks, with a new lineage, by roots that no longer refer to
//! them. If one space has several places, all are locked and checked before anything is written.
//!
//! Invariants: after every write, a valid slot of every portion refers to the newest complete revision, and to all
//! revisions that stay and that the newest roots referred to. A wanted revision that only older roots refer to is kept
//! too, unless the power fails in the one write that overwrites those roots. If a portion has no room for the roots,
//! nothing is written to any.

use super::{
    emptied::{holds_nothing, remove},
    opening::{begin_all, lock, open_usable},
    rules::{Fate, Rules, fates},
    unseen::Unseen,
};
use crate::{
    commit::{Ledger, RevisionKey},
    device::{Access, Device, Disk},
    error::Result,
    space::{LayoutFile, Locks, format::Lineage, layouts},
    survey::{RevisionSurvey, SpaceSurvey},
};
use std::{collections::BTreeSet, path::Path};

/// The result of a prune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The fate of each revision, newest first.
    pub fates: Vec<Fate>,
    /// Names of the files of layouts that held only revisions that were removed.
    pub layouts_removed: Vec<String>,
}

/// Removes all revisions of the space in `directory` that `rules` do not keep. The newest complete revision and the
/// held ones always stay. Fails as in use while a job has the space open, and as out of sight if a job that did not end
/// normally may have staged data out of sight, unless `unseen` gives it up. Calls `progress` with the number of further
/// portions done.
pub fn prune(directory: &Path, rules: &Rules, unseen: Unseen<'_>, progress: &dyn Fn(u64)) -> Result<Pruned> {
    // Survey first: a directory that is no space gets no lock file.
    SpaceSurvey::open(directory)?;
    prune_on(&Disk::existing(directory), rules, unseen, progress)
}

/// Like `prune`, in all the places `directories` of one space; finds every reason for refusal, in any of them, before
/// anything is written. Checks `unseen` in each place. Returns the results in the order of the places.
pub fn prune_all(directories: &[(&Path, Unseen<'_>)], rules: &Rules, progress: &dyn Fn(u64)) -> Result<Vec<Pruned>> {
    on_disks(directories, |places| carry_out_all(begin_all_in(places, &mut |survey| fates(survey, rules))?, progress))
}

/// The result that `prune` would have now in the space of `survey`. Changes nothing.
pub fn prunable(survey: &SpaceSurvey, rules: &Rules) -> Pruned {
    as_if_done(survey, fates(survey, rules))
}

/// The result of removing the revisions that go according to `fates`.
pub(super) fn as_if_done(survey: &SpaceSurvey, fates: Vec<Fate>) -> Pruned {
    let empty = emptied(survey, &fates);
    let files = survey.layouts.iter().filter(|file| empty.contains(&file.header.layout_id));
    Pruned { layouts_removed: files.map(|file| file.file.clone()).collect(), fates }
}

/// The layouts, except the newest, that are empty after the removal.
fn emptied(survey: &SpaceSurvey, fates: &[Fate]) -> BTreeSet<[u8; 16]> {
    let goes = |revision: &RevisionSurvey| {
        let is_its = |fate: &&Fate| (fate.key, fate.layout) == (revision.key, revision.layout);
        fates.iter().filter(is_its).all(Fate::goes)
    };
    let newest = survey.layouts.last().map(|file| file.header.layout_id);
    let ids = survey.layouts.iter().map(|file| file.header.layout_id);
    ids.filter(|id| Some(*id) != newest && holds_nothing(survey, *id, goes)).collect()
}

/// Like `prune`, on `device`.
pub fn prune_on(device: &dyn Device, rules: &Rules, unseen: Unseen<'_>, progress: &dyn Fn(u64)) -> Result<Pruned> {
    Tending::begin(device, |survey| fates(survey, rules), unseen)?.carry_out(progress)
}

/// Runs `work` on the places `directories`, each of which is a space.
pub(super) fn on_disks<T>(
    directories: &[(&Path, Unseen<'_>)],
    work: impl FnOnce(&[(&dyn Device, Unseen<'_>)]) -> Result<T>,
) -> Result<T> {
    for (directory, _) in directories {
        // Survey first: a directory that is no space gets no lock file.
        SpaceSurvey::open(directory)?;
    }
    let devices: Vec<Disk> = directories.iter().map(|(directory, _)| Disk::existing(directory)).collect();
    let places = devices.iter().zip(directories).map(|(device, (_, unseen))| (device as &dyn Device, *unseen));
    work(&places.collect::<Vec<_>>())
}

/// All `places`, locked, with the fates that `fates` computes for their revisions.
pub(super) fn begin_all_in<'a>(
    places: &[(&'a dyn Device, Unseen<'_>)],
    fates: &mut dyn FnMut(&SpaceSurvey) -> Vec<Fate>,
) -> Result<Vec<Tending<'a>>> {
    places.iter().map(|(device, unseen)| Tending::begin(*device, &mut *fates, *unseen)).collect()
}

pub(super) fn carry_out_all(begun: Vec<Tending<'_>>, progress: &dyn Fn(u64)) -> Result<Vec<Pruned>> {
    begun.into_iter().map(|tending| tending.carry_out(progress)).collect()
}

/// A locked space, with the revisions to be removed: all reasons for refusal were checked, and nothing is written yet.
pub(super) struct Tending<'a> {
    device: &'a dyn Device,
    _locks: Locks,
    fates: Vec<Fate>,
    stay: Vec<RevisionKey>,
    /// Layouts that hold only revisions that go.
    empty: Vec<LayoutFile>,
    /// `None`: no root is written.
    ledgers: Option<(Vec<Ledger>, Lineage)>,
}

impl<'a> Tending<'a> {
    /// `fates`: computes the fates of the revisions in a survey.
    pub(super) fn begin(
        device: &'a dyn Device,
        fates: impl FnOnce(&SpaceSurvey) -> Vec<Fate>,
        unseen: Unseen<'_>,
    ) -> Result<Tending<'a>> {
        Self::begin_where(device, fates, unseen, |_| false)
    }

    /// The same. If `ends` is true for the survey, roots are written even if no revision goes.
    pub(super) fn begin_where(
        device: &'a dyn Device,
        fates: impl FnOnce(&SpaceSurvey) -> Vec<Fate>,
        unseen: Unseen<'_>,
        ends: impl FnOnce(&SpaceSurvey) -> bool,
    ) -> Result<Tending<'a>> {
        let locks = lock(device)?;
        // Survey after locking, as a job does, so that no hold is missed.
        let survey = SpaceSurvey::open_on(device)?;
        let fates = fates(&survey);
        let files = layouts(device, Access::Write)?;
        let empty = emptied(&survey, &fates);
        let is_empty = |file: &LayoutFile| empty.contains(&file.header.layout_id);
        let (empty, files): (Vec<LayoutFile>, Vec<LayoutFile>) = files.into_iter().partition(is_empty);
        let stay: Vec<RevisionKey> = fates.iter().filter(|fate| !fate.goes()).map(|fate| fate.key).collect();
        if empty.is_empty() && !fates.iter().any(Fate::goes) && !ends(&survey) {
            return Ok(Tending { device, _locks: locks, fates, stay, empty, ledgers: None });
        }
        unseen.check(&survey)?;
        let (ledgers, lineage) = open_usable(&files, &empty, &stay)?;
        // All ledgers are checked before anything is written: a revision is gone once one portion has let it go, even
        // if others have it.
        ledgers.iter().try_for_each(|ledger| ledger.can_keep_only(&stay))?;
        Ok(Tending { device, _locks: locks, fates, stay, empty, ledgers: Some((ledgers, lineage)) })
    }

    /// Calls `progress` with the number of further portions done.
    pub(super) fn carry_out(self, progress: &dyn Fn(u64)) -> Result<Pruned> {
        let Some((mut ledgers, lineage)) = self.ledgers else {
            return Ok(Pruned { fates: self.fates, layouts_removed: Vec::new() });
        };
        let is_emptied = |layout| self.empty.iter().any(|file| file.header.layout_id == layout);
        let stays = |fate: &&Fate| !fate.goes() && is_emptied(fate.layout);
        debug_assert_eq!(self.fates.iter().find(stays), None, "the layout of a revision that stays is removed");
        begin_all(&mut ledgers, lineage)?;
        for ledger in &mut ledgers {
            ledger.keep_only(&self.stay)?;
            progress(1);
        }
        Ok(Pruned { fates: self.fates, layouts_removed: remove(self.device, &self.empty)? })
    }
}
