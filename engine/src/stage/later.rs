//! Copies left for a snapshot: bytes with a place in a buffer, and buffers with a place in the log, before the
//! program's memory is read. Without a snapshot they are copied here.

use super::{buffer::Buffer, source::Source};
use crate::{
    capture::{Cloned, NotTaken, Protectable, Protected, Snapshot, SnapshotChoice, Transfer, unseen_writer},
    error::Result,
    ground::Instant,
    place::{LogSegment, PendingSegment, Shard},
    pool::Pool,
    remark::Remark,
    space::format::CopiedBy,
};
use std::{collections::HashSet, mem, sync::Arc};

/// Fewer bytes are copied at once: noting them takes as long.
const BYTES_MIN: usize = 4096;

static NOT_TAKEN: Remark = Remark::new();
static UNSUITED: Remark = Remark::new();
static UNPROTECTED: Remark = Remark::new();

/// A session's knowledge of snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    choice: SnapshotChoice,
    /// Whether memory that Mainstay allocated may be protected: not while its written pages are tracked, because a page
    /// has only one protector.
    protects: bool,
    /// Whether the user declares that nothing writes to memory past its protection.
    trusts_protection: bool,
    rank: usize,
}

/// The staged but uncopied parts of one shard.
#[derive(Debug, Default)]
pub(super) struct Later {
    transfers: Vec<Transfer>,
    /// The region of each transfer.
    regions: Vec<usize>,
    /// The region that is being staged.
    pub(super) region: usize,
    /// Bytes of all transfers.
    bytes: u64,
    /// Their value when the last buffer left.
    left_bytes: u64,
    awaited: Vec<PendingSegment>,
}

impl Later {
    /// Notes that the bytes of `source`, starting at `from`, belong into `into`. Returns whether a snapshot can copy
    /// them.
    #[allow(unsafe_code)]
    pub(super) fn note(&mut self, source: Source<'_>, from: usize, into: &mut [u8]) -> bool {
        let Some(row) = source.row().filter(|_| into.len() >= BYTES_MIN) else { return false };
        // SAFETY: a region stays while the program waits for its checkpoint. The buffer is a part of the pool, or of a
        // portion in memory; `awaited` keeps it until the bytes are there.
        let transfer = unsafe { Transfer::new(row[from..].as_ptr(), into.as_mut_ptr(), into.len()) };
        self.bytes += into.len() as u64;
        let is_same = self.regions.last() == Some(&self.region);
        if !self.transfers.last_mut().is_some_and(|last| is_same && last.take_on(&transfer)) {
            self.transfers.push(transfer);
            self.regions.push(self.region);
        }
        true
    }

    /// Keeps a buffer for place `at` of the log, if some of its bytes are still to come; otherwise returns it.
    pub(super) fn keep(&mut self, buffer: Buffer, bytes: u64, at: u64, pool: Option<&Pool>) -> Option<Buffer> {
        if self.bytes == mem::replace(&mut self.left_bytes, self.bytes) {
            return Some(buffer);
        }
        self.awaited.push(match (buffer, pool) {
            (Buffer::Chunk(chunk), _) => PendingSegment::in_chunk(chunk, at, bytes, self.bytes),
            (Buffer::Blocks(mapped), Some(pool)) => {
                PendingSegment::in_place(mapped, pool.clone(), at, bytes, self.bytes)
            }
            (buffer, _) => return Some(buffer),
        });
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.awaited.is_empty()
    }

    /// The buffers that wait for the snapshot.
    pub(super) fn into_awaited(self) -> Vec<PendingSegment> {
        self.awaited
    }

    /// Copies everything that is not copied yet, and passes the buffers that have left to `carry`. The buffer being
    /// filled ends up as if nothing had been noted.
    pub(super) fn copy_now(
        &mut self,
        shard: &Arc<Shard>,
        mut carry: impl FnMut(Arc<LogSegment>) -> Result<()>,
    ) -> Result<()> {
        mem::take(&mut self.transfers).iter().for_each(Transfer::copy_now);
        self.regions.clear();
        (self.bytes, self.left_bytes) = (0, 0);
        mem::take(&mut self.awaited).into_iter().try_for_each(|part| carry(Arc::new(part.filled(shard.clone())?)))
    }

    /// Removes and returns the transfers that may be write-protected.
    fn take_protectable(&mut self, memory: &Protectable) -> Vec<Transfer> {
        let (kept, taken): (Vec<_>, Vec<_>) = mem::take(&mut self.transfers)
            .into_iter()
            .zip(mem::take(&mut self.regions))
            .partition(|(transfer, _)| !memory.has(transfer));
        (self.transfers, self.regions) = kept.into_iter().unzip();
        let taken: Vec<Transfer> = taken.into_iter().map(|(transfer, _)| transfer).collect();
        if !taken.is_empty() {
            // These are copied in no fixed order.
            self.awaited.iter_mut().for_each(PendingSegment::await_end);
        }
        taken
    }

