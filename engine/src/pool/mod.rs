//! The pool: chunks of memory that all ranks of a node share, in one file of /dev/shm, so that memory goes to the rank
//! that needs it and writes are ordered by node. Beside the pool each rank has a record, from which a shard is
//! completed whose job was killed between t2 and t3.
//!
//! A *member* is one rank's part in the pool, numbered on the node. What must hold:
//! - nothing that lies in shared memory is believed: constants are checked once, at opening, and every word at every
//!   use; a word that no member can have written is refused or repaired;
//! - no state needs its owner to live: a chunk is one word, changed by compare-and-exchange; a member lives while the
//!   kernel holds its byte lock; every wait ends after 20 ms and looks again;
//! - a seal never covers data that was written after it.

mod chunk;
mod file;
mod layout;
mod listing;
mod making;
mod mark;
mod members;
mod open;
mod plan;
mod record;
mod record_layout;
mod room;
mod salvage;
mod sealed;
mod signal;
mod size;
mod space_note;
mod staged;
mod take;
#[cfg(test)]
mod tests;
mod turn;
mod word;

pub(crate) use chunk::Chunk;
pub(crate) use listing::list;
pub(crate) use mark::{Mark, is_in_sight, mark_gone};
pub(crate) use plan::{SealedPlan, SealedTarget};
pub(crate) use record::{Record, ShardRecord};
pub(crate) use record_layout::TARGETS_MAX;
pub(crate) use room::ceiling;
pub use room::pool_limit;
pub(crate) use salvage::{
    Dead, has_unreadable, is_of_another_version, is_refused, is_removable, path, remove, sealed_of, spaces_of,
};
pub(crate) use sealed::{Owed, Sealed, SealedSegment, StagedBytes};
pub(crate) use space_note::SpaceNote;
pub(crate) use staged::LostRecord;

use crate::{
    config::PoolHeld,
    device::{ByteLocks, Mapping},
    space::format::BLOCK_BYTES,
};
use layout::{ChunkEntry, Constants, Control, MemberEntry};
use size::Sizes;
use std::{
    fs::File,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// What a pool is to be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes of all chunks; in a pool that grows, the most that they can become.
    pub(crate) bytes: u64,
    pub(crate) grows: bool,
    /// The size of a chunk. Chunks are smaller if there would be fewer than one for each member and one more.
    pub(crate) chunk_bytes: u64,
    /// The most bytes that a chunk gets in a pool that grows, as suits the shards.
    pub(crate) chunk_bytes_max: u64,
    pub(crate) members: u32,
    pub(crate) held: PoolHeld,
    /// How many chunks are written at a time.
    pub(crate) writes_max: u32,
}

impl Shape {
    /// Of a pool that has no memory for chunks, and is never asked for any: its members keep records of what they have
    /// staged elsewhere.
    pub(crate) fn of_tables(members: usize) -> Shape {
        Shape {
            bytes: (members as u64 + 1) * BLOCK_BYTES,
            grows: true,
            chunk_bytes: BLOCK_BYTES,
            chunk_bytes_max: BLOCK_BYTES,
            members: members as u32,
            held: PoolHeld::Always,
            writes_max: 1,
        }
    }
}

/// One member's access to the pool. A copy is the same member; when the last copy is dropped, the member leaves.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    path: PathBuf,
    constants: Constants,
    map: Mapping,
    member: u32,
    /// In a forked child the file is closed already, and must not be closed again.
    locks: ManuallyDrop<ByteLocks>,
    /// The process that this member is.
    forks: u32,
    /// The chunks that this handle holds. An entry is set before the word in the pool is, and cleared after.
    held: Box<[AtomicBool]>,
    /// Where to look first for a free chunk.
    cursor: AtomicU32,
    sizes: Sizes,
}

impl Pool {
    pub(crate) fn id(&self) -> [u8; 16] {
        self.shared.constants.id
    }

    pub(crate) fn member(&self) -> u32 {
        self.shared.member
    }

    /// Bytes of all chunks; in a pool that grows, of those that have memory now, whoever made it.
    pub(crate) fn made_bytes(&self) -> u64 {
        if self.shared.constants.grows() { self.shared.made() } else { self.shared.constants.bytes() }
    }

    /// Bytes of all chunks that this process can take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        if self.shared.constants.grows() { self.shared.open_bytes() } else { self.shared.constants.bytes() }
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.shared.chunk_bytes()
    }

    #[cfg(test)]
    pub(crate) fn chunks(&self) -> u32 {
        self.shared.constants.chunks
    }

    pub(crate) fn held(&self) -> PoolHeld {
        self.shared.constants.held()
    }
}

impl Shared {
    fn control(&self) -> &Control {
        self.map.shared(self.constants.control_at())
    }

    /// The words of all chunks whose memory this process has seen.
    fn chunk_entries(&self) -> &[ChunkEntry] {
        let seen = self.sizes.seen.load(Ordering::Acquire) / self.chunk_bytes();
        self.map.shared_row(self.constants.chunk_table_at(), seen as usize)
    }

    fn member_entries(&self) -> &[MemberEntry] {
        self.map.shared_row(self.constants.member_table_at(), self.constants.members as usize)
    }

    fn member_entry(&self) -> &MemberEntry {
        &self.member_entries()[self.member as usize]
    }

    /// This member's number in a `Word`. It fits: there are no more members than sixteen bits can tell.
    fn member_bits(&self) -> u16 {
        self.member as u16
    }

    fn file(&self) -> &File {
        self.locks.file()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
