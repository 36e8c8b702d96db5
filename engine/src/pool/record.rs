//! One rank's record of its shard in progress, in shared memory, so that another process can complete the shard.

use super::{
    Pool, file,
    record_layout::{
        CONTROL_AT, HASHED, IN_TARGET, Owner, Parts, SEALED, SegmentEntry, SegmentFound, ShardControl, ShardFound,
        ended_with, seal_of,
    },
    sealed_plan::SealedPlan,
};
use crate::{
    device::{Mapping, forks},
    error::{Error, Result},
    space::format::BLOCK_BYTES,
};
use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
};
use zerocopy::IntoBytes;

/// A plan up to this size gets its memory at t1, so that a small checkpoint need not open the file again at t2.
const SHORT_PLAN_BYTES: u64 = 4 * BLOCK_BYTES;

/// A rank's record; dropping it removes its file. It keeps no open handle, so that a child process inherits none.
#[derive(Debug)]
pub(crate) struct RankRecord {
    pool: Pool,
    path: PathBuf,
    owner: Owner,
    identity: (u64, u64),
    map: Arc<Mapping>,
    mapped: u64,
    latest: Option<ShardRecord>,
    forks: u32,
}

/// The record of one shard. Copies share one record; several threads use them.
#[derive(Debug, Clone)]
pub(crate) struct ShardRecord {
    shared: Arc<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    pool: Pool,
    path: PathBuf,
    owner: Owner,
    identity: (u64, u64),
    map: Arc<Mapping>,
    parts: Parts,
    tag: u32,
    segments: AtomicU32,
    /// Whether the next shard has taken this record over; then nothing more is recorded.
    over: AtomicBool,
    /// Whether the record is sealed and counted in the pool.
    counted: AtomicBool,
    /// Number of bytes at the start of the rows that are being read, and must not change any more. A row is the hash of
    /// one block.
    rows_read: AtomicU64,
}

impl RankRecord {
    /// Creates the record of `rank`, which this member keeps.
    pub(crate) fn create(pool: &Pool, rank: u32) -> Result<RankRecord> {
        let path = file::path_of(&pool.shared.directory, pool.id(), Some(rank));
        let made = file::create(&path)?;
        let owner = Owner::new(pool.id(), rank, pool.member());
        let begun = begin_file(&made, &path, &owner).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        });
        let (identity, map) = begun?;
        let (pool, map) = (pool.clone(), Arc::new(map));
        Ok(RankRecord { pool, path, owner, identity, map, mapped: BLOCK_BYTES, latest: None, forks: forks() })
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.pool.chunk_bytes()
    }

    /// Makes room for a shard of at most `segments_max` segments, with `rows_bytes` of hashes, all zeros. This voids
    /// the record of the previous shard.
    pub(crate) fn begin(&mut self, rows_bytes: u64, segments_max: u32, tag: u32) -> Result<ShardRecord> {
        if let Some(latest) = self.latest.take() {
            latest.shared.end();
        }
        unseal(&self.map);
        let too_large =
            || Error::argument("shard", format!("{rows_bytes} bytes of hashes are more than a file can have"));
        let parts = Parts::new(rows_bytes, segments_max).ok_or_else(too_large)?;
        let with_plan = parts.plan_at.saturating_add(SHORT_PLAN_BYTES);
        if with_plan > self.mapped {
            let record = open_same(&self.path, self.identity)?;
            lengthen(&record, &self.path, with_plan)?;
            let map = Mapping::new(&record, with_plan).map_err(|e| file::failed("mapping", &self.path, e))?;
            (self.map, self.mapped) = (Arc::new(map), with_plan);
        }
        let recorded = Recorded {
            pool: self.pool.clone(),
            path: self.path.clone(),
            owner: self.owner,
            identity: self.identity,
            map: self.map.clone(),
            parts,
            tag,
            segments: AtomicU32::new(0),
            over: AtomicBool::new(false),
            counted: AtomicBool::new(false),
            rows_read: AtomicU64::new(0),
        };
        recorded.wipe();
        let begun = ShardRecord { shared: Arc::new(recorded) };
        self.latest = Some(begun.clone());
        Ok(begun)
    }
}

