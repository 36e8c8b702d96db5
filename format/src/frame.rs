//! Frames: stretches of a portion's blocks that are stored compressed. The blocks keep their numbers, and everything
//! else refers to those. The compressed bytes are at the start of the frame's room; the bytes after them have no
//! meaning.

use super::{BLOCK_BYTES, Refusal, blocks_for, damaged, sections::Sections};
use crate::Blocks;
use serde::{Deserialize, Serialize};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

const MAGIC: [u8; 8] = *b"MSTYFRAM";
/// Maximum number of blocks in a frame: reading one block unpacks them all.
pub const FRAME_BLOCKS: u64 = 64;
pub const FRAME_BYTES: u64 = FRAME_BLOCKS * BLOCK_BYTES;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameRecord {
    first_block: U64,
    blocks: U16,
    stored_blocks: U16,
    reserved: U32,
}

/// The start of a frame in the portion. It tells a frame from blocks that are stored plain.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameHeadRecord {
    magic: [u8; 8],
    codec: u8,
    reserved: u8,
    blocks: U16,
    bytes: U32,
}

const _: () = assert!(size_of::<FrameRecord>() == 16 && size_of::<FrameHeadRecord>() == 16);

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Codec {
    /// A block of LZ4, without an LZ4 frame around it.
    Lz4 = 1,
    /// A frame of Zstandard.
    Zstd = 2,
}

/// Blocks that are compressed together, and the number of blocks that hold the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub first_block: u64,
    pub blocks: u64,
    pub stored_blocks: u64,
}

impl Frame {
    /// The frame's room: the places of its blocks.
    pub fn room(&self) -> Blocks {
        Blocks { first: self.first_block, count: self.blocks }
    }
}

/// The frames in `frames`, which ascend and do not touch, with blocks of a stretch.
pub fn frames_in(frames: &[Frame], stretch: Blocks) -> &[Frame] {
    let from = frames.partition_point(|frame| frame.room().end() <= stretch.first);
    let count = frames[from..].partition_point(|frame| frame.first_block < stretch.end());
    &frames[from..from + count]
}

/// The start of a stored frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    pub codec: Codec,
    /// Number of blocks after unpacking.
    pub blocks: u64,
    /// Number of compressed bytes after the head.
    pub bytes: u64,
}

impl FrameHead {
    pub const BYTES: usize = size_of::<FrameHeadRecord>();

    pub fn build(&self) -> Vec<u8> {
        let record = FrameHeadRecord {
            magic: MAGIC,
            codec: self.codec as u8,
            reserved: 0,
            blocks: (self.blocks as u16).into(),
            bytes: (self.bytes as u32).into(),
        };
        record.as_bytes().to_vec()
    }

    /// Parses the head at the start of `bytes`; returns a reason if there is none.
    pub fn parse(bytes: &[u8]) -> Result<FrameHead, String> {
        let head = FrameHeadRecord::ref_from_prefix(bytes).ok().filter(|(head, _)| head.magic == MAGIC);
        let Some((head, _)) = head else { return Err("it does not begin as a frame".to_owned()) };
        let codec = match head.codec {
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            other => return Err(format!("it is compressed in the unknown way {other}")),
        };
        let head = FrameHead { codec, blocks: head.blocks.get().into(), bytes: head.bytes.get().into() };
        match (1..=FRAME_BLOCKS).contains(&head.blocks) && head.stored_blocks() < head.blocks {
            true => Ok(head),
            false => Err(format!("it says that {} bytes are stored of {} blocks", head.bytes, head.blocks)),
        }
    }

    /// Blocks that the frame is stored in.
    pub fn stored_blocks(&self) -> u64 {
        blocks_for(Self::BYTES as u64 + self.bytes)
    }
}

/// Bytes of a list of so many frames in a manifest.
pub fn list_bytes(frames: u64) -> u64 {
    size_of::<U64>() as u64 + frames.saturating_mul(size_of::<FrameRecord>() as u64)
}

pub(super) fn build_list(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = U64::new(frames.len() as u64).as_bytes().to_vec();
    for frame in frames {
        let record = FrameRecord {
            first_block: frame.first_block.into(),
            blocks: (frame.blocks as u16).into(),
            stored_blocks: (frame.stored_blocks as u16).into(),
            reserved: 0.into(),
        };
        bytes.extend_from_slice(record.as_bytes());
    }
    bytes
}

