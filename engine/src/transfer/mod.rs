//! Takes complete revisions of a space to another one, on another file system: beside a job that saves to the first.
//!
//! Owns what is written to the other space: under the locks of a job, with a lineage of its own, by the code that saves a
//! shard on a farther level. What must hold:
//! - a revision is complete there only once every block of it was read back from the medium;
//! - what the other space has stays, and what was cut off is gone on with: a shard that is there is not written again;
//! - revisions of two runs never come to lie in one space;
//! - the first space is only read, but for holds.

mod carry;
mod plan;
mod room;
mod shard;
mod target;

pub use carry::{Became, Copied, Transfer, copy_on};
pub use plan::Planned;
