//! Decides which bytes a checkpoint saves, and in which order: the shard as one stream of blocks.
//!
//! Today: every protected region, whole. Owns the list of regions. What must hold: the stream of a
//! shard depends on the regions alone, and its pieces cover each region's bytes exactly once.

mod copy;
mod region;
mod stream;

pub(crate) use region::{Description, Regions, kind_of};
pub use region::{Region, check_name};
pub(crate) use stream::{Piece, Stream};
