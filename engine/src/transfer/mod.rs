//! Copies complete revisions of a space to another one, on another file system, while a job may save to the first.
//!
//! Owns all writes to the other space. It takes the locks of a job and a lineage of its own, and uses the code that
//! saves a shard on a farther level. Invariants:
//! - A revision is complete in the other space only once every block of it was read back from the medium.
//! - The contents of the other space stay. An interrupted copy is continued: existing shards are not written again.
//! - Revisions of two runs are never in one space.
//! - The first space is only read, except for holds.

mod carry;
mod portion_room;
mod shard;
mod target;
mod transfer_plan;

pub use carry::{Became, Copied, Transfer, copy_on};
pub use transfer_plan::Planned;