    /// Copies everything that belongs to the regions of the transfers with these numbers, and removes it.
    fn copy_regions_of(&mut self, indices: &[usize]) {
        let regions: HashSet<usize> = indices.iter().map(|index| self.regions[*index]).collect();
        let is_one = |of: Option<&usize>| of.is_some_and(|of| regions.contains(of));
        let (mut copied, mut kept) = (self.regions.iter(), self.regions.iter());
        self.transfers.iter().filter(|_| is_one(copied.next())).for_each(Transfer::copy_now);
        self.transfers.retain(|_| !is_one(kept.next()));
        self.regions.retain(|of| !regions.contains(of));
        // Their bytes are not counted as copied, so no buffer is known to be full before the end.
        self.awaited.iter_mut().for_each(PendingSegment::await_end);
    }
}

impl Snapshots {
    /// `from`: the size from which snapshots are taken, if the user sets it. `is_tracked`: whether pages that the
    /// program writes are tracked. `trusts_protection`: whether the user declares that nothing writes past it.
    pub(crate) fn new(from: Option<u64>, is_tracked: bool, trusts_protection: bool, rank: usize) -> Snapshots {
        Snapshots { choice: SnapshotChoice::new(from), protects: !is_tracked, trusts_protection, rank }
    }

    /// Takes a snapshot of the uncopied bytes; `None` if there is none, and the rest must be copied at once. `name_of`:
    /// the names of regions.
    pub(super) fn take(&mut self, later: &mut Later, name_of: impl Fn(usize) -> String) -> Option<Snapshot> {
        let memory = Protectable::of(&later.transfers);
        let may_protect = self.protects && !memory.is_empty() && self.is_protection_kept();
        let own = if may_protect { later.take_protectable(&memory) } else { Vec::new() };
        let cloned = self.clone(later, name_of);
        let protected = self.protect(&own);
        if protected.is_none() {
            own.iter().for_each(Transfer::copy_now);
        }
        let snapshot = Snapshot::of(cloned, protected, memory)?;
        if snapshot.copied_by() == CopiedBy::Protection {
            mem::take(&mut later.transfers).iter().for_each(Transfer::copy_now);
        }
        Some(snapshot)
    }

    /// Whether nothing can write to write-protected memory.
    fn is_protection_kept(&self) -> bool {
        let writer = if self.trusts_protection { None } else { unseen_writer() };
        if let Some(writer) = &writer {
            UNPROTECTED.make(self.rank, || {
                Some(format!(
                    "no memory is write-protected for a snapshot, because this process has {writer} open, which can \
                     bypass the protection; if it does not write to protected memory, set track = pages"
                ))
            });
        }
        writer.is_none()
    }

    fn protect(&self, own: &[Transfer]) -> Option<Protected> {
        if !self.choice.of_protection(own.iter().map(Transfer::bytes).sum()) {
            return None;
        }
        match Protected::take(own) {
            Ok(protected) => Some(protected),
            Err(NotTaken::NoRoom(error)) => self.not_taken(&error.to_string()),
            Err(NotTaken::Unsuited { why, .. }) => self.not_taken(&why),
        }
    }

    fn clone(&mut self, later: &mut Later, name_of: impl Fn(usize) -> String) -> Option<Cloned> {
        let bytes = |later: &Later| later.transfers.iter().map(Transfer::bytes).sum();
        let tables = self.choice.of_clone(bytes(later))?;
        while !later.transfers.is_empty() {
            let begun = Instant::now();
            match Cloned::take(&later.transfers) {
                Ok(cloned) => {
                    self.choice.note_clone(tables, begun.elapsed());
                    return Some(cloned);
                }
                Err(NotTaken::NoRoom(error)) => return self.not_taken(&error.to_string()),
                Err(NotTaken::Unsuited { indices, why }) => {
                    let name = name_of(later.regions[indices[0]]);
                    UNSUITED.make(self.rank, || {
                        Some(format!(
                            "region {name:?} is not part of snapshots, and is copied before the program goes on: {why}"
                        ))
                    });
                    later.copy_regions_of(&indices);
                }
            }
        }
        None
    }

    fn not_taken<T>(&self, why: &str) -> Option<T> {
        NOT_TAKEN.make(self.rank, || {
            Some(format!("no snapshot could be taken ({why}); the checkpoint copies before the program goes on"))
        });
        None
    }

    /// Copies all of `later` at once.
    pub(super) fn copy_now(
        &mut self,
        later: &mut Later,
        shard: &Arc<Shard>,
        carry: impl FnMut(Arc<LogSegment>) -> Result<()>,
    ) -> Result<()> {
        let (begun, bytes) = (Instant::now(), later.bytes);
        let carried = later.copy_now(shard, carry);
        self.choice.note_copy(bytes, begun.elapsed());
        carried
    }
}
