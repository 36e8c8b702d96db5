//! Finding the blocks of a shard that its own process had compressed. Only that process knew them, so this looks at the
//! written data.
//!
//! Invariant: bytes count as a frame only if they unpack to data with the hashes of the saved blocks.

use crate::{
    commit::Allocation,
    error::Result,
    space::{
        Aligned, Portion,
        format::{BLOCK, BLOCK_BYTES, FRAME_BLOCKS, FRAME_BYTES, Frame, FrameHead, HASH_BYTES, hash_blocks},
        head_of, unpack,
    },
};
use std::ops::Range;

/// The frames in these blocks of the log, which were written to `portion`; `rows`: the hashes of all blocks of the log.
pub(super) fn frames_of(
    portion: &Portion,
    allocation: &Allocation,
    rows: &[u8],
    written: &[Range<u64>],
) -> Result<Vec<Frame>> {
    let buffer = || Aligned::zeroed(FRAME_BYTES).ok_or_else(|| portion.out_of_memory(FRAME_BYTES));
    let (mut window, mut unpacked, mut frames) = (buffer()?, buffer()?, Vec::new());
    for range in written {
        let mut in_log = range.start;
        let bytes = (range.end - range.start) * BLOCK_BYTES;
        for piece in allocation.places_of(range.start * BLOCK_BYTES, bytes) {
            let (mut first, end) = (piece.at / BLOCK_BYTES, (piece.at + piece.bytes) / BLOCK_BYTES);
            while first < end {
                let count = FRAME_BLOCKS.min(end - first);
                let window = &mut window[..(count * BLOCK_BYTES) as usize];
                portion.read_into(first * BLOCK_BYTES, window)?;
                let hashes = &rows[in_log as usize * HASH_BYTES..][..count as usize * HASH_BYTES];
                let passed = match frame_in(window, hashes, &mut unpacked) {
                    Some(head) => {
                        let (blocks, stored_blocks) = (head.blocks, head.stored_blocks());
                        debug_assert!(blocks <= count, "a frame reaches beyond the write");
                        frames.push(Frame { first_block: first, blocks, stored_blocks });
                        blocks
                    }
                    // The next frame may begin after any block that is stored plain.
                    None => {
                        let mut behind = window.chunks(BLOCK).skip(1);
                        1 + behind.position(|block| FrameHead::parse(block).is_ok()).unwrap_or(count as usize - 1)
                            as u64
                    }
                };
                (first, in_log) = (first + passed, in_log + passed);
            }
        }
    }
    Ok(frames)
}

/// The frame at the start of `window`, if its blocks have these hashes.
fn frame_in(window: &[u8], hashes: &[u8], unpacked: &mut Aligned) -> Option<FrameHead> {
    let (head, packed) = head_of(window).ok()?;
    let blocks = unpacked.get_mut(..(head.blocks * BLOCK_BYTES) as usize)?;
    let hashes = hashes.get(..head.blocks as usize * HASH_BYTES)?;
    unpack(&head, packed, blocks).ok()?;
    let mut found = vec![0; hashes.len()];
    hash_blocks(blocks, &mut found);
    (found == hashes).then_some(head)
}
