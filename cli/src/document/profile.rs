//! The times of a checkpoint, for `show` and `advise`.

use super::{Key, Space, nodes::Node as Measured};
use mainstay_engine::{
    PoolBound,
    space::format::{BLOCK_BYTES, Histogram, PhaseRecord, Profile as Kept, SavedEarly as KeptEarly},
};
use serde::{Serialize, Serializer};

#[derive(Serialize)]
pub struct Phases {
    pub t1_unix_ns: u64,
    pub communication_ns: u64,
    pub buffer_wait_ns: u64,
    pub copy_ns: u64,
    pub other_ns: Option<u64>,
    /// Like `perceived_ns`, unknown for a shard in stage `direct` if its rank was killed before its next root.
    pub resume_ns: Option<u64>,
    pub perceived_ns: Option<u64>,
    pub durable_ns: Option<u64>,
    /// t3 − t2.
    pub overlap_ns: Option<u64>,
    pub written_bytes: u64,
    pub chunks: u64,
    pub writes: u64,
}

#[derive(Serialize)]
pub struct Profile {
    /// The lowest rank on it.
    pub node: u32,
    pub stage: &'static str,
    /// How changes were found; empty if all was written.
    pub found_by: &'static str,
    /// How the regions were copied; empty without a snapshot.
    pub copied_by: &'static str,
    pub pool_bytes: u64,
    /// True if the pool chose its own size, and the limit on that.
    pub pool_is_auto: bool,
    pub pool_bound: &'static str,
    pub chunk_bytes: u64,
    /// `None` for a stage without a threshold, and if it was not recorded.
    pub threshold_bytes: Option<u64>,
    #[serde(serialize_with = "classes")]
    pub pieces: Histogram,
    #[serde(serialize_with = "classes")]
    pub writes: Histogram,
}

/// The result of saving early in the interval before the checkpoint.
#[derive(Serialize)]
pub struct SavedEarly {
    pub dirty_bytes: u64,
    pub early_bytes: u64,
    pub saved_bytes: u64,
    pub in_vain_bytes: u64,
    /// Empty if saving early went on.
    pub off: &'static str,
}

#[derive(Serialize)]
pub struct Node {
    pub ranks: Vec<u32>,
    pub slowest_rank: u32,
    pub phases: Phases,
    #[serde(flatten)]
    pub profile: Profile,
}

/// A row of `pieces` or `writes`.
#[derive(Serialize)]
struct SizeClass {
    from_bytes: u64,
    below_bytes: Option<u64>,
    count: u64,
    bytes: u64,
    time_ns: u64,
}

#[derive(Serialize)]
pub struct Advise<'a> {
    #[serde(flatten)]
    pub space: Space<'a>,
    #[serde(flatten)]
    pub key: Key,
    pub t1_unix_ns: u64,
    pub nodes: Vec<MeasuredNode>,
    pub pools: Vec<ExpectedPool>,
    pub advised_pool_bytes: u64,
    /// The line for mainstay.toml.
    pub setting: String,
}

/// The measurements of one node.
#[derive(Serialize)]
pub struct MeasuredNode {
    pub node: u32,
    pub ranks: Vec<u32>,
    pub bytes: u64,
    pub copy_ns: u64,
    pub write_ns: u64,
    pub rest_ns: u64,
    pub pool_bytes: u64,
    pub perceived_ns: u64,
    /// The part of it that the slowest rank waited for others.
    pub communication_ns: u64,
    /// The formula's value for it.
    pub expected_ns: u64,
    /// A larger pool gains nothing.
    pub flattens_at_bytes: u64,
}

#[derive(Serialize)]
pub struct ExpectedPool {
    pub pool_bytes: u64,
    /// Of the slowest node.
    pub expected_ns: u64,
}

impl Phases {
    pub fn of(phases: &PhaseRecord) -> Phases {
        let known = |ns: u64| Some(ns).filter(|ns| *ns > 0);
        let (perceived_ns, durable_ns) = (known(phases.perceived_ns), known(phases.durable_ns));
        Phases {
            t1_unix_ns: phases.t1_unix_ns,
            communication_ns: phases.communication_ns,
            buffer_wait_ns: phases.buffer_wait_ns,
            copy_ns: phases.copy_ns,
            other_ns: perceived_ns.map(|_| phases.other_ns()),
            resume_ns: perceived_ns.map(|_| phases.resume_ns),
            perceived_ns,
            durable_ns,
            overlap_ns: durable_ns.zip(perceived_ns).map(|(durable, perceived)| durable.saturating_sub(perceived)),
            written_bytes: phases.written_bytes,
            chunks: phases.chunks,
            writes: phases.writes,
        }
    }
}

impl Profile {
    pub fn of(profile: &Kept) -> Profile {
        Profile {
            node: profile.node,
            stage: profile.stage_name(),
            pool_bytes: profile.pool_bytes,
            found_by: profile.found_by.name(),
            copied_by: profile.copied_by.name(),
            pool_is_auto: profile.pool_bound != PoolBound::Set,
            pool_bound: profile.pool_bound.why(),
            chunk_bytes: profile.chunk_bytes,
            threshold_bytes: profile.threshold_bytes,
            pieces: profile.pieces,
            writes: profile.writes,
        }
    }
}

impl SavedEarly {
    pub fn of(kept: &KeptEarly) -> SavedEarly {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_BYTES);
        SavedEarly {
            dirty_bytes: bytes(kept.dirty),
            early_bytes: bytes(kept.early),
            saved_bytes: bytes(kept.saved),
            in_vain_bytes: bytes(kept.wasted),
            off: kept.off.why(),
        }
    }
}

impl Node {
    pub fn of(node: &Measured) -> Node {
        let slowest = node.slowest();
        Node {
            ranks: node.ranks(),
            slowest_rank: slowest.shard,
            phases: Phases::of(&node.phases()),
            profile: Profile { pieces: node.pieces(), writes: node.writes(), ..Profile::of(&slowest.profile) },
        }
    }
}

fn classes<S: Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(histogram.classes.iter().enumerate().map(|(index, class)| SizeClass {
        from_bytes: index.checked_sub(1).map_or(0, |before| Histogram::LIMITS[before]),
        below_bytes: Histogram::LIMITS.get(index).copied(),
        count: class.count,
        bytes: class.bytes,
        time_ns: class.time_ns,
    }))
}
