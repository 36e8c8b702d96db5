//! Letting go of revisions that are named, on all levels, whatever rules would keep.
//!
//! What must hold: all that can be refused is found before anything is written, as for a rollback. What is held stays, and so
//! does the newest complete revision of each place; a wish for one of them is refused as a whole.

use super::{
    prune::{Pruned, as_if_done, begin_all_in, carry_out_all, on_disks},
    rules::{Fate, Reason, Rules, fates},
    unseen::Unseen,
};
use crate::{device::Device, error::Result, survey::SpaceSurvey};
use std::path::Path;

/// What came of a wish to let go of revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// What went and what stays, in each place.
    Done(Vec<Pruned>),
    /// These were named and have to stay in some place, for these reasons: nothing was changed.
    Stays(Vec<Fate>),
}

/// Lets go of the revisions of these `numbers` in the places `directories` of one space, complete or not; those that are in none
/// of them are passed over. Refused as in use while a job has one of them open, and as out of sight if a job that did not end in
/// order may have staged something `unseen`; `unseen` is asked of each place. `progress` is told how many more portions are done.
pub fn remove_revisions(
    directories: &[(&Path, Unseen<'_>)],
    numbers: &[u64],
    progress: &dyn Fn(u64),
) -> Result<Removed> {
    on_disks(directories, |places| remove_revisions_on(places, numbers, progress))
}

/// Like `remove_revisions`, on devices.
pub fn remove_revisions_on(
    places: &[(&dyn Device, Unseen<'_>)],
    numbers: &[u64],
    progress: &dyn Fn(u64),
) -> Result<Removed> {
    let mut stays = Vec::new();
    let begun = begin_all_in(places, &mut |survey| {
        let fates = without(survey, numbers);
        stays.extend(staying(&fates, numbers).cloned());
        fates
    })?;
    if !stays.is_empty() {
        return Ok(Removed::Stays(stays));
    }
    carry_out_all(begun, progress).map(Removed::Done)
}

/// What `remove_revisions` would do now in the places of `surveys`, told as if it were done. Changes nothing.
pub fn removable(surveys: &[SpaceSurvey], numbers: &[u64]) -> Removed {
    let all: Vec<Vec<Fate>> = surveys.iter().map(|survey| without(survey, numbers)).collect();
    let stays: Vec<Fate> = all.iter().flat_map(|fates| staying(fates, numbers)).cloned().collect();
    if !stays.is_empty() {
        return Removed::Stays(stays);
    }
    Removed::Done(surveys.iter().zip(all).map(|(survey, fates)| as_if_done(survey, fates)).collect())
}

/// What becomes of the revisions in the place of `survey`; one that is named and has a reason to stay has the removal refused.
fn without(survey: &SpaceSurvey, numbers: &[u64]) -> Vec<Fate> {
    // Those that stay whatever is asked.
    let mut fates = fates(survey, &Rules::default());
    for fate in fates.iter_mut().filter(|fate| !numbers.contains(&fate.key.number)) {
        fate.reasons.push(Reason::NotNamed);
    }
    fates
}

/// Those of `fates` that are named and stay.
fn staying<'a>(fates: &'a [Fate], numbers: &[u64]) -> impl Iterator<Item = &'a Fate> {
    fates.iter().filter(|fate| numbers.contains(&fate.key.number) && !fate.goes())
}
