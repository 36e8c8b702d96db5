//! Compressing blocks into a frame, and back.
//!
//! Invariant: unpacking fills exactly the given memory, whatever bytes are stored.

use super::{
    Aligned,
    format::{BLOCK, BLOCK_BYTES, Codec, FRAME_BYTES, FrameHead},
};
use zstd::bulk::{Compressor, Decompressor};

/// The level for Zstandard: it keeps up with a device. Higher levels take much longer and gain little on numbers.
const ZSTD_LEVEL: i32 = 1;

/// Compresses one frame after the other.
pub(crate) struct Packer {
    codec: Codec,
    zstd: Option<Compressor<'static>>,
    /// The last frame, in a buffer that is large enough for any.
    frame: Aligned,
}

impl Packer {
    /// Returns `None` if memory is short.
    pub(crate) fn new(codec: Codec) -> Option<Packer> {
        let zstd = match codec {
            Codec::Lz4 => None,
            Codec::Zstd => Some(Compressor::new(ZSTD_LEVEL).ok()?),
        };
        let longest = lz4_flex::block::get_maximum_output_size(FRAME_BYTES as usize) + FrameHead::BYTES;
        Some(Packer { codec, zstd, frame: Aligned::zeroed(longest as u64)? })
    }

    /// Packs these whole `blocks`, at most `FRAME_BLOCKS`, into a frame of whole blocks. Returns `None` if the frame
    /// has no fewer blocks.
    pub(crate) fn pack(&mut self, blocks: &[u8]) -> Option<&[u8]> {
        debug_assert!(
            blocks.len().is_multiple_of(BLOCK) && blocks.len() as u64 <= FRAME_BYTES,
            "no frame is that long"
        );
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

/// Splits `stored` into the head of its frame and the bytes after it. Returns a reason if it begins with no frame.
pub(crate) fn head_of(stored: &[u8]) -> Result<(FrameHead, &[u8]), String> {
    let head = FrameHead::parse(stored)?;
    let packed = stored[FrameHead::BYTES..].get(..head.bytes as usize);
    packed.map(|packed| (head, packed)).ok_or_else(|| "it ends early".to_owned())
}

/// Unpacks `packed` into `blocks`, as many as `head` says. Returns a reason if the bytes do not match.
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
