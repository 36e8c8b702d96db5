//! Memory that O_DIRECT accepts.

use super::format::{BLOCK, blocks_for};
use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Clone, Debug)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// A buffer of whole blocks, aligned to the block.
#[derive(Clone, Debug)]
pub(crate) struct Aligned {
    blocks: Vec<Block>,
}

impl Aligned {
    /// A buffer of at least `bytes` zeros; `None` where memory is short.
    pub(crate) fn zeroed(bytes: u64) -> Option<Aligned> {
        let count = usize::try_from(blocks_for(bytes)).ok()?;
        Some(Aligned { blocks: Block::new_vec_zeroed(count).ok()? })
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
        self.blocks.as_bytes()
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.blocks.as_mut_bytes()
    }
}
