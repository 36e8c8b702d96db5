//! A target that this rank writes: on its I/O threads, by the ledger of the portion.

use super::{Site, ending::Ending, packed::Packed};
use crate::{
    capture::{Contents, Piece},
    commit::{Allocation, Described},
    device::Mapped,
    error::{Error, Result},
    ground::lock,
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
    /// The part of the site's allocation that is used, with what is shared, where that was found out later.
    leading: OnceLock<Allocation>,
    /// Whether the roots that free the blocks have been written, by whoever came first.
    prepared: OnceLock<Result<()>>,
    /// Parts that have not ended: of each chunk under way its write and its hashing, and one for the stager. Whoever
    /// ends the last one commits.
    parts: AtomicU64,
    writes: Mutex<Histogram>,
    /// How many bytes were put where they belong without a write.
    in_place: AtomicU64,
    packed: Packed,
    pub(super) ending: Ending,
}

impl Target {
    pub(super) fn new(site: Site) -> Target {
        let (leading, prepared, writes, in_place, packed, ending) = Default::default();
        Target { site, leading, prepared, parts: AtomicU64::new(1), writes, in_place, packed, ending }
    }

    /// The shard leads to older ones.
    pub(super) fn lead(&self, allocation: Allocation) {
        let _ = self.leading.set(allocation);
    }

    /// Whether the shard leads to older ones.
    pub(super) fn leads(&self) -> bool {
        self.leading.get().is_some()
    }

    pub(super) fn allocation(&self) -> &Allocation {
        self.leading.get().unwrap_or(&self.site.allocation)
    }

    /// The target as a salvager is told of it.
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
        self.parts.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Writes the roots that free the target's blocks, if nobody has.
    pub(super) fn prepare(&self) -> Result<()> {
        let Site { ledger, retained, .. } = &self.site;
        self.prepared.get_or_init(|| lock(ledger).free(self.allocation(), retained)).clone()
    }

    /// Writes `bytes` of the log, from `offset` on.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.prepare()?;
        let (portion, allocation) = (&self.site.portion, self.allocation());
        let note = |bytes, took| lock(&self.writes).note(bytes, took);
        match allocation.packing {
            None => allocation.write(portion, offset, bytes, note),
            Some(packing) => self.packed.write(portion, allocation, packing, (offset, bytes), note),
        }
    }

    /// A mapping of `bytes` bytes of the log, from `offset` on, to be filled, or of as many of them as lie together; an
    /// error if they cannot be mapped.
    pub(super) fn map(&self, offset: u64, bytes: u64) -> Result<Mapped> {
        let (portion, allocation) = (&self.site.portion, self.allocation());
        let beyond = || Error::Internal { what: "a log is longer than its runs".to_owned() };
        let Piece { at, bytes } = allocation.place_of(offset, bytes).ok_or_else(beyond)?;
        let mapped = portion.map(at, bytes)?;
        self.prepare().map(|()| mapped)
    }

    /// `bytes` bytes of the log were put where they belong.
    pub(super) fn note_in_place(&self, bytes: u64) {
        self.in_place.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many were, so far.
    pub(super) fn in_place_bytes(&self) -> u64 {
        self.in_place.load(Ordering::Relaxed)
    }

    /// What has been written so far, by length and time.
    pub(super) fn writes(&self) -> Histogram {
        *lock(&self.writes)
    }

    /// The manifest of a shard with these `contents` and `rows` of hashes, all of which is written.
    pub(super) fn manifest(&self, contents: &Contents, rows: &[u8]) -> Manifest {
        let mut manifest = self.allocation().manifest(contents, |row| hash(&rows[row]));
        self.packed.add_to(&mut manifest);
        manifest
    }

    /// Reads what was written from the medium, and, if `reads_shared`, what lies there of older revisions: an error unless it is
    /// what is to be there.
    pub(super) fn read_back(&self, described: &Described<'_>, reads_shared: bool) -> Result<()> {
        let portion = &self.site.portion;
        // What is not durable yet may be read from memory.
        lock(&self.site.ledger).sync()?;
        let meta = self.allocation().meta;
        let mut manifest = described.read_back(portion)?;
        let is_own = |run: &Run| (meta.first..meta.end()).contains(&(run.hashes_at / BLOCK_BYTES));
        manifest.runs.retain(|run| reads_shared || is_own(run));
        pour(portion, &manifest, &|_, _| ())
    }
}
