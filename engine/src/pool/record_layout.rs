//! Layout of a record file: a block with the owner and a description of the shard, the rows of hashes, the table of
//! segments, the segments' progress, and last the plan.

use crate::{
    device::OfAtomics,
    space::format::{BLOCK_BYTES, HASH_BYTES, Hash, Hashing, hash},
};
use std::{
    mem::offset_of,
    sync::atomic::{AtomicU8, AtomicU32, AtomicU64},
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: [u8; 8] = *b"MSTYRCRD";
/// Version 6: written data can be compressed. Version 3: a segment can be stored in the target itself. Version 2: one
/// staged shard for several targets. Version 1: one target.
const VERSION: u32 = 7;
pub(super) const CONTROL_AT: usize = 1024;
pub(super) const ROWS_AT: u64 = BLOCK_BYTES;

/// The owner of the record. The file begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Owner {
    magic: [u8; 8],
    version: u32,
    pub(super) member: u32,
    pub(super) pool: [u8; 16],
    pub(super) rank: u32,
    reserved: u32,
    checksum: Hash,
}

/// Describes the shard in the record.
#[repr(C, align(64))]
pub(super) struct ShardControl {
    /// `SEALED` if the record is sealed.
    pub(super) sealed: AtomicU32,
    pub(super) tag: AtomicU32,
    /// Number of segments that the table has room for; `segments` of them are used.
    pub(super) segments_max: AtomicU32,
    pub(super) segments: AtomicU32,
    pub(super) rows_bytes: AtomicU64,
    pub(super) plan_bytes: AtomicU64,
    pub(super) seal: [AtomicU64; 2],
    /// Targets that have ended (`ended_in`); the seal does not cover this word.
    pub(super) ended: AtomicU64,
}

/// `ShardControl`, as read back.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct ShardFound {
    pub(super) sealed: u32,
    pub(super) tag: u32,
    pub(super) segments_max: u32,
    pub(super) segments: u32,
    pub(super) rows_bytes: u64,
    pub(super) plan_bytes: u64,
    pub(super) seal: Hash,
    pub(super) ended: u64,
    pub(super) unused: [u8; 8],
}

pub(super) const SEALED: u32 = 0x5EA1_ED01;
/// Each segment has one byte of progress: a bit for each target that has the segment, and this bit once the hashes are
/// in their rows.
pub(super) const HASHED: u8 = 1 << 7;
/// Largest number of targets of one staged shard.
pub(crate) const TARGETS_MAX: usize = 7;

/// Chunk number of a segment that was written straight to its place in the shard's only target.
pub(super) const IN_TARGET: u32 = u32::MAX;

/// Describes one segment.
#[repr(C)]
pub(super) struct SegmentEntry {
    pub(super) offset: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) chunk: AtomicU32,
    /// Number of 4 KiB blocks in each chunk.
    pub(super) chunk_blocks: AtomicU32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct SegmentFound {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) chunk: u32,
    pub(super) chunk_blocks: u32,
}

const _: () = assert!(size_of::<ShardControl>() == size_of::<ShardFound>());
const _: () = assert!(offset_of!(ShardControl, seal) == offset_of!(ShardFound, seal));
const _: () = assert!(offset_of!(ShardControl, ended) == offset_of!(ShardFound, ended));
const _: () = assert!(size_of::<SegmentEntry>() == size_of::<SegmentFound>());
const _: () = assert!(offset_of!(SegmentEntry, chunk) == offset_of!(SegmentFound, chunk));
const _: () = assert!(size_of::<Owner>() <= CONTROL_AT);

// SAFETY: the type contains atomics only; so do those below.
#[allow(unsafe_code)]
unsafe impl OfAtomics for ShardControl {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl OfAtomics for SegmentEntry {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl OfAtomics for AtomicU64 {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl OfAtomics for AtomicU8 {}

impl Owner {
    pub(super) fn new(pool: [u8; 16], rank: u32, member: u32) -> Owner {
        let mut owner =
            Owner { magic: MAGIC, version: VERSION, member, pool, rank, reserved: 0, checksum: [0; HASH_BYTES] };
        owner.checksum = owner.sum();
        owner
    }

    /// Reads the owner. Returns a reason if the block is no record, is damaged, or belongs to another pool or rank.
    pub(super) fn parse(block: &[u8], pool: [u8; 16], rank: u32) -> Result<Owner, String> {
        let found = Owner::read_from_prefix(block).map(|(owner, _)| owner);
        let owner = found.ok().filter(|owner| owner.magic == MAGIC).ok_or("it does not begin as a record")?;
        if owner.version != VERSION {
            if (Owner { version: VERSION, ..owner }).sum() == owner.checksum {
                return Err("it does not begin as a record: its version is damaged".to_owned());
            }
            return Err(format!("it was made by another version of Mainstay (version {})", owner.version));
        }
        let ours = (owner.pool, owner.rank) == (pool, rank) && owner.checksum == owner.sum();
        ours.then_some(owner).ok_or_else(|| "it does not name its owner".to_owned())
    }

    fn sum(&self) -> Hash {
        hash(&self.as_bytes()[..offset_of!(Owner, checksum)])
    }
}

/// Reads the word of ended targets: a bit for each target that has ended, and above them the complement of all bits. If
/// the word is garbled, no target counts as ended.
pub(super) fn ended_in(word: u64) -> u32 {
    let (complement, ended) = ((word >> 32) as u32, word as u32);
    if complement == !ended { ended } else { 0 }
}

/// The word of ended targets after target number `target` has ended too.
pub(super) fn ended_with(word: u64, target: usize) -> u64 {
    let ended = ended_in(word) | 1 << target;
    u64::from(!ended) << 32 | u64::from(ended)
}

/// Offsets of the parts of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) rows_bytes: u64,
    pub(super) segments_max: u32,
    pub(super) table_at: u64,
    pub(super) done_at: u64,
    pub(super) plan_at: u64,
}

impl Parts {
    /// Returns `None` if the record would exceed the largest possible file.
    pub(super) fn new(rows_bytes: u64, segments_max: u32) -> Option<Parts> {
        let table_at = ROWS_AT.checked_add(rows_bytes)?.checked_next_multiple_of(BLOCK_BYTES)?;
        let done_at = table_at.checked_add(u64::from(segments_max) * size_of::<SegmentEntry>() as u64)?;
        let plan_at = done_at.checked_add(u64::from(segments_max))?.checked_next_multiple_of(BLOCK_BYTES)?;
        (plan_at < 1 << 62).then_some(Parts { rows_bytes, segments_max, table_at, done_at, plan_at })
    }

    pub(super) fn rows_at(&self) -> u64 {
        ROWS_AT
    }
}

/// Computes the seal over the plan and the positions of the segments. The seal covers neither the progress bytes nor
/// the rows of hashes.
pub(super) fn seal_of(owner: &Owner, found: &ShardFound, table: &[u8], plan: &[u8]) -> Hash {
    let mut sealed = Hashing::default();
    let found = &found.as_bytes()[..offset_of!(ShardFound, seal)];
    [owner.as_bytes(), found, table, plan].into_iter().for_each(|part| sealed.add(part));
    sealed.hash()
}
