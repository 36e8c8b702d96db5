//! Checksums: xxh3-128, stored with the low half first, little-endian.

use super::BLOCK;
use twox_hash::{XxHash3_128, xxhash3_128::Hasher};

pub type Hash = [u8; HASH_BYTES];
pub const HASH_BYTES: usize = 16;

pub fn hash(bytes: &[u8]) -> Hash {
    XxHash3_128::oneshot(bytes).to_le_bytes()
}

/// The hash of bytes that come in parts.
#[derive(Default)]
pub struct Hashing(Hasher);

impl Hashing {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub fn hash(&self) -> Hash {
        self.0.finish_128().to_le_bytes()
    }
}

/// The hash of each whole block of `bytes`, in a row.
pub fn hash_blocks(bytes: &[u8], hashes: &mut [u8]) {
    debug_assert_eq!(bytes.len() / BLOCK * HASH_BYTES, hashes.len());
    for (block, slot) in bytes.chunks_exact(BLOCK).zip(hashes.chunks_exact_mut(HASH_BYTES)) {
        slot.copy_from_slice(&hash(block));
    }
}

/// Writes the hash of all earlier bytes into the last 16 bytes of `block`.
pub(super) fn seal(block: &mut [u8; BLOCK]) {
    let sum = hash(&block[..BLOCK - HASH_BYTES]);
    block[BLOCK - HASH_BYTES..].copy_from_slice(&sum);
}

pub(super) fn sealed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    seal(&mut block);
    block
}

pub(super) fn is_sealed(block: &[u8; BLOCK]) -> bool {
    hash(&block[..BLOCK - HASH_BYTES]) == block[BLOCK - HASH_BYTES..]
}
