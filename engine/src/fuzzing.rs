//! The readers of foreign bytes that no public function reaches alone, for `mainstay-fuzz`.

use crate::{
    capture::{Contents, read_any},
    device::Disk,
    error::{Error, Failure, Result},
    group::{decode, encode},
    pool::{self, Pool, Sealed},
    salvage::{GoneOver, complete, prospect},
    session::{read_word, words_of},
    space::{
        Aligned, LevelsNote, Packer,
        format::{BLOCK_BYTES, Codec, Manifest, Refusal},
        head_of, pack_manifest, unpack, unpack_manifest,
    },
};
use std::path::Path;

/// The manifest in these stored bytes, of a portion of `portion_bytes`.
pub fn manifest(stored: &[u8], portion_bytes: u64) -> std::result::Result<Manifest, Refusal> {
    Manifest::parse(&unpack_manifest(stored)?, portion_bytes)
}

/// The stored form of a manifest.
pub fn stored_manifest(manifest: &Manifest) -> Vec<u8> {
    pack_manifest(manifest.build())
}

/// The blocks in a stored frame.
pub fn frame(stored: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let (head, packed) = head_of(stored)?;
    let mut blocks = Aligned::zeroed(head.blocks * BLOCK_BYTES).ok_or("memory is short")?;
    unpack(&head, packed, &mut blocks)?;
    Ok(blocks.to_vec())
}

/// The stored form of `blocks`; `None` if compression gains nothing.
pub fn stored_frame(codec: Codec, blocks: &[u8]) -> Option<Vec<u8>> {
    Packer::new(codec)?.pack(blocks).map(<[u8]>::to_vec)
}

/// The file `levels`, written again.
pub fn levels(text: &str) -> Option<String> {
    LevelsNote::parse(text).map(|note| note.text())
}

/// Reads the file `salvaged` of a space twice, and unites both. Returns whether that equals the file read once.
pub fn gone_over(space: &Path) -> bool {
    let read = GoneOver::of_space(space);
    let once = GoneOver::default().and(read.clone());
    once.clone().and(read) == once
}

/// The number of variables in a program.
pub fn variables(file: &[u8]) -> std::result::Result<usize, String> {
    read_any(file)
}

/// The staged contents of a shard, written again, and the number of their bytes.
pub fn contents(encoded: &[u8]) -> Option<(Vec<u8>, u64)> {
    let contents = Contents::decode_outline(encoded)?;
    contents.are_whole().then(|| (contents.encode(), contents.item_bytes()))
}

/// The staged form of a saved shard.
pub fn contents_of(manifest: Manifest) -> Vec<u8> {
    Contents::of(manifest).encode()
}

/// A message from the owner of a copy to its holder, written again.
pub fn copy_word(bytes: &[u8]) -> Result<Vec<u8>> {
    read_word(bytes)
}

/// The messages by which a shard goes to the holder of a copy.
pub fn copy_words(manifest: &Manifest, portion_bytes: u64) -> Result<Vec<Vec<u8>>> {
    let contents = Contents::of(manifest.clone());
    words_of(&contents, portion_bytes)
}

/// The message about an error.
pub fn failure_of(what: &str) -> Result<Vec<u8>> {
    encode(&Failure::from(&Error::damaged(what.to_owned())))
}

/// An error that another rank reports.
pub fn failure(bytes: &[u8]) -> Result<Failure> {
    decode(bytes)
}

/// Completes the shards that the records of the pool `id` name, in the directory `space`. Returns the number of records; if the
/// pool cannot be salvaged, the number of spaces.
pub fn salvage(pools: &Path, id: [u8; 16], space: &Path) -> Result<usize> {
    let named = pool::spaces_of(pools, id).map_or(0, |spaces| spaces.spaces().count());
    let Some(dead) = Pool::open_dead(pools, id)? else { return Ok(named) };
    let (sealed, device) = (pool::sealed_of(pools, id)?, Disk::existing(space));
    for owed in sealed.iter().flat_map(Sealed::owed) {
        prospect(&device, owed, dead.contents())?;
        owed.left_bytes();
        complete(&device, owed, dead.contents())?;
    }
    Ok(sealed.len())
}
