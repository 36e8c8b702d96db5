//! Compressing what goes to a target, by whoever writes it: the blocks of a frame keep their room, and what is stored of
//! them lies at its beginning.
//!
//! What must hold: a frame has whole blocks of one write; what is not noted as a frame lies there as it is.

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

/// The frames of a shard that are in one of its targets.
#[derive(Debug, Default)]
pub(super) struct Packed {
    frames: Mutex<Vec<Frame>>,
    /// How many there may be of them by now.
    begun: AtomicU64,
}

impl Packed {
    /// Writes `bytes` of the log, from `offset` on, where they belong in `portion`, compressed where that saves blocks.
    /// `note` is told of each write how many bytes it had and how long it took.
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
            // What shares a block with other pieces is left as it is.
            let head = (at.next_multiple_of(BLOCK_BYTES) - at).min(bytes) as usize;
            let whole = head + (piece.len() - head) / BLOCK * BLOCK;
            let (mut from, mut plain_from) = (head, 0);
            while from < whole {
                let to = whole.min(from + FRAME_BYTES as usize);
                if let Some(stored) = packer.pack(&piece[from..to])
                    && self.begun.fetch_add(1, Ordering::Relaxed) < packing.frames_max
                {
                    put(at + plain_from as u64, &piece[plain_from..from])?;
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

    /// Adds the frames to the manifest of the shard, all of which is written.
    pub(super) fn add_to(&self, manifest: &mut Manifest) {
        manifest.frames.extend(&*lock(&self.frames));
        manifest.frames.sort_unstable_by_key(|frame| frame.first_block);
    }
}
