//! A portion of which only parts are present, in memory: blocks sent by another rank, at their offsets in its portion.
//!
//! Invariant: a block that was not sent is never read as if it were present.

use super::{
    Aligned, Portion, PortionShape,
    format::{BLOCK_BYTES, PortionPlace},
};
use crate::device::{File, FileStatus, Known, Source};
use std::{collections::BTreeMap, fmt, io, ops::Range, sync::Arc};

/// The parts, by their starting offsets; they do not overlap.
struct Parts {
    bytes: u64,
    parts: BTreeMap<u64, (Arc<Aligned>, Range<usize>)>,
}

/// A portion shaped `like` that of another rank, with the `blocks` that arrived, in ascending stretches. `memory` holds
/// their bytes one after the other, so many bytes in each buffer. Returns `None` if there are fewer bytes.
pub(crate) fn portion_in_parts(
    like: PortionShape,
    blocks: &[Range<u64>],
    memory: Vec<(Aligned, u64)>,
) -> Option<Portion> {
    let mut memory = memory.into_iter().map(|(memory, bytes)| (Arc::new(memory), bytes as usize));
    let (mut parts, mut piece, mut used) = (BTreeMap::new(), memory.next(), 0);
    for range in blocks {
        let (mut at, end) = (range.start * BLOCK_BYTES, range.end * BLOCK_BYTES);
        while at < end {
            let (of, bytes) = piece.as_ref()?;
            if used == *bytes {
                (piece, used) = (memory.next(), 0);
                continue;
            }
            let count = (bytes - used).min((end - at) as usize);
            parts.insert(at, (of.clone(), used..used + count));
            (at, used) = (at + count as u64, used + count);
        }
    }
    let PortionShape { shard, bytes, layout_id, slot_stride } = like;
    let place = PortionPlace { rank: shard, at: 0, bytes };
    let path = format!("shard {shard}, of which another rank sent the needed parts").into();
    Some(Portion::of_file(Arc::new(Parts { bytes, parts }), path, place, layout_id, slot_stride))
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parts of {} bytes", self.parts.len(), self.bytes)
    }
}

impl File for Parts {
    fn read(&self, buffer: &mut [u8], offset: u64, _: Source) -> io::Result<usize> {
        let (at, (memory, inside)) = self.parts.range(..=offset).next_back().ok_or_else(not_sent)?;
        let rest = memory[inside.clone()].get((offset - at) as usize..).filter(|rest| !rest.is_empty());
        let rest = rest.ok_or_else(not_sent)?;
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never written.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn status(&self, _: Known) -> io::Result<FileStatus> {
        Ok(FileStatus::of(self.bytes))
    }
}

fn not_sent() -> io::Error {
    io::Error::other("this part was not asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::BLOCK;

    const SHAPE: PortionShape =
        PortionShape { shard: 3, bytes: 100 * BLOCK_BYTES, layout_id: [1; 16], slot_stride: 65536 };

    fn filled(blocks: &[u8]) -> (Aligned, u64) {
        let bytes: Vec<u8> = blocks.iter().flat_map(|of| [*of; BLOCK]).collect();
        // Larger than the used part, as a receiver's buffer may be.
        let mut memory = Aligned::zeroed(bytes.len() as u64 + BLOCK_BYTES).unwrap();
        memory[..bytes.len()].copy_from_slice(&bytes);
        (memory, bytes.len() as u64)
    }

    #[test]
    fn blocks_lie_where_they_lay_however_the_pieces_were_cut_and_nothing_else_is_there() {
        let blocks = [40..43, 50..51, 51..52, 90..93];
        for cut in [vec![8], vec![1, 7], vec![3, 1, 4], vec![5, 3], vec![1; 8]] {
            let mut next = 0;
            let piece = |count: &usize| {
                let numbers: Vec<u8> = (next..next + *count as u8).collect();
                next += *count as u8;
                filled(&numbers)
            };
            let portion = portion_in_parts(SHAPE, &blocks, cut.iter().map(piece).collect()).unwrap();
            for (number, block) in blocks.iter().cloned().flatten().enumerate() {
                let mut read = [9; BLOCK];
                portion.read_into(block * BLOCK_BYTES, &mut read).unwrap();
                assert_eq!(read, [number as u8; BLOCK], "block {block}");
            }
            let mut several = vec![0; 3 * BLOCK];
            portion.read_into(90 * BLOCK_BYTES, &mut several).unwrap();
            assert_eq!(several, [[5; BLOCK], [6; BLOCK], [7; BLOCK]].concat());
            for absent in [0, 39, 43, 49, 52, 93, 99] {
                assert!(portion.read_into(absent * BLOCK_BYTES, &mut [0; BLOCK]).is_err(), "block {absent}");
            }
            assert!(portion.read_into(42 * BLOCK_BYTES, &mut several).is_err());
        }
        assert!(portion_in_parts(SHAPE, &blocks, vec![filled(&[0; 7])]).is_none());
    }
}
