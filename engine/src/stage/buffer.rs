//! Buffers for gathering pieces: the rank's own memory, a chunk of the node's pool, or the final blocks of the pieces.

use crate::{device::Mapped, pool::Chunk, space::Aligned};

/// A buffer that is being filled.
#[derive(Debug)]
pub(super) enum Buffer {
    Own(Aligned),
    Chunk(Chunk),
    /// Blocks of the portion, at the current end of the log.
    Blocks(Mapped),
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Own(aligned) => aligned,
            Buffer::Chunk(chunk) => chunk.bytes(),
            Buffer::Blocks(mapped) => mapped.as_ref(),
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Own(aligned) => aligned,
            Buffer::Chunk(chunk) => chunk.bytes_mut(),
            Buffer::Blocks(mapped) => mapped.as_mut(),
        }
    }
}
