//! Reads all runs of a manifest, verifies each block, and hands verified blocks to a sink, in one pass.

use super::hash_rows::{BlockHashes, HashRows};
use crate::{
    error::{Error, Result},
    ground::scope,
    mutant::{self, Mutant},
    space::{
        FrameReader, Portion,
        format::{BLOCK, BLOCK_BYTES, Frame, HASH_BYTES, Manifest, Refusal, Run, hash},
    },
};
use memmap2::{Advice, MmapMut};
use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bytes that are verified and then handed on: few enough to stay in the cache.
const POUR_BYTES: usize = 256 << 10;

/// Number of concurrent reads, each into a buffer of its own.
const THREADS: usize = 3;
/// Number of concurrent reads if reads are short: a device reaches its speed only with several requests.
const THREADS_OF_SHORT: usize = 8;
/// Bytes of one read: a huge page, which is enough for a device, and little beside the program's memory.
const READ_BYTES: u64 = 2 << 20;
/// Reads of this many bytes on average, or fewer, count as short.
const SHORT_BYTES: u64 = READ_BYTES / 4;

/// Runs with gaps up to this size are read together with the gap. Measured on a state that had changed a little a
/// hundred times, with two thirds of the blocks in its area belonging to other revisions: 10,400 reads of 794 MiB took
/// longer than 2,500 of 939.
const APART_BYTES: u64 = 24 << 10;

/// One read: blocks of one run, or of several runs close together.
struct Part<'a> {
    at: u64,
    bytes: usize,
    /// The offset in the read of the blocks of each run, with their hashes; ascending.
    stretches: Vec<(usize, &'a [u8])>,
}

impl<'a> Part<'a> {
    /// Adds blocks at `at` to the last of `parts`, or to a new one.
    fn add(parts: &mut Vec<Part<'a>>, at: u64, hashes: &'a [u8]) {
        let bytes = hashes.len() / HASH_BYTES * BLOCK;
        if let Some(last) = parts.last_mut()
            && let Some(gap) = at.checked_sub(last.at + last.bytes as u64)
            && gap <= APART_BYTES
            && at + bytes as u64 - last.at <= READ_BYTES
        {
            let begins = (at - last.at) as usize;
            last.stretches.push((begins, hashes));
            last.bytes = begins + bytes;
            return;
        }
        parts.push(Part { at, bytes, stretches: vec![(0, hashes)] });
    }
}

/// Calls `sink` with every block of the manifest's runs: the offset in the portion and the bytes, in any order, from
/// several threads. Blocks are verified, unless the portion was verified on arrival.
pub(crate) fn pour(portion: &Portion, manifest: &Manifest, sink: &(dyn Fn(u64, &[u8]) + Sync)) -> Result<()> {
    let all: Vec<Range<u64>> = manifest.runs.iter().map(blocks_of).collect();
    pour_blocks(portion, manifest, &mut HashRows::new(manifest.runs.len()), &all, sink)
}

