//! The stage without a buffer: whole blocks of large regions are written from the program's memory,
//! and only what shares a block is gathered first.

use crate::{
    capture::{Piece, Region, Stream},
    error::Result,
    place::{Saving, Staged},
    space::{Aligned, format::BLOCK_BYTES},
};
use std::time::Instant;

/// Largest single write; bounds the time between two looks at a failure, nothing else.
const PIECE_BYTES: u64 = 64 << 20;

/// Writes the stream from the calling thread.
pub(crate) fn write_direct(stream: &Stream, regions: &[Region], saving: &Saving) -> Result<Staged> {
    let started = Instant::now();
    for piece in saving.pieces(PIECE_BYTES) {
        let mut from = 0;
        while from < piece.bytes {
            let rest = Piece { offset: piece.offset + from, bytes: piece.bytes - from, at: piece.at + from };
            from += match whole_blocks(stream, rest) {
                Some((index, in_region, bytes)) => {
                    let part = Piece { bytes, ..rest };
                    let whole = regions[index].slice(in_region, bytes);
                    saving.hash(part, whole);
                    saving.write(part, whole)?;
                    bytes
                }
                None => {
                    let part = Piece { bytes: BLOCK_BYTES, ..rest };
                    let mut block = Aligned::zeroed(BLOCK_BYTES).ok_or_else(|| saving.out_of_memory(BLOCK_BYTES))?;
                    stream.fill(part, regions, &mut block);
                    saving.hash(part, &block);
                    saving.write(part, &block)?;
                    BLOCK_BYTES
                }
            };
        }
    }
    Ok(Staged { copy: started.elapsed(), ..Staged::default() })
}

/// The whole blocks of one region at the beginning of `piece`: region, offset in it, length.
fn whole_blocks(stream: &Stream, piece: Piece) -> Option<(usize, u64, u64)> {
    let (index, in_region, in_piece, bytes) = stream.parts(piece).next()?;
    let whole = bytes / BLOCK_BYTES * BLOCK_BYTES;
    (in_piece == 0 && whole > 0).then_some((index, in_region, whole))
}
