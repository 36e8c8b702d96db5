//! Memory that O_DIRECT accepts.

use super::format::{BLOCK, BLOCK_BYTES, blocks_for};
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Debug)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// A buffer of whole blocks, aligned to the block.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<Block>),
    Apart(MmapMut),
}

/// Below this size a separate mapping costs more than heap memory that is not returned to the system.
const APART_FROM: u64 = 128 << 10;

impl Aligned {
    /// A buffer of at least `bytes` zeros; `None` if memory is short.
    pub(crate) fn zeroed(bytes: u64) -> Option<Aligned> {
        let count = usize::try_from(blocks_for(bytes)).ok()?;
        Some(Aligned { memory: Memory::Heap(Block::new_vec_zeroed(count).ok()?) })
    }

    /// The same for bytes that live for a while, such as a shard's rows of hashes. Long buffers get a mapping of their
    /// own: in the heap, freed buffers left gaps between others that stayed, and the program grew to three times the
    /// memory in use.
    pub(crate) fn lasting(bytes: u64) -> Option<Aligned> {
        if bytes < APART_FROM {
            return Self::zeroed(bytes);
        }
        let bytes = usize::try_from(blocks_for(bytes).checked_mul(BLOCK_BYTES)?).ok()?;
        Some(Aligned { memory: Memory::Apart(MmapMut::map_anon(bytes).ok()?) })
    }

    pub(crate) fn holding(bytes: &[u8]) -> Option<Aligned> {
        let mut aligned = Self::zeroed(bytes.len() as u64)?;
        aligned[..bytes.len()].copy_from_slice(bytes);
        Some(aligned)
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(blocks) => blocks.as_bytes(),
            Memory::Apart(mapped) => mapped,
        }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(blocks) => blocks.as_mut_bytes(),
            Memory::Apart(mapped) => mapped,
        }
    }
}
