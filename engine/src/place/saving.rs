//! One shard of one revision on its way from t1 to t3.

use super::{Contents, Plan, Rows, Staged};
use crate::{
    capture::{Piece, Size, pieces},
    commit::{Ledger, RevisionKey},
    error::{Error, Result},
    pool::Chunk,
    space::{
        Portion,
        format::{BLOCK, BLOCK_BYTES, HASH_BYTES, Histogram, PhaseRecord, hash_blocks},
        free::Blocks,
    },
};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A program that hands over its next piece within this time is still copying.
const BETWEEN_PIECES_NS: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Saving {
    pub(super) plan: Plan,
    pub(super) portion: Portion,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    /// The roots that free the blocks have been written, by whoever came first.
    prepared: OnceLock<Result<()>>,
    pub(super) rows: Rows,
    /// At t1: the sequence of the newest slot, and what others hold.
    pub(super) found: (u64, Vec<RevisionKey>),
    segments: AtomicU32,
    /// Once all of it is staged.
    pub(super) contents: OnceLock<(Contents, Instant)>,
    /// The program's thread is copying.
    copying: AtomicBool,
    /// When that changed, since t1.
    copied_at: AtomicU64,
    /// One for each chunk under way and one for the stager; who ends the last one commits.
    parts: AtomicU64,
    pub(super) failure: OnceLock<Error>,
    pub(super) writes: Mutex<Histogram>,
    pub(super) phases: Mutex<PhaseRecord>,
    pub(super) outcome: Mutex<Option<Result<()>>>,
    /// Told at t2 and t3.
    pub(super) changed: Condvar,
}

