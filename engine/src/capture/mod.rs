//! Decides which bytes a checkpoint saves, and in which order: the shard as one stream of blocks.
//!
//! Today: every protected region, whole; beside it the program's notes, and how long its output files
//! are. Owns the lists of all three. What must hold: the stream of a
//! shard depends on the regions alone, and its pieces cover each region's bytes exactly once.

mod copy;
mod notes;
mod output;
mod region;
mod stream;

pub(crate) use notes::Notes;
pub(crate) use output::{Marked, Outputs};
pub(crate) use region::{Description, Regions, kind_of};
pub use region::{Region, check_name};
pub(crate) use stream::{Piece, Stream};
