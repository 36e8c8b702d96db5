//! Data that a job that did not end normally may have staged out of sight.
//!
//! Invariant: a root of another lineage ends the claim to data that was staged for its portion. So no root is written
//! from outside a job while another node's memory may hold such data, unless the user gives it up.

use super::GoneOver;
use crate::{
    error::{Error, Result},
    printable::printable,
    space::format::Lineage,
    survey::{PortionSurvey, SpaceSurvey},
};
use std::{collections::BTreeSet, ops::Range};

/// How to treat data that the last job may have staged out of sight.
#[derive(Debug, Clone, Copy)]
pub enum Unseen<'a> {
    /// The data can still be completed; none is left on the ranks that were checked.
    Waits(&'a GoneOver),
    /// The data is given up.
    GivenUp,
}

impl Unseen<'_> {
    /// Whether roots of another lineage may be written in the space of `survey`; `OutOfSight` if that could end a
    /// claim.
    pub fn check(self, survey: &SpaceSurvey) -> Result<()> {
        let Unseen::Waits(gone_over) = self else { return Ok(()) };
        let left = || survey.portions.iter().filter(|portion| !portion.clean);
        let Some(lineage) = left().map(|portion| portion.lineage).max() else { return Ok(()) };
        // A newer job has gone on without it, in other layouts, and may have left the roots in this one unchanged.
        if survey.newest().is_some_and(|newest| newest.key.lineage.number > lineage.number) {
            return Ok(());
        }
        let of_job = || left().filter(|portion| portion.lineage == lineage);
        // Layouts come oldest first. A job that made a layout has also written its lineage to the previous layout.
        let layout = of_job().next_back().map(|portion| portion.layout);
        let waits = |portion: &&PortionSurvey| Some(portion.layout) == layout && !gone_over.has(lineage, portion.rank);
        let ranks: BTreeSet<u32> = of_job().filter(waits).map(|portion| portion.rank).collect();
        if ranks.is_empty() || had_no_pool(survey, lineage) {
            return Ok(());
        }
        Err(Error::StagedOutOfSight { path: printable(&survey.path).into_owned(), ranks: ranges(&ranks) })
    }

    /// Whether data that is given up would come back unless a root of another lineage is written.
    pub(super) fn ends_a_claim(self, survey: &SpaceSurvey) -> bool {
        matches!(self, Unseen::GivenUp) && Unseen::Waits(&GoneOver::default()).check(survey).is_err()
    }
}

/// Whether the job of `lineage` staged nothing in memory that outlives it, according to its newest revision.
fn had_no_pool(survey: &SpaceSurvey, lineage: Lineage) -> bool {
    let Some(newest) = survey.newest().filter(|newest| newest.key.lineage == lineage) else { return false };
    newest.shards.iter().all(|shard| {
        let profile = shard.manifest().ok().flatten().and_then(|manifest| manifest.annex.profile);
        profile.is_some_and(|profile| profile.pool_bytes == 0)
    })
}

fn ranges(ranks: &BTreeSet<u32>) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut().filter(|range| range.end == rank) {
            Some(range) => range.end += 1,
            None => ranges.push(rank..rank + 1),
        }
    }
    ranges
}