impl Drop for RankRecord {
    fn drop(&mut self) {
        // In a forked child the record belongs to the parent.
        if forks() != self.forks {
            return;
        }
        if let Some(latest) = self.latest.take() {
            latest.shared.end();
        }
        unseal(&self.map);
        let _ = fs::remove_file(&self.path);
    }
}

impl ShardRecord {
    /// Records that `chunk` holds `bytes` bytes of the log, starting at `offset`.
    pub(crate) fn place(&self, index: u32, offset: u64, bytes: u64, chunk: u32) {
        // The number fits: a chunk has at most 1 GiB.
        let chunk_blocks = (self.shared.pool.chunk_bytes() / BLOCK_BYTES) as u32;
        self.lay(index, offset, bytes, (chunk, chunk_blocks));
    }

    /// Records that `bytes` bytes of the log, starting at `offset`, are at their final place in the only target.
    pub(crate) fn place_in_target(&self, index: u32, offset: u64, bytes: u64) {
        self.lay(index, offset, bytes, (IN_TARGET, 0));
    }

    fn lay(&self, index: u32, offset: u64, bytes: u64, (chunk, chunk_blocks): (u32, u32)) {
        let recorded = &*self.shared;
        assert!(index < recorded.parts.segments_max, "a segment that the record has no room for");
        if recorded.is_over() {
            return;
        }
        debug_assert!(!recorded.counted.load(Ordering::Acquire), "a segment is placed after the seal");
        let entry = &recorded.table()[index as usize];
        entry.offset.store(offset, Ordering::Relaxed);
        entry.bytes.store(bytes, Ordering::Relaxed);
        entry.chunk.store(chunk, Ordering::Relaxed);
        entry.chunk_blocks.store(chunk_blocks, Ordering::Relaxed);
        recorded.segments.fetch_max(index + 1, Ordering::AcqRel);
    }

    /// Records that target number `target` has a segment.
    pub(crate) fn written(&self, segment: u32, target: usize) {
        self.done(segment, 1 << target);
    }

    /// Records that the hashes of a segment are in their rows.
    pub(crate) fn hashed(&self, segment: u32) {
        self.done(segment, HASHED);
    }

    fn done(&self, segment: u32, what: u8) {
        if !self.shared.is_over() {
            // A process that sees the bit also sees the hashes.
            self.shared.done_row()[segment as usize].fetch_or(what, Ordering::Release);
        }
    }

    /// Records that target number `target` has ended: the shard is published there, or never will be.
    pub(crate) fn target_ended(&self, target: usize) {
        if !self.shared.is_over() {
            let with = |ended| Some(ended_with(ended, target));
            let _ = self.shared.control().ended.fetch_update(Ordering::AcqRel, Ordering::Acquire, with);
        }
    }

