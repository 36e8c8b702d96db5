//! Finds the data for a space that is staged in the memory of this node and can still be saved. Changes nothing.

use super::salvage::places_of;
use crate::{
    commit::RevisionKey,
    error::Result,
    pool::{self, Sealed},
    salvage::{is_open, is_ours},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A revision staged by killed ranks that no start has completed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    pub key: RevisionKey,
    /// Number of shards of the complete revision.
    pub shard_count: u32,
    /// The shards that are staged here, ascending.
    pub shards: Vec<u32>,
}

/// The revisions that the pools in `directory` hold for the space in `space` and its levels, newest first, as the next
/// start would find them. If a job has the space open, they belong to that job. Fails if `directory` cannot be listed.
pub fn staged(directory: &Path, space: &Path) -> Result<Vec<Staged>> {
    let places = places_of(space);
    let mut revisions = BTreeMap::<RevisionKey, (u32, BTreeSet<u32>)>::new();
    for found in pool::list(directory)?.into_iter().filter(|found| found.has_pool) {
        for owed in pool::sealed_of(directory, found.id)?.iter().flat_map(Sealed::owed) {
            if places.iter().any(|place| is_ours(place, owed) && is_open(place, owed)) {
                let plan = &owed.shard.plan;
                revisions.entry(plan.key).or_insert((plan.shards, BTreeSet::new())).1.insert(plan.shard);
            }
        }
    }
    let staged = |(key, (shard_count, shards)): (_, (_, BTreeSet<u32>))| Staged {
        key,
        shard_count,
        shards: shards.into_iter().collect(),
    };
    Ok(revisions.into_iter().rev().map(staged).collect())
}
