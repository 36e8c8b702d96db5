//! Reads an image as docs/format.md describes it, independently of the engine's own reader. Checks that everything that
//! a valid slot leads to is whole.

use super::faulty::Files;
use mainstay_engine::space::format::{
    BLOCK, BLOCK_BYTES, Catalogue, Frame, Header, Manifest, PortionPlace, Slot, hash,
};
use std::collections::BTreeSet;

const HASH_BYTES: u64 = 16;

/// A layout in an image, and the blocks (of the file) that its slots lead to.
pub struct Layout {
    pub file: usize,
    pub header: Header,
}

pub fn layouts(files: &Files) -> Result<Vec<Layout>, String> {
    let named = files.names.iter().filter(|(name, _)| name.starts_with("layout-") && name.ends_with(".mainstay"));
    named.map(|(name, file)| open(files, *file).map_err(|why| format!("{name}: {why}"))).collect()
}

fn open(files: &Files, file: usize) -> Result<Layout, String> {
    let block = block(files, file, 0);
    let table = Header::table_bytes(&block).map_err(|refusal| format!("{refusal:?}"))?;
    let table = bytes(files, file, BLOCK_BYTES, table as u64);
    let header = Header::parse(&block, &table).map_err(|refusal| format!("{refusal:?}"))?;
    Ok(Layout { file, header })
}

/// Every valid slot leads to catalogues, manifests and data that are whole; each portion has one.
pub fn check(files: &Files) -> Result<(), String> {
    for layout in layouts(files)? {
        for place in &layout.header.portions {
            let found = referred(files, &layout, place, true)?;
            if found.is_none() {
                return Err(format!("the portion of rank {} has no valid slot", place.rank));
            }
        }
    }
    Ok(())
}

/// Blocks of the file that the valid slots of a portion lead to; `None` without a valid slot.
pub fn referred(
    files: &Files,
    layout: &Layout,
    place: &PortionPlace,
    verify: bool,
) -> Result<Option<BTreeSet<u64>>, String> {
    let (mut blocks, mut valid) = (BTreeSet::new(), false);
    let mut read = |at: u64, length: u64| {
        let from = (place.at + at) / BLOCK_BYTES;
        blocks.extend(from..(place.at + at + length).div_ceil(BLOCK_BYTES));
        bytes(files, layout.file, place.at + at, length)
    };
    for index in 0..2 {
        let at = place.at + index * layout.header.slot_stride;
        let found = Slot::parse(&block(files, layout.file, at), layout.header.layout_id, place.rank, place.bytes);
        let Ok(slot) = found else { continue };
        valid = true;
        let why = |what: &str| Err(format!("slot {index} of rank {}, sequence {}: {what}", place.rank, slot.sequence));
        let catalogue = read(slot.catalogue_at, slot.catalogue_bytes);
        let Ok(catalogue) = Catalogue::parse(&catalogue, &slot.catalogue_hash, place.bytes) else {
            return why("its catalogue is not whole");
        };
        for entry in &catalogue.entries {
            read(entry.meta_at, entry.meta_bytes);
            let manifest = read(entry.manifest_at, entry.manifest_bytes);
            if hash(&manifest) != entry.manifest_hash {
                return why(&format!("the manifest of revision {} is not whole", entry.number));
            }
            let Ok(manifest) = Manifest::parse(&manifest, place.bytes) else { return why("no manifest") };
            let mut frames = Vec::new();
            for frame in &manifest.frames {
                let room = read(frame.first_block * BLOCK_BYTES, frame.blocks * BLOCK_BYTES);
                frames.push((frame, if verify { unpacked(frame, &room)? } else { room }));
            }
            for run in &manifest.runs {
                let mut data = read(run.first_block * BLOCK_BYTES, run.blocks * BLOCK_BYTES);
                for (frame, blocks) in &frames {
                    for (block, bytes) in (frame.first_block..).zip(blocks.chunks(BLOCK)) {
                        if (run.first_block..run.first_block + run.blocks).contains(&block) {
                            data[(block - run.first_block) as usize * BLOCK..][..BLOCK].copy_from_slice(bytes);
                        }
                    }
                }
                let row = read(run.hashes_at, run.blocks * HASH_BYTES);
                let same = |(block, sum): (&[u8], &[u8])| hash(block) == *sum;
                if verify && !data.chunks(BLOCK).zip(row.chunks(HASH_BYTES as usize)).all(same) {
                    return why(&format!("the data of revision {} is not whole", entry.number));
                }
            }
        }
    }
    Ok(valid.then_some(blocks))
}

/// The blocks of a frame, from the bytes in its `room`.
fn unpacked(frame: &Frame, room: &[u8]) -> Result<Vec<u8>, String> {
    let stored = &room[..frame.stored_blocks as usize * BLOCK];
    let blocks = u16::from_le_bytes([stored[10], stored[11]]) as usize;
    let bytes = u32::from_le_bytes([stored[12], stored[13], stored[14], stored[15]]) as usize;
    if !stored.starts_with(b"MSTYFRAM") || blocks != frame.blocks as usize || 16 + bytes > stored.len() {
        return Err(format!("{frame:?} is not whole"));
    }
    let unpacked = match stored[8] {
        1 => lz4_flex::block::decompress(&stored[16..16 + bytes], blocks * BLOCK).map_err(|error| error.to_string()),
        _ => zstd::bulk::decompress(&stored[16..16 + bytes], blocks * BLOCK).map_err(|error| error.to_string()),
    };
    unpacked.map_err(|why| format!("{frame:?}: {why}"))
}

fn bytes(files: &Files, file: usize, at: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    files.read(file, at, &mut bytes);
    bytes
}

fn block(files: &Files, file: usize, at: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    files.read(file, at, &mut block);
    block
}
