//! The costs that a space has measured: those of its newest complete revision with profiles.

use crate::{
    document::{
        Key, MeasuredIn,
        nodes::{Node, Part, nodes},
    },
    exit::Failure,
    look::staging::{parts, staging},
};
use mainstay_engine::{LevelKind, RevisionSurvey, ShardSurvey, SpaceSurvey};
use std::{path::Path, time::Duration};

pub struct Measured {
    pub from: MeasuredIn,
    pub ranks_per_node: u64,
    pub rank_bytes: u64,
    /// Bandwidths in bytes a second; `None`: the revision has no time of it.
    pub copy: Option<f64>,
    pub message: Option<Duration>,
    pub disk: Option<f64>,
    pub file_system: Option<f64>,
}

pub fn measured(space: &Path) -> Result<Measured, Failure> {
    let survey = SpaceSurvey::open_all(space)?;
    for revision in survey.revisions.iter().filter(|revision| revision.complete) {
        if let Some(parts) = complete(&revision.shards)?
            && parts.iter().any(|part| part.profile.pieces.total().bytes > 0)
        {
            return of(&survey.path, revision, parts);
        }
    }
    let why =
        format!("no complete revision in {} has a profile; save one with this version, or give the costs", survey.path);
    Err(Failure::lost(why))
}

/// `None`: a shard has no profile, or was removed meanwhile.
fn complete(shards: &[ShardSurvey]) -> Result<Option<Vec<Part>>, Failure> {
    Ok(parts(shards)?.and_then(|parts| parts.into_iter().collect()))
}

fn of(space: &str, revision: &RevisionSurvey, parts: Vec<Part>) -> Result<Measured, Failure> {
    let from = MeasuredIn { space: space.to_owned(), key: Key::of(revision.key), t1_unix_ns: revision.t1_unix_ns() };
    let ranks = parts.len() as u64;
    let message = message(&parts);
    let nearest = nodes(parts);
    let bytes: u64 = nearest.iter().map(|node| node.pieces().total().bytes).sum();
    let mut measured = Measured {
        from,
        ranks_per_node: nearest.iter().map(|node| node.parts.len() as u64).max().unwrap_or(1),
        rank_bytes: bytes.div_ceil(ranks),
        copy: copy(&nearest),
        message,
        disk: None,
        file_system: None,
    };
    let own = |shards| (LevelKind::Pfs, shards);
    let mut on_levels: Vec<(LevelKind, &[ShardSurvey])> = Vec::new();
    on_levels.extend(revision.parts.is_empty().then(|| own(&revision.shards[..])));
    let whole = revision.parts.iter().filter(|part| part.whole && part.place.copy == 0);
    on_levels.extend(whole.map(|part| (part.place.level, &part.shards[..])));
    for (level, shards) in on_levels {
        let Some(parts) = complete(shards)?.filter(|parts| parts.iter().all(|part| part.phases.durable_ns > 0)) else {
            continue;
        };
        match level {
            LevelKind::Memory => {}
            LevelKind::Disk => measured.disk = slowest(&nodes(parts), |node| staging(node).write),
            LevelKind::Pfs => {
                let times = nodes(parts).iter().map(|node| staging(node).write).max();
                measured.file_system = times.and_then(|time| rate(bytes, time));
            }
        }
    }
    Ok(measured)
}

/// The speed of copying into the pool or to the memory level. Other stages also write in that time.
fn copy(nodes: &[Node]) -> Option<f64> {
    let is_copy = nodes.iter().flat_map(|node| &node.parts).all(|part| part.profile.stage_name() == "pool");
    slowest(nodes, |node| staging(node).copy).filter(|_| is_copy)
}

/// The lowest bandwidth of a node.
fn slowest(nodes: &[Node], time: impl Fn(&Node) -> Duration) -> Option<f64> {
    let rates = nodes.iter().map(|node| rate(node.pieces().total().bytes, time(node)));
    rates.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)
}

fn rate(bytes: u64, time: Duration) -> Option<f64> {
    (bytes > 0 && !time.is_zero()).then(|| bytes as f64 / time.as_secs_f64())
}

/// The time of one of the log₂ P messages of the all-reduce at t1. The last rank to reach it waits for no other.
fn message(parts: &[Part]) -> Option<Duration> {
    let steps = (parts.len() as u32).next_power_of_two().ilog2();
    let least = parts.iter().map(|part| part.phases.communication_ns).min()?;
    (steps > 0 && least > 0).then(|| Duration::from_nanos(least) / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::nodes::tests::part;

    #[test]
    fn the_slowest_node_and_the_last_rank_count() {
        let parts: Vec<Part> = (0..4).map(part).collect();
        // The last of four ranks took 1 ms for two messages.
        assert_eq!(message(&parts), Some(Duration::from_micros(500)));
        assert_eq!(message(&parts[..1]), None);
        // The ranks of the second node took 9 ms and 12 ms for 4 MiB.
        assert_eq!(copy(&nodes(parts.clone())), Some((4 << 20) as f64 / 0.012));
        let mut direct = parts;
        direct[0].profile.stage = 1;
        assert_eq!(copy(&nodes(direct)), None);
    }
}
