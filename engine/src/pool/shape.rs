//! What a new pool is to be like: what whoever makes it asks for, before the file's layout is found.

use crate::{config::PoolHeld, space::format::BLOCK_BYTES};

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
