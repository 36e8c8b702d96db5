//! Completes the staged data of killed jobs before other work on a space.

use crate::exit::Failure;
use mainstay_engine::{
    Choice, Config, Place,
    tend::{self, GoneOver, SalvageFate, Salvaged},
};
use std::path::{Path, PathBuf};

/// For commands with a new lineage, which would end the claim of staged data: completes the data in `space`. Refuses if
/// some of it could be completed later. Returns the memory that it has searched.
pub fn first(space: &Path) -> Result<GoneOver, Failure> {
    let salvaged = tend::salvage(&pool_directory()?, Some(space), false)?;
    let failed = |shard: &tend::SalvagedShard| match &shard.fate {
        SalvageFate::Failed(why) => Some(format!("revision {}, shard {}: {why}", shard.key.number, shard.shard)),
        _ => None,
    };
    match salvaged.shards.iter().find_map(failed) {
        Some(why) => Err(Failure::refused(format!(
            "the staged data of a killed job could not be completed, and would be lost: {why}; try again after the repair"
        ))),
        None => Ok(salvaged.gone_over),
    }
}

/// The same for all places of a space; they belong to one job. A dry run changes nothing.
pub fn in_all(places: &[Place], dry_run: bool) -> Result<GoneOver, Failure> {
    let mut all = GoneOver::default();
    for Place { directory, .. } in places {
        all = all.and(if dry_run { would_go_over(directory) } else { first(directory)? });
    }
    Ok(all)
}

/// The present result of `first`. Changes nothing.
fn would_go_over(space: &Path) -> GoneOver {
    let salvaged = pool_directory().ok().and_then(|pools| tend::salvageable(&pools, Some(space), false).ok());
    salvaged.map(|salvaged| salvaged.gone_over).unwrap_or_default()
}

/// For a supervisor, between two starts: completes the staged data on this machine. The start does the rest. Returns a
/// line for each lost or damaged part.
pub fn what_can_be(spaces: &[PathBuf]) -> Vec<String> {
    let Ok(directory) = pool_directory() else { return Vec::new() };
    let salvaged = spaces.iter().filter_map(|space| tend::salvage(&directory, Some(space), false).ok());
    salvaged.flat_map(|salvaged| losses(&salvaged)).collect()
}

fn losses(salvaged: &Salvaged) -> Vec<String> {
    let shards = salvaged.shards.iter().filter_map(|shard| match &shard.fate {
        SalvageFate::Lost(why) => {
            let (number, space) = (shard.key.number, shard.space.display());
            Some(format!("revision {number}, shard {} in {space}: its staged data is lost: {why}", shard.shard))
        }
        _ => None,
    });
    let pools = salvaged.left.iter().filter(|left| left.damaged);
    shards.chain(pools.map(|left| format!("left: {}: {}", left.pool.display(), left.why))).collect()
}

/// The pool directory of a job that this user starts here.
pub fn pool_directory() -> Result<PathBuf, Failure> {
    Ok(Config::resolve(&Choice::default())?.config.pool_directory)
}
