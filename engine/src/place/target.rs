//! A target written by this rank: by its I/O threads, through the ledger of the portion.

use super::{Site, ending::TargetOutcome, packed::Packed};
use crate::{
    capture::{Contents, Piece},
    commit::{Allocation, Described},
    device::Mapped,
    error::{Error, Result},
    ground::{Once, lock},
    mutant::{self, Mutant},
    pool::SealedTarget,
    restore::pour,
    space::format::{BLOCK_BYTES, Histogram, Manifest, Run, hash},
};
use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicU64, Ordering},
};

#[derive(Debug)]
pub(super) struct Target {
    pub(super) site: Site,
    /// The used part of the site's allocation, with the shared blocks, if those were found out later.
    delta_allocation: OnceLock<Allocation>,
    /// Result of writing the roots that free the blocks; the first thread that needs them writes them.
    prepared: Once<Result<()>>,
    /// Number of parts that have not ended: the write and the hashing of each chunk in progress, and one for the
    /// stager. The thread that ends the last part commits.
    parts: AtomicU64,
    writes: Mutex<Histogram>,
    /// Bytes that were put in place without a write.
    in_place: AtomicU64,
    packed: Packed,
    pub(super) ending: TargetOutcome,
}

impl Target {
    pub(super) fn new(site: Site) -> Target {
        let (delta_allocation, prepared, writes, in_place, packed, ending) = Default::default();
        Target { site, delta_allocation, prepared, parts: AtomicU64::new(1), writes, in_place, packed, ending }
    }

    /// The shard refers to older ones.
    pub(super) fn lead(&self, allocation: Allocation) {
        let _ = self.delta_allocation.set(allocation);
    }

    /// Whether the shard refers to older ones.
    pub(super) fn is_delta(&self) -> bool {
        self.delta_allocation.get().is_some()
    }

    pub(super) fn allocation(&self) -> &Allocation {
        self.delta_allocation.get().unwrap_or(&self.site.allocation)
    }

    /// The target as described to a salvager.
    pub(super) fn sealed(&self) -> SealedTarget {
        self.site.sealed(self.allocation())
    }

    pub(super) fn takes_processor(&self) -> bool {
        self.allocation().packing.is_some() || self.site.portion.takes_processor()
    }

    pub(super) fn add_parts(&self, count: u64) {
        self.parts.fetch_add(count, Ordering::AcqRel);
    }

    /// Ends a part; returns whether it was the last one.
    pub(super) fn end_part(&self) -> bool {
        let parts = self.parts.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(parts > 0, "a part of a shard ended twice");
        parts == if mutant::is(Mutant::CommittedTooEarly) { 2 } else { 1 }
    }

    /// Writes the roots that free the target's blocks, unless that is done.
    pub(super) fn prepare(&self) -> Result<()> {
        let Site { ledger, retained, .. } = &self.site;
        self.prepared.get_or_init(|| lock(ledger).free(self.allocation(), retained))
    }

    /// Whether the blocks of the target are free, by roots that are durable.
    pub(super) fn is_prepared(&self) -> bool {
        matches!(self.prepared.get(), Some(Ok(())))
    }

    /// Writes `bytes` of the log, starting at `offset`.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.prepare()?;
        if offset == 0 && mutant::is(Mutant::PieceLeftOut) {
            return Ok(());
        }
        let (portion, allocation) = (&self.site.portion, self.allocation());
        let note = |bytes, took| lock(&self.writes).note(bytes, took);
        match allocation.packing {
            None => allocation.write(portion, offset, bytes, note),
            Some(packing) => self.packed.write(portion, allocation, packing, (offset, bytes), note),
        }
    }

    /// Maps `bytes` bytes of the log, starting at `offset`, to be filled; fewer if not all are adjacent. Fails if they
    /// cannot be mapped.
    pub(super) fn map(&self, offset: u64, bytes: u64) -> Result<Mapped> {
        let (portion, allocation) = (&self.site.portion, self.allocation());
        let beyond = || Error::Internal { what: "a log is longer than its runs".to_owned() };
        let Piece { at, bytes } = allocation.place_of(offset, bytes).ok_or_else(beyond)?;
        let mapped = portion.map(at, bytes)?;
        self.prepare().map(|()| mapped)
    }

    /// Counts `bytes` bytes of the log as put in place.
    pub(super) fn note_in_place(&self, bytes: u64) {
        self.in_place.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Number of such bytes so far.
    pub(super) fn in_place_bytes(&self) -> u64 {
        self.in_place.load(Ordering::Relaxed)
    }

    /// The writes so far, by length and time.
    pub(super) fn writes(&self) -> Histogram {
        *lock(&self.writes)
    }

    /// The manifest of a shard with these `contents` and `rows` of hashes, fully written.
    pub(super) fn manifest(&self, contents: &Contents, rows: &[u8]) -> Manifest {
        let mut manifest = self.allocation().manifest(contents, |row| hash(&rows[row]));
        self.packed.add_to(&mut manifest);
        manifest
    }

    /// Reads the written data back from the medium and, if `reads_shared`, the shared blocks of older revisions; fails
    /// unless they match.
    pub(super) fn read_back(&self, described: &Described<'_>, reads_shared: bool) -> Result<()> {
        let portion = &self.site.portion;
        // Data that is not durable yet may be read from memory.
        lock(&self.site.ledger).sync()?;
        let meta = self.allocation().meta;
        let mut manifest = described.read_back(portion)?;
        let is_own = |run: &Run| (meta.first..meta.end()).contains(&(run.hashes_at / BLOCK_BYTES));
        manifest.runs.retain(|run| reads_shared || is_own(run));
        pour(portion, &manifest, &|_, _| ())
    }
}