impl Saving {
    pub(crate) fn new(plan: Plan, ledger: Arc<Mutex<Ledger>>, rows: Rows, phases: PhaseRecord) -> Saving {
        let (portion, found) = {
            let ledger = lock(&ledger);
            (ledger.portion().clone(), (ledger.position().0, ledger.held().to_vec()))
        };
        Saving {
            plan,
            portion,
            ledger,
            prepared: OnceLock::new(),
            rows,
            found,
            segments: AtomicU32::new(0),
            contents: OnceLock::new(),
            copying: AtomicBool::new(false),
            copied_at: AtomicU64::new(0),
            parts: AtomicU64::new(1),
            failure: OnceLock::new(),
            writes: Mutex::default(),
            phases: Mutex::new(phases),
            outcome: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn key(&self) -> RevisionKey {
        self.plan.key
    }

    /// By which chunks and record know what belongs to this shard.
    pub(super) fn tag(&self) -> u32 {
        self.plan.tag(self.portion.rank())
    }

    pub(crate) fn started(&self) -> Instant {
        self.plan.started
    }

    pub(crate) fn size(&self) -> &Size {
        &self.plan.size
    }

    pub(crate) fn runs(&self) -> &[Blocks] {
        &self.plan.allocation.data
    }

    /// Bytes of all items; 0 before t2.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.contents.get().map_or(0, |(contents, _)| contents.items.iter().map(|item| item.bytes).sum())
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    pub(super) fn add_part(&self) {
        self.parts.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it was the last one.
    pub(crate) fn end_part(&self) -> bool {
        self.parts.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn set_copying(&self, copying: bool) {
        self.copied_at.store(self.plan.started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.copying.store(copying, Ordering::Release);
    }

    /// Whether the program copies, or did an instant ago and has more to hand over.
    pub(super) fn is_copying(&self) -> bool {
        let now = || self.plan.started.elapsed().as_nanos() as u64;
        let between_pieces =
            || !self.is_staged() && now().saturating_sub(self.copied_at.load(Ordering::Relaxed)) < BETWEEN_PIECES_NS;
        !self.has_failed() && (self.copying.load(Ordering::Acquire) || between_pieces())
    }

    pub(super) fn is_staged_for_less_than(&self, time: Duration) -> bool {
        self.contents.get().is_some_and(|(_, staged)| staged.elapsed() < time)
    }

    pub(super) fn is_staged(&self) -> bool {
        self.contents.get().is_some()
    }

    /// Notes what was staged and what that took, t2 excepted; before the stager says that it has ended.
    pub(crate) fn note_staged(&self, staged: Staged, contents: Contents) {
        {
            let mut phases = lock(&self.phases);
            *phases = staged.noted_in(*phases);
        }
        let _ = self.contents.set((contents, Instant::now()));
        self.set_copying(false);
        let _outcome = lock(&self.outcome);
        self.changed.notify_all();
    }

    /// Notes t2, and what of it came after the last byte was staged (phase 3).
    pub(crate) fn note_resumed(&self, resume: Duration) {
        let mut phases = lock(&self.phases);
        phases.resume_ns = resume.as_nanos() as u64;
        phases.perceived_ns = self.plan.started.elapsed().as_nanos() as u64;
    }

    /// Whether `bytes` more bytes of the log, from `end` on, have room.
    pub(crate) fn has_room(&self, end: u64, bytes: u64) -> Result<()> {
        let size = &self.plan.size;
        if end.checked_add(bytes).is_some_and(|end| end <= size.bytes()) {
            return Ok(());
        }
        Err(Error::argument(
            "begin",
            format!(
                "it announced {} bytes in pieces, and there are more; announce as many as are going to be written",
                size.announced
            ),
        ))
    }

    /// Says that `chunk` is about to hold `bytes` bytes of the log from `offset` on; gives the number of
    /// this segment.
    pub(super) fn place(&self, chunk: &Chunk, offset: u64, bytes: u64) -> u32 {
        let segment = self.segments.fetch_add(1, Ordering::Relaxed);
        if let Some(record) = self.rows.record() {
            record.place(segment, offset, bytes, chunk.index());
        }
        segment
    }

    /// Says that a segment is written and hashed, before its chunk goes on to something else.
    pub(super) fn segment_done(&self, segment: u32) {
        if let Some(record) = self.rows.record() {
            record.done(segment);
        }
    }

    /// Segments that a log of `bytes` bytes in chunks of `chunk_bytes` has at most: two chunks may leave
    /// before they are full, when the last piece is there and when the last gap is filled, and one more of each.
    pub(crate) fn segments_at_most(bytes: u64, chunk_bytes: u64) -> u32 {
        u32::try_from(bytes / chunk_bytes + 4).unwrap_or(u32::MAX)
    }

    /// Hashes and writes whole blocks of the log, from `offset` on.
    pub(crate) fn carry(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.hash(offset, bytes);
        self.write(offset, bytes)
    }

    /// Puts the hashes of whole blocks of the log, from `offset` on, into their row.
    pub(crate) fn hash(&self, offset: u64, bytes: &[u8]) {
        let mut hashes = vec![0; bytes.len() / BLOCK * HASH_BYTES];
        hash_blocks(bytes, &mut hashes);
        self.rows.write(offset / BLOCK_BYTES * HASH_BYTES as u64, &hashes);
    }

    /// Writes `bytes` of the log, from `offset` on.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.prepare()?;
        let mut rest = bytes;
        for Piece { bytes, at, .. } in pieces(self.runs(), offset, bytes.len() as u64) {
            let (now, later) = rest.split_at(bytes as usize);
            let begun = Instant::now();
            self.portion.write(at, now)?;
            lock(&self.writes).note(bytes, begun.elapsed());
            rest = later;
        }
        debug_assert!(rest.is_empty(), "the log is no longer than its runs");
        Ok(())
    }

    /// Writes the roots that free its blocks, if nobody has.
    pub(super) fn prepare(&self) -> Result<()> {
        self.prepared.get_or_init(|| lock(&self.ledger).free(&self.plan.allocation, &self.plan.retained)).clone()
    }

    pub(crate) fn fail(&self, error: Error) {
        // The first failure is the cause of the others.
        let _ = self.failure.set(error);
    }

    /// Sequence of the root that publishes it.
    pub(crate) fn sequence(&self) -> u64 {
        self.found.0 + self.plan.allocation.roots()
    }

    /// Waits for t3, or for the failure.
    pub(crate) fn wait(&self) -> Result<PhaseRecord> {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(result) = &*outcome {
                return result.clone().map(|()| *lock(&self.phases));
            }
            outcome = self.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is known so far, without waiting.
    pub(crate) fn poll(&self) -> Option<Result<()>> {
        lock(&self.outcome).clone()
    }

    pub(crate) fn out_of_memory(&self, bytes: u64) -> Error {
        self.portion.out_of_memory(bytes)
    }
}

/// A panic elsewhere leaves the data behind a lock as it was: it is only counters and buffers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
