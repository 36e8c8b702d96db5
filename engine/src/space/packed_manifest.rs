//! A long manifest, compressed. Otherwise the list of a shard that changes a little at each checkpoint would take more
//! room than its data.
//!
//! Invariant: unpacking takes memory for the bytes that really come out, and their number is bounded. A length that is only
//! claimed takes none.

use super::format::{MANIFEST_BYTES_MAX, Refusal};
use std::{borrow::Cow, io::Read};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};
use zstd::{bulk, stream::read::Decoder};

const MAGIC: [u8; 8] = *b"MSTYMNFZ";
const VERSION: u32 = 1;
/// Shorter manifests are stored plain.
const LONG_BYTES: usize = 32 << 10;
/// The level for Zstandard: higher levels take much longer, and hashes do not shrink.
const LEVEL: i32 = 1;
/// Logarithm of the longest window of that level. A longer one is damage.
const WINDOW_LOG_MAX: u32 = 20;
/// Memory for so many times the stored bytes is set aside at once.
const TIMES_AT_ONCE: usize = 4;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeadRecord {
    magic: [u8; 8],
    version: U32,
    reserved: U32,
    /// Number of bytes of the manifest.
    bytes: U64,
}

/// The stored form of a `manifest`.
pub(crate) fn pack_manifest(manifest: Vec<u8>) -> Vec<u8> {
    if manifest.len() < LONG_BYTES {
        return manifest;
    }
    let head =
        HeadRecord { magic: MAGIC, version: VERSION.into(), reserved: 0.into(), bytes: (manifest.len() as u64).into() };
    match bulk::compress(&manifest, LEVEL) {
        Ok(packed) if size_of::<HeadRecord>() + packed.len() < manifest.len() => [head.as_bytes(), &packed].concat(),
        // Memory is short, or compression gains nothing.
        _ => manifest,
    }
}

/// The manifest of these `stored` bytes; the caller has checked their hash.
pub(crate) fn unpack_manifest(stored: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    let head = HeadRecord::ref_from_prefix(stored).ok().filter(|(head, _)| head.magic == MAGIC);
    let Some((head, packed)) = head else { return Ok(Cow::Borrowed(stored)) };
    let (found, known) = (head.version.get(), VERSION);
    if found > known {
        return Err(Refusal::Newer { found, known, hint: "use a newer Mainstay".into() });
    }
    let damaged = |why: String| Err(Refusal::Damaged(format!("the compressed manifest {why}")));
    let bytes = head.bytes.get();
    if bytes > MANIFEST_BYTES_MAX {
        return damaged(format!("claims to have {bytes} bytes, more than any has"));
    }
    let unpacked = || {
        let mut manifest = Vec::with_capacity(packed.len().saturating_mul(TIMES_AT_ONCE).min(bytes as usize));
        let mut decoder = Decoder::with_buffer(packed)?.single_frame();
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        decoder.take(bytes + 1).read_to_end(&mut manifest)?;
        std::io::Result::Ok(manifest)
    };
    match unpacked() {
        Ok(manifest) if manifest.len() as u64 == bytes => Ok(Cow::Owned(manifest)),
        Ok(manifest) if manifest.len() as u64 > bytes => damaged(format!("does not unpack to its {bytes} bytes")),
        Ok(manifest) => damaged(format!("unpacks to {} bytes instead of {bytes}", manifest.len())),
        Err(why) => damaged(format!("does not unpack to its {bytes} bytes ({why})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::{BLOCK_BYTES, ElementType, Extent, Item, ItemKind, Manifest, Run, hash};

    /// A badly fragmented shard: every second part is older than the rest.
    fn manifest(parts: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(parts);
        let (mut at, mut row) = (10, 1 << 30);
        let runs: Vec<Run> = (0..parts)
            .map(|number| {
                let blocks = random.u64(1..9);
                let run = Run { first_block: at, blocks, hashes_at: row, hashes_hash: hash(&number.to_le_bytes()) };
                at += blocks + random.u64(1..4);
                row += 16 * blocks;
                run
            })
            .collect();
        let extents: Vec<Extent> = runs
            .iter()
            .map(|run| Extent { at: run.first_block * BLOCK_BYTES, bytes: run.blocks * BLOCK_BYTES })
            .collect();
        let bytes = extents.iter().map(|extent| extent.bytes).sum();
        let (name, kind, element) = ("data".to_owned(), ItemKind::Region, ElementType::Bytes);
        let item =
            Item { name, kind, element, bytes, shape: Vec::new(), place: None, same_on_all_ranks: false, extents };
        Manifest { runs, items: vec![item], ..Manifest::default() }.build()
    }

    #[test]
    fn a_long_manifest_is_stored_in_less_than_half_and_comes_back() {
        let long = manifest(20_000);
        let stored = pack_manifest(long.clone());
        assert!(stored.len() < long.len() / 2, "{} of {}", stored.len(), long.len());
        assert_eq!(*unpack_manifest(&stored).unwrap(), long[..]);
        let short = manifest(20);
        assert_eq!(pack_manifest(short.clone()), short);
        assert_eq!(*unpack_manifest(&short).unwrap(), short[..]);
    }

    #[test]
    fn nothing_that_is_stored_takes_more_memory_than_is_allowed() {
        let stored = pack_manifest(manifest(2000));
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = stored.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            unpack_manifest(&changed).map(drop).map_err(|refusal| format!("{refusal:?}")).unwrap_err()
        };
        assert!(with(16, &u64::MAX.to_le_bytes()).contains("more than any has"));
        assert!(with(16, &1000_u64.to_le_bytes()).contains("does not unpack"));
        assert!(with(16, &(1_u64 << 20).to_le_bytes()).contains("instead of 1048576"));
        assert!(with(24, &[0; 8]).contains("does not unpack"));
        assert!(with(8, &2_u32.to_le_bytes()).contains("Newer"));
        for length in 0..200 {
            assert!(unpack_manifest(&stored[..length]).map_or(true, |same| *same == stored[..length]), "{length}");
        }
    }
}