    /// Writes `bytes` into the rows at `at`, a multiple of 8, with zeros up to the next multiple. Threads may write
    /// different groups of eight bytes at the same time.
    pub(crate) fn write_rows(&self, at: u64, bytes: &[u8]) {
        let recorded = &*self.shared;
        let end = at.checked_add(bytes.len() as u64);
        assert!(at.is_multiple_of(8) && end.is_some_and(|end| end <= recorded.parts.rows_bytes));
        assert!(at >= recorded.rows_read.load(Ordering::Acquire), "rows that are being read change no more");
        if recorded.is_over() {
            return;
        }
        let words = &recorded.rows()[at as usize / 8..];
        for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(eight), Ordering::Relaxed);
        }
    }

    /// The first `bytes` bytes of the rows, aligned for the device. The rows must not change after this call, so call
    /// it only when all segments are done.
    #[allow(unsafe_code)]
    pub(crate) fn rows_bytes(&self, bytes: u64) -> &[u8] {
        let recorded = &*self.shared;
        assert!(bytes <= recorded.parts.rows_bytes);
        recorded.rows_read.fetch_max(bytes, Ordering::AcqRel);
        let bytes = bytes as usize;
        // SAFETY: inside the mapping, which lives as long as `self`; `write_rows` refuses from here on, and the next
        // shard begins only when this one has ended.
        unsafe { std::slice::from_raw_parts(recorded.map.part(recorded.parts.rows_at() as usize, bytes), bytes) }
    }

    /// Seals the record, so that another process can complete the shard: writes the plan first and the seal last.
    pub(crate) fn seal(&self, plan: &SealedPlan) -> Result<()> {
        let recorded = &*self.shared;
        if recorded.is_over() {
            return Err(Error::Internal { what: "a shard is sealed after the next one has begun".to_owned() });
        }
        recorded.pool.shared.note_spaces_of(plan)?;
        let number = plan.key.number;
        // The bulk is a few long rows of bytes; reserving the space here avoids a second copy.
        let bytes: usize = plan.targets.iter().map(|target| size_of_val(&target.allocation.shared[..])).sum();
        let encoded = Vec::with_capacity(plan.contents.len() + bytes + BLOCK_BYTES as usize);
        let plan = postcard::to_extend(plan, encoded)
            .map_err(|e| Error::Internal { what: format!("a plan could not be encoded: {e}") })?;
        if plan.len() as u64 <= SHORT_PLAN_BYTES {
            see_same(&recorded.path, recorded.identity)?;
            recorded.store_plan(&plan);
        } else {
            // Written, not stored: if memory is short, a write returns an error, but a store would raise SIGBUS.
            let record = open_same(&recorded.path, recorded.identity)?;
            lengthen(&record, &recorded.path, recorded.parts.plan_at + plan.len() as u64)?;
            let written = record.write_all_at(&plan, recorded.parts.plan_at);
            written.map_err(|e| file::failed("writing to", &recorded.path, e))?;
        }
        recorded.seal_over(&plan);
        recorded.count(number);
        Ok(())
    }

    /// Marks the shard as ended: it is published, or has failed.
    pub(crate) fn clear(&self) {
        if !self.shared.end() {
            unseal(&self.shared.map);
        }
    }
}

impl Recorded {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Counts the sealed record in the pool, only while it is sealed. So a process that finds fewer records than the
    /// pool counts knows that some are lost.
    fn count(&self, number: u64) {
        let entry = self.pool.shared.member_entry();
        entry.number.store(number, Ordering::Relaxed);
        self.counted.store(true, Ordering::Release);
        entry.sealed.fetch_add(1, Ordering::AcqRel);
    }

    /// Stops recording; the caller unseals the record next. Returns whether recording had stopped before.
    fn end(&self) -> bool {
        if self.counted.swap(false, Ordering::AcqRel) {
            let sealed = &self.pool.shared.member_entry().sealed;
            // Leave a count alone if another process changed it.
            let _ = sealed.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
        }
        self.over.swap(true, Ordering::AcqRel)
    }

    fn control(&self) -> &ShardControl {
        self.map.shared(CONTROL_AT)
    }

    fn rows(&self) -> &[AtomicU64] {
        // The rows occupy whole blocks.
        self.map.shared_row(self.parts.rows_at() as usize, self.parts.rows_bytes.div_ceil(8) as usize)
    }

    fn table(&self) -> &[SegmentEntry] {
        self.map.shared_row(self.parts.table_at as usize, self.parts.segments_max as usize)
    }

    fn done_row(&self) -> &[AtomicU8] {
        self.map.shared_row(self.parts.done_at as usize, self.parts.segments_max as usize)
    }

    /// Erases the previous shard, which is already unsealed.
    #[allow(unsafe_code)]
    fn wipe(&self) {
        let (from, to) = (self.parts.rows_at(), self.parts.plan_at);
        let bytes = (to - from) as usize;
        // SAFETY: inside the mapping; the previous shard is over, and no thread uses this one yet.
        unsafe { self.map.part(from as usize, bytes).write_bytes(0, bytes) };
        self.control().ended.store(0, Ordering::Release);
    }

