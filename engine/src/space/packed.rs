//! Blocks, compressed into a frame and back.
//!
//! What must hold: whatever is stored, unpacking it fills the memory that was given, and takes no more.

use super::{
    Aligned,
    format::{BLOCK_BYTES, Codec, FRAME_BYTES, FrameHead},
};
use zstd::bulk::{Compressor, Decompressor};

/// The level at which Zstandard compresses: it keeps up with a device. Higher levels take much longer, and gain little on
/// numbers.
const ZSTD_LEVEL: i32 = 1;

/// Compresses one frame after the other.
pub(crate) struct Packer {
    codec: Codec,
    zstd: Option<Compressor<'static>>,
    /// The frame that was packed last, with room for any.
    frame: Aligned,
}

impl Packer {
    /// `None` if memory is short.
    pub(crate) fn new(codec: Codec) -> Option<Packer> {
        let zstd = match codec {
            Codec::Lz4 => None,
            Codec::Zstd => Some(Compressor::new(ZSTD_LEVEL).ok()?),
        };
        let longest = lz4_flex::block::get_maximum_output_size(FRAME_BYTES as usize) + FrameHead::BYTES;
        Some(Packer { codec, zstd, frame: Aligned::zeroed(longest as u64)? })
    }

    /// The frame of these whole `blocks`, at most `FRAME_BLOCKS` of them, in whole blocks; `None` if it has no fewer of
    /// them.
    pub(crate) fn pack(&mut self, blocks: &[u8]) -> Option<&[u8]> {
        let count = blocks.len() as u64 / BLOCK_BYTES;
        let into = &mut self.frame[FrameHead::BYTES..];
        let bytes = match &mut self.zstd {
            None => lz4_flex::block::compress_into(blocks, into).ok()?,
            Some(zstd) => zstd.compress_to_buffer(blocks, into).ok()?,
        };
        let head = FrameHead { codec: self.codec, blocks: count, bytes: bytes as u64 };
        let stored = head.stored_blocks();
        if stored >= count {
            return None;
        }
        self.frame[..FrameHead::BYTES].copy_from_slice(&head.build());
        let (end, stored) = (FrameHead::BYTES + bytes, (stored * BLOCK_BYTES) as usize);
        self.frame[end..stored].fill(0);
        Some(&self.frame[..stored])
    }
}

/// The head of the frame that `stored` begins with, and the bytes behind it; an error says why it begins with none.
pub(crate) fn head_of(stored: &[u8]) -> Result<(FrameHead, &[u8]), String> {
    let head = FrameHead::parse(stored)?;
    let packed = stored[FrameHead::BYTES..].get(..head.bytes as usize);
    packed.map(|packed| (head, packed)).ok_or_else(|| "it ends early".to_owned())
}

/// Fills `blocks`, as many as `head` says, with what is `packed`; an error says why it is not that.
pub(crate) fn unpack(head: &FrameHead, packed: &[u8], blocks: &mut [u8]) -> Result<(), String> {
    let bytes = match head.codec {
        Codec::Lz4 => lz4_flex::block::decompress_into(packed, blocks).map_err(|error| error.to_string()),
        Codec::Zstd => Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(packed, blocks))
            .map_err(|error| error.to_string()),
    };
    match bytes {
        Ok(bytes) if bytes == blocks.len() => Ok(()),
        Ok(bytes) => Err(format!("it unpacks to {bytes} bytes instead of {}", blocks.len())),
        Err(why) => Err(format!("it does not unpack to its {} bytes ({why})", blocks.len())),
    }
}
