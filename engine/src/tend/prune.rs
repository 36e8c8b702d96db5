//! Letting go of revisions that nobody wants, as a job does it: under its locks, with a lineage of its own,
//! by roots that no longer lead to them. In several places of one space all are locked and looked at before anything is written.
//!
//! What must hold: after every write a valid slot of every portion leads to the newest complete revision, and to all
//! revisions that stay and that the newest roots led to. A revision that only older roots lead to is kept too if it is
//! wanted, unless the power fails in the one write that goes over those roots. If a portion has no room for the roots,
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

/// What a prune did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// What became of each revision, the newest first.
    pub fates: Vec<Fate>,
    /// Names of the files of layouts that held nothing but revisions that went.
    pub layouts_removed: Vec<String>,
}

/// Lets go of all revisions of the space in `directory` that `rules` do not keep. The newest complete revision and the
/// held ones always stay. Refused as in use while a job has the space open, and as out of sight if a job that did not
/// end in order may have staged something `unseen`. `progress` is told how many more portions are done.
pub fn prune(directory: &Path, rules: &Rules, unseen: Unseen<'_>, progress: &dyn Fn(u64)) -> Result<Pruned> {
    // A survey comes first: a directory that is no space gets no lock file.
    SpaceSurvey::open(directory)?;
    prune_on(&Disk::existing(directory), rules, unseen, progress)
}

/// Like `prune`, in all the places `directories` of one space: what can be refused in any of them is refused before anything is
/// written. `unseen` is asked of each place. What became of each place, in their order.
pub fn prune_all(directories: &[(&Path, Unseen<'_>)], rules: &Rules, progress: &dyn Fn(u64)) -> Result<Vec<Pruned>> {
    on_disks(directories, |places| carry_out_all(begin_all_in(places, &mut |survey| fates(survey, rules))?, progress))
}

/// What `prune` would do now in the space of `survey`, told as if it were done. Changes nothing.
pub fn prunable(survey: &SpaceSurvey, rules: &Rules) -> Pruned {
    as_if_done(survey, fates(survey, rules))
}

/// What letting go of those of `fates` that go would come to.
pub(super) fn as_if_done(survey: &SpaceSurvey, fates: Vec<Fate>) -> Pruned {
    let empty = emptied(survey, &fates);
    let files = survey.layouts.iter().filter(|file| empty.contains(&file.header.layout_id));
    Pruned { layouts_removed: files.map(|file| file.file.clone()).collect(), fates }
}

/// The layouts, except the newest, that hold nothing once the revisions that go are gone.
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

/// Does `work` on the places `directories`, each of which is a space.
pub(super) fn on_disks<T>(
    directories: &[(&Path, Unseen<'_>)],
    work: impl FnOnce(&[(&dyn Device, Unseen<'_>)]) -> Result<T>,
) -> Result<T> {
    for (directory, _) in directories {
        // A survey comes first: a directory that is no space gets no lock file.
        SpaceSurvey::open(directory)?;
    }
    let devices: Vec<Disk> = directories.iter().map(|(directory, _)| Disk::existing(directory)).collect();
    let places = devices.iter().zip(directories).map(|(device, (_, unseen))| (device as &dyn Device, *unseen));
    work(&places.collect::<Vec<_>>())
}

/// All `places`, locked, with what `fates` makes of their revisions.
pub(super) fn begin_all_in<'a>(
    places: &[(&'a dyn Device, Unseen<'_>)],
    fates: &mut dyn FnMut(&SpaceSurvey) -> Vec<Fate>,
) -> Result<Vec<Tending<'a>>> {
    places.iter().map(|(device, unseen)| Tending::begin(*device, &mut *fates, *unseen)).collect()
}

pub(super) fn carry_out_all(begun: Vec<Tending<'_>>, progress: &dyn Fn(u64)) -> Result<Vec<Pruned>> {
    begun.into_iter().map(|tending| tending.carry_out(progress)).collect()
}

/// A space that is locked, with what is to go from it: all that can be refused was looked at, and nothing is written yet.
pub(super) struct Tending<'a> {
    device: &'a dyn Device,
    _locks: Locks,
    fates: Vec<Fate>,
    stay: Vec<RevisionKey>,
    /// Layouts that hold nothing but what goes.
    empty: Vec<LayoutFile>,
    /// `None`: no root is written.
    ledgers: Option<(Vec<Ledger>, Lineage)>,
}

impl<'a> Tending<'a> {
    /// `fates`: what is to become of the revisions of a survey.
    pub(super) fn begin(
        device: &'a dyn Device,
        fates: impl FnOnce(&SpaceSurvey) -> Vec<Fate>,
        unseen: Unseen<'_>,
    ) -> Result<Tending<'a>> {
        Self::begin_where(device, fates, unseen, |_| false)
    }

    /// The same. Where `ends` says so of the survey, roots are written though nothing goes.
    pub(super) fn begin_where(
        device: &'a dyn Device,
        fates: impl FnOnce(&SpaceSurvey) -> Vec<Fate>,
        unseen: Unseen<'_>,
        ends: impl FnOnce(&SpaceSurvey) -> bool,
    ) -> Result<Tending<'a>> {
        let locks = lock(device)?;
        // The survey comes after the lock, as in a job: no hold is missed.
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
        // All ledgers are checked before anything is written: a revision that one portion has let go of is gone, even if
        // others have it.
        ledgers.iter().try_for_each(|ledger| ledger.can_keep_only(&stay))?;
        Ok(Tending { device, _locks: locks, fates, stay, empty, ledgers: Some((ledgers, lineage)) })
    }

    /// `progress` is told how many more portions are done.
    pub(super) fn carry_out(self, progress: &dyn Fn(u64)) -> Result<Pruned> {
        let Some((mut ledgers, lineage)) = self.ledgers else {
            return Ok(Pruned { fates: self.fates, layouts_removed: Vec::new() });
        };
        begin_all(&mut ledgers, lineage)?;
        for ledger in &mut ledgers {
            ledger.keep_only(&self.stay)?;
            progress(1);
        }
        Ok(Pruned { fates: self.fates, layouts_removed: remove(self.device, &self.empty)? })
    }
}
