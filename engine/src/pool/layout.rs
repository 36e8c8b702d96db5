//! Layout of a pool file: first constants under a checksum, read once at opening; then words that all members change,
//! each checked at every use; then the chunks.

use super::{Shape, signal::Signal};
use crate::{
    config::PoolHeld,
    device::{HUGE_PAGE, OfAtomics, RANK_BYTES},
    error::{Error, Result},
    plural::count,
    space::format::{BLOCK_BYTES, Hash, hash},
};
use std::{
    fs::File,
    mem::offset_of,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicU32, AtomicU64},
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: [u8; 8] = *b"MSTYPOOL";
/// Version of the pool and of the records beside it. A build completes only data that its own version staged.
const VERSION: u32 = 10;
/// A higher version number is damage.
const VERSIONS_MAX: u32 = 1 << 10;
/// A chunk's word has sixteen bits for the member.
pub(super) const MEMBERS_MAX: u32 = 1 << 16;
const CONTROL_AT: usize = BLOCK_BYTES as usize;
const MEMBER_TABLE_AT: usize = 2 * BLOCK_BYTES as usize;

/// The byte that a process locks to remove the pool or complete the data in it. It follows the bytes of all members.
pub(super) const CLEANER: u64 = RANK_BYTES;
/// The byte that a member locks to complete the staged data of dead members.
pub(super) const SURVIVOR: u64 = CLEANER + 1;

/// The start of the file. Native byte order: only this machine ever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Constants {
    magic: [u8; 8],
    version: u32,
    held: u32,
    pub(super) id: [u8; 16],
    /// Smallest size of a chunk; `chunks` counts chunks of this size.
    pub(super) chunk_bytes: u64,
    pub(super) chunks: u32,
    pub(super) members: u32,
    chunks_at: u64,
    pub(super) writes_max: u32,
    /// Whether the pool sizes itself; then its tables are for the largest size that it can reach.
    grows: u32,
    /// Largest size of a chunk.
    pub(super) chunk_bytes_max: u64,
    checksum: Hash,
}

/// The words that the pool has once.
#[repr(C, align(64))]
pub(super) struct Control {
    /// The member that makes the chunks' memory, or the result of the last attempt.
    pub(super) making: AtomicU64,
    /// Number of bytes of the chunks that have memory, from the first chunk on.
    pub(super) made_bytes: AtomicU64,
    pub(super) full_needed: AtomicU64,
    pub(super) full_available: AtomicU64,
    pub(super) made: Signal,
    pub(super) freed: Signal,
    pub(super) next_ticket: Line<AtomicU64>,
    pub(super) turn: Signal,
    /// Number of the checkpoint that the programs wait for (its copies), or waited for last.
    pub(super) copying: AtomicU32,
    /// Woken when the last program has copied, and when a member begins to wait for a chunk.
    pub(super) copied: Signal,
}

/// A value in a cache line of its own.
#[repr(C, align(64))]
pub(super) struct Line<T>(pub(super) T);

/// The words of one chunk.
#[repr(C, align(64))]
pub(super) struct ChunkEntry {
    pub(super) word: AtomicU64,
    pub(super) ticket: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) segment: AtomicU32,
}

/// The words of one member.
#[repr(C, align(64))]
pub(super) struct MemberEntry {
    pub(super) joined: AtomicU32,
    /// Number of the member's sealed records; never more than there are, even if the member dies at any point.
    pub(super) sealed: AtomicU32,
    pub(super) unused: AtomicU32,
    /// Number of the last checkpoint that this member's program has copied. A dead member stays behind.
    pub(super) copied: AtomicU32,
    /// The revision that was sealed last.
    pub(super) number: AtomicU64,
    /// Size of the member's next shard: bytes, and room in `wanted_chunks` more chunks.
    pub(super) wanted_bytes: AtomicU64,
    pub(super) wanted_chunks: AtomicU32,
    /// Number of sealed records that were gone or damaged when others freed the member's chunks.
    pub(super) lost: AtomicU32,
}

const _: () = assert!(size_of::<ChunkEntry>() == 64 && size_of::<MemberEntry>() == 64);
const _: () = assert!(size_of::<Constants>() <= CONTROL_AT && size_of::<Control>() <= MEMBER_TABLE_AT - CONTROL_AT);

// SAFETY: the type contains atomics only; so do those below.
#[allow(unsafe_code)]
unsafe impl OfAtomics for Control {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl OfAtomics for ChunkEntry {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl OfAtomics for MemberEntry {}

impl Constants {
    pub(super) fn new(id: [u8; 16], shape: &Shape) -> Result<Constants> {
        if shape.members == 0 || shape.members > MEMBERS_MAX {
            let why = format!(
                "{} of a node share a pool, which is for 1 to {MEMBERS_MAX}",
                count(shape.members.into(), "rank")
            );
            return Err(Error::argument("pool_bytes", why));
        }
        // One chunk for each rank and one more: then a rank that fills its own chunk never blocks the others forever.
        let least = u64::from(shape.members) + 1;
        let chunk_bytes = shape.chunk_bytes.min(shape.bytes / least) / BLOCK_BYTES * BLOCK_BYTES;
        if chunk_bytes == 0 {
            let needed = least * BLOCK_BYTES;
            let why = format!(
                "{} bytes are too few for {} on a node; give it {needed} or more",
                shape.bytes,
                count(shape.members.into(), "rank")
            );
            return Err(Error::argument("pool_bytes", why));
        }
        let chunks = u32::try_from(shape.bytes / chunk_bytes)
            .map_err(|_| Error::argument("chunk_bytes", format!("{chunk_bytes} is too small for this pool_bytes")))?;
        let held = match shape.held {
            PoolHeld::Always => 0,
            PoolHeld::Checkpoint => 1,
        };
        let (members, writes_max) = (shape.members, shape.writes_max.max(1));
        let chunks_at = chunks_at(chunks, members);
        let checksum = [0; 16];
        let mut constants = Constants {
            magic: MAGIC,
            version: VERSION,
            held,
            id,
            chunk_bytes,
            chunks,
            members,
            chunks_at,
            writes_max,
            grows: shape.grows.into(),
            chunk_bytes_max: shape.chunk_bytes_max.max(chunk_bytes),
            checksum,
        };
        constants.checksum = constants.sum();
        Ok(constants)
    }

