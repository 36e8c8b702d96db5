//! Carries bytes to the space: I/O threads hash, write, and at the end publish.
//!
//! Owns one revision on its way from t1 to t3: a shard, staged once, and its targets. Each target has a portion of its
//! own.
//!
//! Invariants: nothing is written before the roots that free its blocks are durable. After a failed write the revision
//! is never published in that target. A chunk is kept until the last target has it. All segments that the record beside
//! the pool marks as done are in the space.

mod delta;
mod ending;
mod following;
mod hashes;
mod intent;
mod load;
mod pacing;
mod packed;
mod publishing;
mod shard;
mod site;
mod sizing;
mod speculative;
mod target;
#[cfg(test)]
mod tests;
mod threads;

pub(crate) use delta::read_runs;
pub(crate) use following::SnapshotFollower;
pub(crate) use intent::ShardSpec;
pub(crate) use load::{LogSegment, PendingSegment};
pub(crate) use shard::{Shard, StagingTime};
pub(crate) use site::{Site, TakenOver};
pub(crate) use sizing::portion_blocks;
pub(crate) use speculative::SpeculativePart;
pub(crate) use threads::IoThreads;