/// Parses the frames that come next in `sections`, of a portion of `portion_bytes`.
pub(super) fn parse_list(sections: &mut Sections<'_>, portion_bytes: u64) -> Result<Vec<Frame>, Refusal> {
    let count: &U64 = sections.record()?;
    let records = sections.table::<FrameRecord>(count.get())?;
    let (mut frames, mut free_from) = (Vec::with_capacity(records.len()), 0);
    for r in records {
        let (blocks, stored_blocks) = (r.blocks.get().into(), r.stored_blocks.get().into());
        let frame = Frame { first_block: r.first_block.get(), blocks, stored_blocks };
        if blocks > FRAME_BLOCKS || stored_blocks == 0 || stored_blocks >= blocks {
            return damaged(format!("it has a frame of {blocks} blocks that are stored in {stored_blocks}"));
        }
        let end = frame.first_block.checked_add(blocks).filter(|end| *end <= portion_bytes / BLOCK_BYTES);
        let Some(end) = end.filter(|_| frame.first_block >= free_from) else {
            return damaged("a frame of the manifest is outside the portion, or overlaps another");
        };
        free_from = end;
        frames.push(frame);
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first_block: u64, blocks: u64, stored_blocks: u64) -> Frame {
        Frame { first_block, blocks, stored_blocks }
    }

    fn parsed(frames: &[Frame]) -> Result<Vec<Frame>, Refusal> {
        parse_list(&mut Sections::new(&build_list(frames), "manifest"), 1000 * BLOCK_BYTES)
    }

    #[test]
    fn a_list_that_was_built_is_parsed_and_one_that_ends_early_is_not() {
        let frames = [frame(32, 64, 1), frame(96, 2, 1), frame(936, 64, 63)];
        assert_eq!(parsed(&frames), Ok(frames.to_vec()));
        let bytes = build_list(&frames);
        assert_eq!(bytes.len() as u64, list_bytes(3));
        for length in 0..bytes.len() {
            assert!(parse_list(&mut Sections::new(&bytes[..length], "manifest"), 1 << 30).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn frames_that_cannot_be_are_refused() {
        let wrong = [
            frame(32, 65, 1),
            frame(32, 64, 64),
            frame(32, 64, 0),
            frame(32, 1, 1),
            frame(32, 0, 0),
            frame(937, 64, 1),
            frame(u64::MAX, 64, 1),
        ];
        for wrong in wrong {
            assert!(matches!(parsed(&[wrong]), Err(Refusal::Damaged(_))), "{wrong:?}");
        }
        for over in [[frame(32, 64, 1), frame(95, 64, 1)], [frame(96, 64, 1), frame(32, 64, 1)]] {
            assert!(matches!(parsed(&over), Err(Refusal::Damaged(_))), "{over:?}");
        }
    }

    #[test]
    fn frames_of_a_stretch_are_found() {
        let frames = [frame(10, 4, 1), frame(14, 4, 1), frame(30, 4, 1)];
        let found = |first, count| frames_in(&frames, Blocks { first, count }).to_vec();
        assert_eq!(found(0, 10), []);
        assert_eq!(found(13, 1), [frames[0]]);
        assert_eq!(found(13, 2), frames[..2]);
        assert_eq!(found(18, 12), []);
        assert_eq!(found(0, 100), frames);
    }

    #[test]
    fn a_head_is_one_only_if_its_numbers_can_be() {
        let head = FrameHead { codec: Codec::Zstd, blocks: 64, bytes: 63 * BLOCK_BYTES - FrameHead::BYTES as u64 };
        let bytes = head.build();
        assert_eq!(FrameHead::parse(&bytes), Ok(head));
        assert!(FrameHead::parse(&bytes[..15]).is_err());
        let no_gain = FrameHead { bytes: head.bytes + 1, ..head };
        for wrong in [no_gain, FrameHead { blocks: 65, ..head }, FrameHead { blocks: 0, bytes: 0, ..head }] {
            assert!(FrameHead::parse(&wrong.build()).is_err(), "{wrong:?}");
        }
        for (at, value) in [(0, 0), (8, 0), (8, 3)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert!(FrameHead::parse(&changed).is_err(), "{at}: {value}");
        }
    }
}
