//! The pool: chunks of memory that all ranks of a node share, in one file in /dev/shm. Memory goes to the rank that
//! needs it, and writes are ordered by node. Beside the pool each rank has a record. If a job is killed between t2 and
//! t3, the shard is completed from it.
//!
//! A *member* is one rank's part in the pool, numbered on the node. Invariants:
//! - Nothing in shared memory is trusted. Constants are checked once, at opening, and every word at every use. A word
//!   that no member can have written is refused or repaired.
//! - No state needs its owner to be alive. A chunk is one word, changed by compare-and-exchange. A member is alive
//!   while the kernel holds its byte lock. Every wait ends after 20 ms and looks again.
//! - A seal never covers data that was written after it.

mod access;
mod available;
mod chunk;
mod file;
mod layout;
mod listing;
mod making;
mod mark;
mod members;
mod open;
mod record;
mod record_layout;
mod salvage;
mod sealed;
mod sealed_plan;
mod shape;
mod signal;
mod size;
mod sizes;
mod space_note;
mod staged;
mod take;
#[cfg(test)]
mod tests;
mod turn;
mod word;

pub(crate) use access::Pool;
pub(crate) use available::ceiling;
pub use available::pool_limit;
pub(crate) use chunk::Chunk;
pub(crate) use listing::list;
pub(crate) use mark::{Mark, is_in_sight, mark_gone};
pub(crate) use record::{RankRecord, ShardRecord};
pub(crate) use record_layout::TARGETS_MAX;
pub(crate) use salvage::{
    Dead, has_unreadable, is_of_another_version, is_refused, is_removable, path, remove, sealed_of, spaces_of,
};
pub(crate) use sealed::{Owed, Sealed, SealedSegment, StagedBytes};
pub(crate) use sealed_plan::{SealedPlan, SealedTarget};
pub(crate) use shape::Shape;
pub(crate) use space_note::SpaceNote;
pub(crate) use staged::LostRecord;

use access::Shared;
