//! Removing named revisions, on all levels, regardless of rules.
//!
//! Invariant: all reasons for refusal are found before anything is written, as for a rollback. Held revisions stay, and
//! so does the newest complete revision of each place; a request that names one of them is refused as a whole.

use super::{
    prune::{Pruned, as_if_done, begin_all_in, carry_out_all, on_disks},
    rules::{Fate, Reason, Rules, fates},
    unseen::Unseen,
};
use crate::{device::Device, error::Result, survey::SpaceSurvey};
use std::path::Path;

/// Result of a request to remove revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// The removed and the remaining revisions, in each place.
    Done(Vec<Pruned>),
    /// The named revisions that must stay in some place, with the reasons: nothing was changed.
    Stays(Vec<Fate>),
}

/// Removes the revisions with these `numbers`, complete or not, from the places `directories` of one space; ignores
/// numbers that are in none of them. Fails as in use while a job has one of them open, and as out of sight if a job
/// that did not end normally may have staged data out of sight, unless `unseen` gives it up; checks `unseen` in each
/// place. Calls `progress` with the number of further portions done.
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

/// The result that `remove_revisions` would have now in the places of `surveys`. Changes nothing.
pub fn removable(surveys: &[SpaceSurvey], numbers: &[u64]) -> Removed {
    let all: Vec<Vec<Fate>> = surveys.iter().map(|survey| without(survey, numbers)).collect();
    let stays: Vec<Fate> = all.iter().flat_map(|fates| staying(fates, numbers)).cloned().collect();
    if !stays.is_empty() {
        return Removed::Stays(stays);
    }
    Removed::Done(surveys.iter().zip(all).map(|(survey, fates)| as_if_done(survey, fates)).collect())
}

/// The fates of the revisions in the place of `survey`. If a named revision has a reason to stay, the removal is
/// refused.
fn without(survey: &SpaceSurvey, numbers: &[u64]) -> Vec<Fate> {
    // The revisions that stay in any case.
    let mut fates = fates(survey, &Rules::default());
    for fate in fates.iter_mut().filter(|fate| !numbers.contains(&fate.key.number)) {
        fate.reasons.push(Reason::NotNamed);
    }
    fates
}

/// The named revisions in `fates` that stay.
fn staying<'a>(fates: &'a [Fate], numbers: &[u64]) -> impl Iterator<Item = &'a Fate> {
    fates.iter().filter(|fate| numbers.contains(&fate.key.number) && !fate.goes())
}
