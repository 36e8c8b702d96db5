//! The bytes of a space, as `docs/format.md` lays them down. Nothing here does I/O.
//!
//! Whatever is read is hostile until its bounds and its checksum have been checked, and no length
//! that was read is allocated before it has been compared with what is there.

mod annex;
mod catalogue;
mod frame;
mod hash;
mod header;
mod hold;
mod identity;
mod manifest;
mod opener;
mod pool_bound;
mod profile;
mod request;
mod saved_early;
mod sections;
mod slot;
mod text;

pub use annex::{Annex, Note, OutputLength};
pub(crate) use catalogue::MANIFEST_BYTES_MAX;
pub use catalogue::{Catalogue, Entry, PhaseRecord};
pub use frame::{Codec, Frame};
pub use hash::{Hash, hash};
pub use header::{Header, PortionPlace};
pub use hold::{HOLDS, Hold, HoldAnswer, HoldAnswers, HoldBlock, NOTE_BYTES_MAX, is_note};
pub use identity::OutputIdentity;
pub use manifest::{DIMENSIONS_MAX, ElementType, Extent, Item, ItemKind, Manifest, PlaceInWhole, Run};
pub use opener::Opener;
pub use pool_bound::PoolBound;
pub use profile::{CopiedBy, FoundBy, Histogram, Profile, SIZE_CLASSES, SizeClass};
pub use request::{CheckpointAnswer, CheckpointRequest, Emptied, NODE_BYTES_MAX, Ticket};
pub use saved_early::{EarlyOff, SavedEarly};
pub use slot::{Lineage, Slot};

pub(crate) use frame::{FRAME_BLOCKS, FRAME_BYTES, FrameHead, frames_in, list_bytes};
pub(crate) use hash::{HASH_BYTES, Hashing, hash_blocks};

/// Everything in a portion is allocated, hashed and verified in blocks of this size.
pub const BLOCK: usize = 4096;
pub const BLOCK_BYTES: u64 = BLOCK as u64;
/// Version of the format that this build writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// No sequence, lineage, revision or layout gets this far by counting; each must have a next one.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// Why bytes are not what they should be. Callers add where they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Not written by Mainstay at all.
    Foreign(String),
    /// Written by a later version.
    Newer { found: u32, known: u32, hint: String },
    /// Written by Mainstay, and not whole any more.
    Damaged(String),
}

pub(crate) fn damaged<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Damaged(why.into()))
}

/// Blocks that `bytes` need.
pub const fn blocks_for(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}
