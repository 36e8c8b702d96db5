//! Compressing the data of a target, in the thread that writes it. The blocks of a frame keep their room; the
//! compressed bytes are at its beginning.
//!
//! Invariant: a frame consists of whole blocks of one write; blocks that are not noted as a frame are stored plain.

use crate::{
    capture::Piece,
    commit::{Allocation, Packing},
    error::Result,
    ground::{Instant, lock},
    space::{
        Packer, Portion,
        format::{BLOCK, BLOCK_BYTES, FRAME_BYTES, Frame, Manifest},
    },
};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The frames of a shard in one of its targets.
#[derive(Debug, Default)]
pub(super) struct Packed {
    frames: Mutex<Vec<Frame>>,
    /// Upper bound of their number so far.
    begun: AtomicU64,
}

impl Packed {
    /// Writes `bytes` of the log, starting at `offset`, to their place in `portion`, compressed if that saves blocks.
    /// Calls `note` with the bytes and the duration of each write.
    pub(super) fn write(
        &self,
        portion: &Portion,
        allocation: &Allocation,
        packing: Packing,
        (offset, bytes): (u64, &[u8]),
        mut note: impl FnMut(u64, Duration),
    ) -> Result<()> {
        // Without memory for it nothing is compressed.
        let Some(mut packer) = Packer::new(packing.codec) else {
            return allocation.write(portion, offset, bytes, note);
        };
        let mut put = |at: u64, bytes: &[u8]| -> Result<()> {
            if !bytes.is_empty() {
                let begun = Instant::now();
                portion.write(at, bytes)?;
                note(bytes.len() as u64, begun.elapsed());
            }
            Ok(())
        };
        let mut rest = bytes;
        for Piece { at, bytes } in allocation.places_of(offset, bytes.len() as u64) {
            let (piece, later) = rest.split_at(bytes as usize);
            rest = later;
            // Leave a block that is shared with other pieces uncompressed.
            let head = (at.next_multiple_of(BLOCK_BYTES) - at).min(bytes) as usize;
            let whole = head + (piece.len() - head) / BLOCK * BLOCK;
            let (mut from, mut plain_from) = (head, 0);
            while from < whole {
                let to = whole.min(from + FRAME_BYTES as usize);
                if let Some(stored) = packer.pack(&piece[from..to])
                    && self.begun.fetch_add(1, Ordering::Relaxed) < packing.frames_max
                {
                    put(at + plain_from as u64, &piece[plain_from..from])?;
                    debug_assert!((at + from as u64).is_multiple_of(BLOCK_BYTES) && stored.len().is_multiple_of(BLOCK));
                    debug_assert!(stored.len() < to - from, "a frame is no shorter than its blocks");
                    put(at + from as u64, stored)?;
                    lock(&self.frames).push(Frame {
                        first_block: (at + from as u64) / BLOCK_BYTES,
                        blocks: ((to - from) / BLOCK) as u64,
                        stored_blocks: (stored.len() / BLOCK) as u64,
                    });
                    plain_from = to;
                }
                from = to;
            }
            put(at + plain_from as u64, &piece[plain_from..])?;
        }
        Ok(())
    }

    /// Adds the frames to the manifest of the shard, which is fully written.
    pub(super) fn add_to(&self, manifest: &mut Manifest) {
        manifest.frames.extend(&*lock(&self.frames));
        manifest.frames.sort_unstable_by_key(|frame| frame.first_block);
        let follows = |pair: &[Frame]| pair[0].room().end() <= pair[1].first_block;
        debug_assert!(manifest.frames.windows(2).all(follows), "two frames have one place");
    }
}