    #[allow(unsafe_code)]
    fn store_plan(&self, plan: &[u8]) {
        let place = self.map.part(self.parts.plan_at as usize, plan.len());
        // SAFETY: inside the mapping; the record is not sealed, so no process reads a plan in it.
        unsafe { place.copy_from_nonoverlapping(plan.as_ptr(), plan.len()) };
    }

    fn seal_over(&self, plan: &[u8]) {
        let found = ShardFound {
            sealed: SEALED,
            tag: self.tag,
            segments_max: self.parts.segments_max,
            segments: self.segments.load(Ordering::Acquire),
            rows_bytes: self.parts.rows_bytes,
            plan_bytes: plan.len() as u64,
            seal: [0; 16],
            ended: 0,
            unused: [0; 8],
        };
        let segments: Vec<SegmentFound> =
            self.table()[..found.segments as usize].iter().map(SegmentEntry::read).collect();
        let seal = u128::from_le_bytes(seal_of(&self.owner, &found, segments.as_bytes(), plan));
        let control = self.control();
        control.tag.store(found.tag, Ordering::Relaxed);
        control.segments_max.store(found.segments_max, Ordering::Relaxed);
        control.segments.store(found.segments, Ordering::Relaxed);
        control.rows_bytes.store(found.rows_bytes, Ordering::Relaxed);
        control.plan_bytes.store(found.plan_bytes, Ordering::Relaxed);
        control.seal[0].store((seal as u64).to_le(), Ordering::Relaxed);
        control.seal[1].store(((seal >> 64) as u64).to_le(), Ordering::Relaxed);
        control.sealed.store(SEALED, Ordering::Release);
    }
}

impl SegmentEntry {
    fn read(&self) -> SegmentFound {
        SegmentFound {
            offset: self.offset.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            chunk: self.chunk.load(Ordering::Relaxed),
            chunk_blocks: self.chunk_blocks.load(Ordering::Relaxed),
        }
    }
}

/// Removes the seal. This comes before any change to the data that the seal covers.
fn unseal(map: &Mapping) {
    let control: &ShardControl = map.shared(CONTROL_AT);
    control.sealed.store(0, Ordering::SeqCst);
    control.seal.iter().for_each(|half| half.store(0, Ordering::SeqCst));
    fence(Ordering::SeqCst);
}

fn begin_file(made: &File, path: &Path, owner: &Owner) -> Result<((u64, u64), Mapping)> {
    lengthen(made, path, BLOCK_BYTES)?;
    made.write_all_at(owner.as_bytes(), 0).map_err(|e| file::failed("writing to", path, e))?;
    let map = Mapping::new(made, BLOCK_BYTES).map_err(|e| file::failed("mapping", path, e))?;
    Ok((identity(made, path)?, map))
}

fn identity(file: &File, path: &Path) -> Result<(u64, u64)> {
    let found = file.metadata().map_err(|e| file::failed("looking at", path, e))?;
    Ok((found.dev(), found.ino()))
}

fn open_same(path: &Path, expected: (u64, u64)) -> Result<File> {
    let found = file::open(path)?.ok_or_else(|| removed(path))?;
    check_same(identity(&found, path)?, path, expected).map(|()| found)
}

/// Checks that the path still names this file, so that a later job would find it.
fn see_same(path: &Path, expected: (u64, u64)) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) => check_same((found.dev(), found.ino()), path, expected),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(removed(path)),
        Err(e) => Err(file::failed("looking at", path, e)),
    }
}

fn check_same(found: (u64, u64), path: &Path, expected: (u64, u64)) -> Result<()> {
    if found == expected { Ok(()) } else { Err(file::refused(path, "it was replaced meanwhile")) }
}

fn removed(path: &Path) -> Error {
    file::refused(path, "it was removed meanwhile")
}

/// Allocates memory for `bytes` bytes of `file`; a file never becomes shorter.
fn lengthen(file: &File, path: &Path, bytes: u64) -> Result<()> {
    let now = file.metadata().map_err(|e| file::failed("looking at", path, e))?.len();
    if bytes > now { file::give_memory(file, path, now, bytes - now) } else { Ok(()) }
}
