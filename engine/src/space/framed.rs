//! Reading a portion in which some blocks are stored compressed.

use super::{
    Aligned, Portion,
    format::{BLOCK_BYTES, FRAME_BYTES, Frame, Refusal, blocks_for, frames_in},
    free::Blocks,
    packed::{head_of, unpack},
};
use crate::error::Result;

/// Reads blocks as they were before compression. Keeps the last frame of which only a part was read, because its other
/// blocks are likely to be read next.
#[derive(Default)]
pub(crate) struct FrameReader {
    last: Option<(Frame, Aligned)>,
}

impl FrameReader {
    /// Reads whole `blocks` from offset `at` of `portion` on; `frames`: those of the manifest that refers to the
    /// blocks.
    pub(crate) fn read(&mut self, portion: &Portion, frames: &[Frame], at: u64, blocks: &mut [u8]) -> Result<()> {
        let stretch = Blocks { first: at / BLOCK_BYTES, count: blocks_for(blocks.len() as u64) };
        let (mut rest, mut next) = (blocks, stretch.first);
        let mut split = |to: u64| {
            let (from, bytes) = (next, ((to - next) * BLOCK_BYTES) as usize);
            next = to;
            (from, rest.split_off_mut(..bytes.min(rest.len())).unwrap_or_default())
        };
        for frame in frames_in(frames, stretch) {
            let (plain_at, plain) = split(frame.first_block.max(stretch.first));
            if !plain.is_empty() {
                portion.read_into(plain_at * BLOCK_BYTES, plain)?;
            }
            let (from, part) = split(frame.room().end().min(stretch.end()));
            if part.len() as u64 == frame.blocks * BLOCK_BYTES {
                read_frame(portion, frame, part)?;
            } else {
                let all = self.frame(portion, frame)?;
                let skip = ((from - frame.first_block) * BLOCK_BYTES) as usize;
                part.copy_from_slice(&all[skip..skip + part.len()]);
            }
        }
        let (plain_at, plain) = split(stretch.end());
        if plain.is_empty() { Ok(()) } else { portion.read_into(plain_at * BLOCK_BYTES, plain) }
    }

    /// All blocks of a frame.
    fn frame(&mut self, portion: &Portion, frame: &Frame) -> Result<&Aligned> {
        let unpacked = match self.last.take() {
            Some((last, unpacked)) if last == *frame => unpacked,
            other => {
                let kept = other.map(|(_, blocks)| blocks).or_else(|| Aligned::zeroed(FRAME_BYTES));
                let mut unpacked = kept.ok_or_else(|| portion.out_of_memory(FRAME_BYTES))?;
                read_frame(portion, frame, &mut unpacked[..(frame.blocks * BLOCK_BYTES) as usize])?;
                unpacked
            }
        };
        Ok(&self.last.insert((*frame, unpacked)).1)
    }
}

/// Fills `blocks` with all blocks of `frame`.
fn read_frame(portion: &Portion, frame: &Frame, blocks: &mut [u8]) -> Result<()> {
    let stored_bytes = frame.stored_blocks * BLOCK_BYTES;
    let mut stored = Aligned::zeroed(stored_bytes).ok_or_else(|| portion.out_of_memory(stored_bytes))?;
    portion.read_into(frame.first_block * BLOCK_BYTES, &mut stored)?;
    let unpacked = head_of(&stored).and_then(|(head, packed)| match head.blocks == frame.blocks {
        true => unpack(&head, packed, blocks),
        false => Err(format!("it says that it has {} blocks", head.blocks)),
    });
    unpacked.map_err(|why| {
        let of = format!("blocks {} to {}, a compressed frame", frame.first_block, frame.room().end() - 1);
        portion.refuse(Refusal::Damaged(why), &of)
    })
}
