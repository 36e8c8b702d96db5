//! Staged data of a killed job in the memory of this node, for the commands that look.

use super::completing::pool_directory;
use crate::document::{Key, Staged};
use crate::text::count;
use mainstay_engine::{SpaceSurvey, tend};
use std::path::Path;

/// Empty while a job has the space open: the staged data is then its own. Unreadable pools are left out, because they
/// are no part of the space.
pub fn of(survey: &SpaceSurvey, space: &Path) -> Vec<Staged> {
    if survey.in_use != Some(false) {
        return Vec::new();
    }
    let staged = pool_directory().ok().and_then(|directory| tend::staged(&directory, space).ok());
    staged.unwrap_or_default().iter().map(Staged::of).collect()
}

pub fn lines(staged: &[Staged]) -> String {
    let line = |revision: &Staged| {
        format!(
            "revision {} of lineage {}: {} of {} staged in memory here, not saved; the next start or mainstay salvage completes it\n",
            revision.key.revision,
            revision.key.lineage,
            revision.shards_staged.len(),
            count(revision.shards.into(), "shard")
        )
    };
    staged.iter().map(line).collect()
}

impl Staged {
    fn of(revision: &tend::Staged) -> Staged {
        Staged { key: Key::of(revision.key), shards: revision.shard_count, shards_staged: revision.shards.clone() }
    }
}
