//! Decides which bytes a checkpoint saves: the shard, as a log of blocks in the order of arrival.
//!
//! The log holds the pieces that the program writes and every protected region: whole, or only the blocks that
//! `changed` since an older revision. The program's own variables can be regions (`globals`), and so can the memory
//! that it allocates from Mainstay's `heap`. The shard also holds the program's notes and the lengths of its output
//! files. This module owns the lists of these. Invariant: the extents of an item cover each of its bytes exactly once,
//! with the bytes handed over last.

mod changed;
mod contents;
mod copy;
mod follow;
mod globals;
pub mod heap;
mod log;
mod log_runs;
mod mappings;
mod memory;
mod notes;
mod output;
mod output_left;
mod output_match;
mod output_named;
mod outputs;
mod overlap;
mod pointers;
mod ranges;
mod region;
mod regions;
mod size;
mod snapshot;
mod stretches;
#[cfg(test)]
mod tests;
mod unseen;
mod userfaultfd;

pub(crate) use changed::{
    Base, BlockRun, ByHashes, Changes, Delta, Found, OWN_RUNS_MAX, PageTracker, Part, PartPlace, Plan,
    SpeculativeBlocks, StreamDeduplicator, Written, WrittenOf, audit, differing, differing_or_sparse, size_elsewhere,
    size_of_delta,
};
pub(crate) use contents::{Contents, LogPlaces};
pub(crate) use copy::copy;
pub(crate) use follow::Look;
pub(crate) use globals::Globals;
pub use globals::Landmarks;
#[cfg(feature = "fuzzing")]
pub(crate) use globals::read_any;
pub(crate) use heap::{SavedHeap, is_of_heap};
pub(crate) use log::{InputPiece, Log};
pub(crate) use log_runs::{LogRuns, Piece, first_blocks};
pub use mappings::check_writable;
pub(crate) use notes::Notes;
pub(crate) use output::Marked;
pub(crate) use output_left::sync_output;
pub(crate) use output_match::{Cuts, FileMatch, Missing, not_cut};
pub(crate) use output_named::named_twice;
pub(crate) use outputs::Outputs;
pub(crate) use pointers::{check_pointers, note_of_program, tell_of_pointers};
pub(crate) use region::{Description, is_single, kind_of};
pub use region::{Region, check_name};
pub(crate) use regions::Regions;
pub(crate) use size::Size;
pub use snapshot::{Allocated, OwnMemory};
pub(crate) use snapshot::{Cloned, NotTaken, Protectable, Protected, Snapshot, SnapshotChoice, Transfer};
pub(crate) use unseen::unseen_writer;
pub(crate) use userfaultfd::page_bytes;

/// Whether only Mainstay uses the note.
pub(crate) fn is_own_note(note: &crate::space::format::Note) -> bool {
    globals::is_note_of_globals(note) || heap::is_note_of_heap(note)
}