/// As `pour`, but only for the blocks in `wanted`, which ascend and do not overlap. `rows`: the rows of hashes of the
/// manifest's runs.
pub(crate) fn pour_blocks(
    portion: &Portion,
    Manifest { runs, frames, .. }: &Manifest,
    rows: &mut HashRows,
    wanted: &[Range<u64>],
    sink: &(dyn Fn(u64, &[u8]) + Sync),
) -> Result<()> {
    let of_runs = wanted_of_runs(runs, wanted);
    let indices: Vec<usize> = of_runs.iter().map(|(index, _)| *index).collect();
    let mut first = rows.first(portion, runs, &indices)?.into_iter().peekable();
    let mut read = Vec::with_capacity(of_runs.len());
    for (index, inside) in of_runs {
        let hashes = match first.next_if(|(read, _)| *read == index) {
            Some((_, row)) => vec![row],
            None => rows.of(portion, index, &runs[index], &inside)?,
        };
        read.push((inside, hashes));
    }
    let per_part = READ_BYTES as usize / BLOCK * HASH_BYTES;
    let mut parts = Vec::new();
    for (inside, BlockHashes { blocks, hashes }) in
        read.iter().flat_map(|(inside, all)| all.iter().map(move |one| (inside, one)))
    {
        for range in inside {
            let (from, to) = (range.start.max(blocks.start), range.end.min(blocks.end));
            if from >= to {
                continue;
            }
            let in_row = |block: u64| (block - blocks.start) as usize * HASH_BYTES;
            let mut at = from * BLOCK_BYTES;
            for hashes in hashes[in_row(from)..in_row(to)].chunks(per_part) {
                Part::add(&mut parts, at, hashes);
                at += (hashes.len() / HASH_BYTES * BLOCK) as u64;
            }
        }
    }
    let (next, failure) = (AtomicUsize::new(0), OnceLock::new());
    // Memory is read in place if all of it is inside.
    let is_inside =
        |bytes: &[u8]| parts.iter().all(|part| part.at.saturating_add(part.bytes as u64) <= bytes.len() as u64);
    let mapped = portion.mapped().filter(|mapped| frames.is_empty() && is_inside(mapped.as_ref()));
    // A huge page is cleared whole, however little is read into it.
    let longest = parts.iter().map(|part| part.bytes).max().unwrap_or(BLOCK);
    let work = || {
        let next = || parts.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| failure.get().is_none());
        if let Some(mapped) = &mapped {
            while let Some(part) = next() {
                verify_part(portion, part, &mapped.as_ref()[part.at as usize..][..part.bytes], sink)?;
            }
            return Ok(());
        }
        let mut buffer = MmapMut::map_anon(longest).map_err(|_| portion.out_of_memory(longest as u64))?;
        // A huge page is one piece for the device, while small pages are 512 pieces. Small pages serve if there are no
        // huge ones.
        let _ = buffer.advise(Advice::HugePage);
        let mut reader = FrameReader::default();
        while let Some(part) = next() {
            read_part(portion, (frames, &mut reader), part, &mut buffer, sink)?;
        }
        Ok(())
    };
    let work = || drop(work().map_err(|error: Error| failure.set(error)));
    scope(|scope| {
        // A single read needs no thread of its own.
        let wanted = if parts.len() > 1 { threads_for(&parts, frames).min(parts.len()) } else { 0 };
        let begun = (0..wanted).take_while(|_| scope.spawn("mainstay-read", work).is_ok()).count();
        if begun == 0 {
            // Without more threads the restore is slower, but succeeds.
            work();
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// The runs with wanted blocks, by index, and the wanted blocks of each.
fn wanted_of_runs(runs: &[Run], wanted: &[Range<u64>]) -> Vec<(usize, Vec<Range<u64>>)> {
    let mut of_runs = Vec::with_capacity(runs.len());
    for (index, run) in runs.iter().enumerate() {
        let all = blocks_of(run);
        let first = wanted.partition_point(|range| range.end <= all.start);
        let inside = wanted[first..].iter().take_while(|range| range.start < all.end);
        let inside: Vec<_> = inside.map(|range| range.start.max(all.start)..range.end.min(all.end)).collect();
        if !inside.is_empty() {
            of_runs.push((index, inside));
        }
    }
    of_runs
}

/// The number of threads. Reads of a shard in frames count as short.
fn threads_for(parts: &[Part<'_>], frames: &[Frame]) -> usize {
    let bytes: u64 = parts.iter().map(|part| part.bytes as u64).sum();
    if bytes / parts.len() as u64 <= SHORT_BYTES || !frames.is_empty() { THREADS_OF_SHORT } else { THREADS }
}

fn read_part(
    portion: &Portion,
    (frames, reader): (&[Frame], &mut FrameReader),
    part: &Part<'_>,
    buffer: &mut [u8],
    sink: &(dyn Fn(u64, &[u8]) + Sync),
) -> Result<()> {
    let bytes = &mut buffer[..part.bytes];
    if let Err(error) = reader.read(portion, frames, part.at, bytes) {
        // The bytes between the runs are not needed and may be unreadable, so each run is read alone.
        if part.stretches.len() == 1 {
            return Err(error);
        }
        for (begins, hashes) in &part.stretches {
            let end = begins + hashes.len() / HASH_BYTES * BLOCK;
            reader.read(portion, frames, part.at + *begins as u64, &mut bytes[*begins..end])?;
        }
    }
    verify_part(portion, part, bytes, sink)
}

/// Calls `sink` with the blocks of `part`; `bytes` are the bytes read for it.
fn verify_part(portion: &Portion, part: &Part<'_>, bytes: &[u8], sink: &(dyn Fn(u64, &[u8]) + Sync)) -> Result<()> {
    for (begins, hashes) in &part.stretches {
        let (mut at, blocks) = (part.at + *begins as u64, &bytes[*begins..]);
        for (blocks, hashes) in blocks.chunks(POUR_BYTES).zip(hashes.chunks(POUR_BYTES / BLOCK * HASH_BYTES)) {
            let blocks = &blocks[..hashes.len() / HASH_BYTES * BLOCK];
            if !portion.is_verified() && !mutant::is(Mutant::BlocksNotVerified) {
                verify(portion, at, blocks, hashes)?;
            }
            sink(at, blocks);
            at += blocks.len() as u64;
        }
    }
    Ok(())
}

fn blocks_of(run: &Run) -> Range<u64> {
    run.first_block..run.first_block + run.blocks
}

/// Compares the blocks from offset `at` on with their hashes.
pub(super) fn verify(portion: &Portion, at: u64, blocks: &[u8], hashes: &[u8]) -> Result<()> {
    debug_assert_eq!(blocks.len() / BLOCK * HASH_BYTES, hashes.len(), "a block without a hash");
    for (index, (block, expected)) in blocks.chunks_exact(BLOCK).zip(hashes.chunks_exact(HASH_BYTES)).enumerate() {
        if hash(block) != *expected {
            let of = format!("block {}", at / BLOCK_BYTES + index as u64);
            return Err(portion.refuse(Refusal::Damaged("its checksum does not match".into()), &of));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::{Anonymous, File},
        restore::in_memory::{AT, MemoryFile, portion_in},
    };
    use std::sync::{Arc, Mutex};

    /// The output of `pour` for a portion with these bytes, mapped or not.
    fn poured(bytes: &[u8], runs: &[Run], is_mapped: bool) -> Result<Vec<u8>> {
        let file = Arc::new(Anonymous::of(bytes.len() as u64).unwrap());
        file.write_at(bytes, 0).unwrap();
        let portion = portion_in(file, bytes.len() as u64);
        if is_mapped {
            portion.map_all().unwrap();
        }
        assert_eq!(portion.mapped().is_some(), is_mapped);
        let found = Mutex::new(vec![0; bytes.len()]);
        let manifest = Manifest { runs: runs.to_vec(), ..Manifest::default() };
        pour(&portion, &manifest, &|at, bytes| {
            found.lock().unwrap()[(AT + at) as usize..][..bytes.len()].copy_from_slice(bytes);
        })?;
        Ok(found.into_inner().unwrap())
    }

    #[test]
    fn memory_that_is_mapped_is_poured_and_verified_as_what_is_read() {
        let mut random = fastrand::Rng::with_seed(3);
        let (memory, runs) = MemoryFile::of(&[1, 700, 3, 5], &mut random);
        let whole = poured(&memory.bytes, &runs, false).unwrap();
        assert!(poured(&memory.bytes, &runs, true).unwrap() == whole);
        for run in &runs {
            let mut bytes = memory.bytes.clone();
            let block = run.first_block + random.u64(..run.blocks);
            bytes[(AT + block * BLOCK_BYTES + random.u64(..BLOCK_BYTES)) as usize] ^= 1;
            for is_mapped in [false, true] {
                match poured(&bytes, &runs, is_mapped) {
                    Err(Error::Damaged { what }) => assert!(what[0].contains(&format!("block {block}")), "{what:?}"),
                    other => panic!("block {block}: {:?}", other.map(drop)),
                }
            }
        }
        // A run beyond the end is refused, and not read.
        let last = runs.last().unwrap();
        let beyond = Run { first_block: memory.bytes.len() as u64 / BLOCK_BYTES, ..*last };
        for is_mapped in [false, true] {
            poured(&memory.bytes, &[beyond], is_mapped).unwrap_err();
        }
    }
}