    /// Whether another version of Mainstay made this pool, as opposed to a pool of this version with a damaged version
    /// number.
    pub(super) fn are_of_another_version(file: &File) -> bool {
        let mut bytes = [0; size_of::<Constants>()];
        let read = file.read_exact_at(&mut bytes, 0).ok().and_then(|()| Constants::read_from_bytes(&bytes).ok());
        let is_damaged = |found: Constants| Constants { version: VERSION, ..found }.sum() == found.checksum;
        read.is_some_and(|found| {
            found.magic == MAGIC && found.version != VERSION && found.version <= VERSIONS_MAX && !is_damaged(found)
        })
    }

    /// Reads and checks the constants; returns a reason if they are invalid.
    pub(super) fn read(file: &File, id: [u8; 16]) -> std::result::Result<Constants, String> {
        let mut bytes = [0; size_of::<Constants>()];
        file.read_exact_at(&mut bytes, 0).map_err(|e| format!("its header cannot be read ({e})"))?;
        let found = Constants::read_from_bytes(&bytes).map_err(|_| "its header is cut short".to_owned())?;
        if found.magic != MAGIC {
            return Err("it does not begin as a pool".to_owned());
        }
        if found.version != VERSION {
            return Err(format!(
                "it was made by another version of Mainstay (version {}), whose `mainstay salvage` completes what is staged \
                 in it",
                found.version
            ));
        }
        if found.checksum != found.sum() {
            return Err("the checksum of its header does not match".to_owned());
        }
        if found.id != id {
            return Err("its header is another pool's".to_owned());
        }
        let sound = (1..=MEMBERS_MAX).contains(&found.members)
            && found.chunks > 0
            && found.chunk_bytes > 0
            && found.chunk_bytes.is_multiple_of(BLOCK_BYTES)
            && found.chunk_bytes.checked_mul(u64::from(found.chunks)).is_some_and(|bytes| bytes < 1 << 62)
            && found.chunks_at == chunks_at(found.chunks, found.members)
            && found.writes_max > 0
            && found.held <= 1
            && found.grows <= 1
            && found.chunk_bytes_max >= found.chunk_bytes
            && found.chunk_bytes_max.is_multiple_of(BLOCK_BYTES);
        if !sound {
            return Err("its header has impossible numbers".to_owned());
        }
        let bytes = file.metadata().map_err(|e| e.to_string())?.len();
        if bytes != found.file_bytes() {
            return Err(format!("it has {bytes} bytes, and should have {}", found.file_bytes()));
        }
        Ok(found)
    }

    fn sum(&self) -> Hash {
        hash(&self.as_bytes()[..offset_of!(Constants, checksum)])
    }

    #[cfg(test)]
    pub(super) fn reseal(&mut self) {
        self.checksum = self.sum();
    }

    pub(super) fn held(&self) -> PoolHeld {
        if self.held == 0 { PoolHeld::Always } else { PoolHeld::Checkpoint }
    }

    pub(super) fn grows(&self) -> bool {
        self.grows != 0
    }

    /// Bytes of all chunks, if all of them have memory.
    pub(super) fn bytes(&self) -> u64 {
        self.chunk_bytes * u64::from(self.chunks)
    }

    pub(super) fn chunks_at(&self) -> u64 {
        self.chunks_at
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.chunks_at + self.bytes()
    }

    /// Memory of the pool when the first `bytes` of the chunks have memory; there is none between tables and chunks.
    pub(super) fn memory_bytes(&self, bytes: u64) -> u64 {
        self.tables_bytes(bytes).next_multiple_of(BLOCK_BYTES) + bytes
    }

    pub(super) fn control_at(&self) -> usize {
        CONTROL_AT
    }

    pub(super) fn chunk_table_at(&self) -> usize {
        chunk_table_at(self.members) as usize
    }

    pub(super) fn member_table_at(&self) -> usize {
        MEMBER_TABLE_AT
    }

    /// End of the tables, before the chunks.
    #[cfg(test)]
    pub(super) fn tables_end(&self) -> u64 {
        tables_end(self.chunks, self.members)
    }

    /// End of the used part of the tables while the first `bytes` of the chunks have memory.
    pub(super) fn tables_bytes(&self, bytes: u64) -> u64 {
        let chunks = (bytes / self.chunk_bytes).min(self.chunks.into());
        tables_end(chunks as u32, self.members)
    }
}

fn chunk_table_at(members: u32) -> u64 {
    let end = MEMBER_TABLE_AT as u64 + u64::from(members) * size_of::<MemberEntry>() as u64;
    end.next_multiple_of(BLOCK_BYTES)
}

fn tables_end(chunks: u32, members: u32) -> u64 {
    chunk_table_at(members) + u64::from(chunks) * size_of::<ChunkEntry>() as u64
}

/// Start of the chunks, aligned for huge pages.
fn chunks_at(chunks: u32, members: u32) -> u64 {
    tables_end(chunks, members).next_multiple_of(HUGE_PAGE as u64)
}
