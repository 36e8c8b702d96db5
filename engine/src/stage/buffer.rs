//! Where pieces are gathered: memory of the rank's own, a chunk of the node's pool, or the blocks that they are to lie in.

use crate::{device::Mapped, pool::Chunk, space::Aligned};

/// A buffer that is being filled.
#[derive(Debug)]
pub(super) enum Buffer {
    Own(Aligned),
    Chunk(Chunk),
    /// Of the portion, where the log has come to.
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
