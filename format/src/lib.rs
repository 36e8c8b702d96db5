//! The bytes of a space, as specified in `docs/format.md`. Nothing here does I/O.
//!
//! All bytes read are untrusted until their bounds and their checksum have been checked. No memory is allocated for a
//! length from a file before that length has been compared with the file's size.

mod annex;
mod blocks;
mod catalogue;
mod element;
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
pub use blocks::Blocks;
pub use catalogue::MANIFEST_BYTES_MAX;
pub use catalogue::{Catalogue, Entry, PhaseRecord};
pub use element::ElementType;
pub use frame::{Codec, Frame};
pub use hash::{Hash, hash};
pub use header::{Header, PortionPlace};
pub use hold::{HOLDS, Hold, HoldAnswer, HoldAnswers, HoldBlock, NOTE_BYTES_MAX, is_note};
pub use identity::OutputIdentity;
pub use manifest::{DIMENSIONS_MAX, Extent, Item, ItemKind, Manifest, PlaceInWhole, Run};
pub use opener::Opener;
pub use pool_bound::PoolBound;
pub use profile::{CopiedBy, FoundBy, Histogram, Profile, SIZE_CLASSES, SizeClass};
pub use request::{CheckpointAnswer, CheckpointRequest, Emptied, NODE_BYTES_MAX, Ticket};
pub use saved_early::{EarlyOff, SavedEarly};
pub use slot::{Lineage, Slot};

pub use frame::{FRAME_BLOCKS, FRAME_BYTES, FrameHead, frames_in, list_bytes};
pub use hash::{HASH_BYTES, Hashing, hash_blocks};

/// Everything in a portion is allocated, hashed and verified in blocks of this size.
pub const BLOCK: usize = 4096;
pub const BLOCK_BYTES: u64 = BLOCK as u64;
/// Version of the format that this build writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// No sequence, lineage, revision or layout reaches this number by counting; each must have a successor.
pub const NUMBER_MAX: u64 = 1 << 62;

/// Why bytes are invalid. Callers add the place where they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Mainstay did not write it.
    Foreign(String),
    /// A later version wrote it.
    Newer { found: u32, known: u32, hint: String },
    /// Mainstay wrote it, and it is damaged.
    Damaged(String),
}

pub fn damaged<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Damaged(why.into()))
}

/// Blocks that `bytes` need.
pub const fn blocks_for(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}
