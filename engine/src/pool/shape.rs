//! The shape of a new pool, as requested by the process that makes it, before the file's layout is computed.

use crate::{config::PoolHeld, space::format::BLOCK_BYTES};

/// The requested shape of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes of all chunks; in a pool that grows, their maximum.
    pub(crate) bytes: u64,
    pub(crate) grows: bool,
    /// Size of a chunk. Chunks become smaller if there would be fewer than one for each member and one more.
    pub(crate) chunk_bytes: u64,
    /// Maximum size of a chunk in a pool that grows, chosen to suit the shards.
    pub(crate) chunk_bytes_max: u64,
    pub(crate) members: u32,
    pub(crate) held: PoolHeld,
    /// Number of chunks that are written at the same time.
    pub(crate) writes_max: u32,
}

impl Shape {
    /// A pool without memory for chunks; it never gets any. Its members only record the data that they have staged
    /// elsewhere.
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
