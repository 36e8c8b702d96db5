//! The spaces that the job saves to: how far it has come, and who uses them.

use crate::exit::say;
use mainstay_engine::{Error, SpaceSurvey, printable_path};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// The newest complete revision of each space that has one: its lineage and number.
#[derive(Debug, PartialEq, Eq)]
pub struct Newest(BTreeMap<PathBuf, (u64, u64)>);

impl Newest {
    /// What can be seen in `spaces`, and what the job has `told`: its newest may be on nearer levels alone.
    pub fn of(spaces: &[PathBuf], told: BTreeMap<PathBuf, (u64, u64)>) -> Newest {
        let mut newest = told;
        for space in spaces {
            match SpaceSurvey::open_all(space) {
                Ok(survey) => {
                    let seen = survey.newest().map(|revision| (revision.key.lineage.number, revision.key.number));
                    if let Some(seen) = seen.max(newest.get(space).copied()) {
                        newest.insert(space.clone(), seen);
                    }
                }
                // The job may have failed before it made it.
                Err(Error::NotASpace { .. }) => {}
                Err(error) => say(&error.to_string()),
            }
        }
        Newest(newest)
    }
}

impl fmt::Display for Newest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no complete revision");
        }
        let all = self.0.iter().map(|(space, (lineage, number))| {
            format!("revision {number} (lineage {lineage}) of {}", printable_path(space))
        });
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

/// The lineages that spaces had before a start: each opening begins another.
pub struct Openings(BTreeMap<PathBuf, u64>);

impl Openings {
    pub fn of(spaces: &[PathBuf]) -> Openings {
        let lineage = |space: &PathBuf| Some((space.clone(), lineage_of(&SpaceSurvey::open(space).ok()?)));
        Openings(spaces.iter().filter_map(lineage).collect())
    }

    /// One of `spaces` that was opened since, and not closed in order.
    pub fn left_open(&self, spaces: &[PathBuf]) -> Option<PathBuf> {
        let is_left_open = |space: &&PathBuf| {
            let survey = SpaceSurvey::open(space);
            survey.is_ok_and(|now| !now.clean && lineage_of(&now) > self.0.get(*space).copied().unwrap_or(0))
        };
        spaces.iter().find(is_left_open).cloned()
    }
}

fn lineage_of(survey: &SpaceSurvey) -> u64 {
    survey.portions.iter().map(|portion| portion.lineage.number).max().unwrap_or(0)
}

/// What cannot be told is no reason to wait.
pub fn is_in_use(space: &Path) -> bool {
    matches!(SpaceSurvey::is_in_use(space), Ok(Some(true)))
}

/// Whether it is sure that no job has it open.
pub fn is_free(space: &Path) -> bool {
    matches!(SpaceSurvey::is_in_use(space), Ok(Some(false)))
}

/// Whether it is sure that nothing is saved there: neither a shard that can be seen nor one that cannot be read.
pub fn is_without_revision(space: &Path) -> bool {
    match SpaceSurvey::open_all(space) {
        Ok(survey) => survey.revisions.is_empty() && survey.damage.is_empty() && survey.not_here().is_empty(),
        Err(error) => matches!(error, Error::NotASpace { .. }),
    }
}
