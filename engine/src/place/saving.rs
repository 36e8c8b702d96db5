//! One shard of one revision on its way from t1 to t3.

use super::Meta;
use crate::{
    capture::{Marked, Piece, Size, pieces},
    commit::{Allocation, Ledger, Need, Publication, RevisionKey},
    error::{Error, Result},
    pool::{Chunk, SealedPlan},
    space::{
        Portion,
        format::{
            BLOCK, BLOCK_BYTES, HASH_BYTES, Hash, Histogram, Item, Manifest, PhaseRecord, Profile, blocks_for, hash,
            hash_blocks,
        },
        free::Blocks,
    },
};
use std::{
    ops::Range,
    os::unix::ffi::OsStrExt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What is to be saved, and where it goes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    pub(crate) size: Size,
    pub(crate) outputs: Vec<Marked>,
    pub(crate) allocation: Allocation,
    /// What every root must keep until this revision is known to be complete.
    pub(crate) retained: Vec<RevisionKey>,
    /// The space's directory.
    pub(crate) space: String,
    /// That holds the space, as its device tells it.
    pub(crate) file_system: u64,
    /// t1.
    pub(crate) started: Instant,
}

/// What was staged, known at t2.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) items: Vec<Item>,
    /// Blocks of the log.
    pub(crate) blocks: u64,
    pub(crate) profile: Profile,
}

/// What staging took of the program's time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Staged {
    pub(crate) buffer_wait: Duration,
    pub(crate) copy: Duration,
    pub(crate) chunks: u64,
}

impl Staged {
    fn noted_in(self, phases: PhaseRecord) -> PhaseRecord {
        PhaseRecord {
            buffer_wait_ns: self.buffer_wait.as_nanos() as u64,
            copy_ns: self.copy.as_nanos() as u64,
            chunks: self.chunks,
            ..phases
        }
    }
}

/// A program that hands over its next piece within this time is still copying.
const BETWEEN_PIECES_NS: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Saving {
    plan: Plan,
    portion: Portion,
    ledger: Arc<Mutex<Ledger>>,
    /// The roots that free the blocks have been written, by whoever came first.
    prepared: OnceLock<Result<()>>,
    meta: Meta,
    /// At t1: the sequence of the newest slot, and what others hold.
    found: (u64, Vec<RevisionKey>),
    segments: AtomicU32,
    /// Once all of it is staged.
    contents: OnceLock<(Contents, Instant)>,
    /// The program's thread is copying.
    copying: AtomicBool,
    /// When that changed, since t1.
    copied_at: AtomicU64,
    /// One for each chunk under way and one for the stager; who ends the last one commits.
    parts: AtomicU64,
    failure: OnceLock<Error>,
    writes: Mutex<Histogram>,
    phases: Mutex<PhaseRecord>,
    outcome: Mutex<Option<Result<()>>>,
    /// Told at t2 and t3.
    changed: Condvar,
}

impl Plan {
    /// Blocks that a shard of this size needs when its data lies in at most `runs` runs.
    pub(crate) fn need(size: &Size, runs: usize) -> Need {
        let manifest = blocks_for(size.manifest_bytes_at_most(runs));
        Need { data: size.blocks(), meta: hash_blocks_for(size.blocks()) + manifest }
    }

    /// Of the revision's number, what a chunk's word has room for.
    pub(crate) fn tag(&self) -> u32 {
        self.key.number as u32
    }

    pub(crate) fn meta_bytes(&self) -> u64 {
        self.allocation.meta.count * BLOCK_BYTES
    }

    /// Where in the metadata the manifest begins.
    fn manifest_in_meta(&self) -> u64 {
        hash_blocks_for(self.size.blocks()) * BLOCK_BYTES
    }
}

fn hash_blocks_for(blocks: u64) -> u64 {
    blocks_for(blocks * HASH_BYTES as u64)
}

impl Saving {
    pub(crate) fn new(plan: Plan, ledger: Arc<Mutex<Ledger>>, meta: Meta, phases: PhaseRecord) -> Saving {
        let (portion, found) = {
            let ledger = lock(&ledger);
            (ledger.portion().clone(), (ledger.position().0, ledger.held().to_vec()))
        };
        Saving {
            plan,
            portion,
            ledger,
            prepared: OnceLock::new(),
            meta,
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
        self.plan.tag()
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

    /// Waits for t2, or for so long.
    pub(super) fn await_copied(&self, at_most: Duration) {
        let outcome = lock(&self.outcome);
        let copying = |outcome: &mut Option<Result<()>>| outcome.is_none() && self.is_copying();
        drop(self.changed.wait_timeout_while(outcome, at_most, copying));
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

    /// Publishes on the calling thread, which goes on only then; what it took counts as phase 3.
    pub(crate) fn commit_now(&self, staged_at: Instant) {
        self.commit();
        let mut phases = lock(&self.phases);
        phases.resume_ns = staged_at.elapsed().as_nanos() as u64;
        phases.perceived_ns = self.plan.started.elapsed().as_nanos() as u64;
        lock(&self.ledger).note(self.plan.key, *phases);
    }

    /// Says that `chunk` is about to hold `bytes` bytes of the log from `offset` on; gives the number of
    /// this segment.
    pub(super) fn place(&self, chunk: &Chunk, offset: u64, bytes: u64) -> u32 {
        let segment = self.segments.fetch_add(1, Ordering::Relaxed);
        if let Some(record) = self.meta.record() {
            record.place(segment, offset, bytes, chunk.index());
        }
        segment
    }

    /// Says that a segment is written and hashed, before its chunk goes on to something else.
    pub(super) fn segment_done(&self, segment: u32) {
        if let Some(record) = self.meta.record() {
            record.done(segment);
        }
    }

    /// Segments that a log of `bytes` bytes in chunks of `chunk_bytes` has at most: two chunks may leave
    /// before they are full, when the last piece is there and when the last gap is filled, and one more of each.
    pub(crate) fn segments_at_most(bytes: u64, chunk_bytes: u64) -> u32 {
        u32::try_from(bytes / chunk_bytes + 4).unwrap_or(u32::MAX)
    }

    /// Puts the hashes of whole blocks of the log, from `offset` on, into their row.
    pub(crate) fn hash(&self, offset: u64, bytes: &[u8]) {
        let mut hashes = vec![0; bytes.len() / BLOCK * HASH_BYTES];
        hash_blocks(bytes, &mut hashes);
        self.meta.write(offset / BLOCK_BYTES * HASH_BYTES as u64, &hashes);
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

    fn prepare(&self) -> Result<()> {
        self.prepared.get_or_init(|| lock(&self.ledger).free(&self.plan.allocation, &self.plan.retained)).clone()
    }

    pub(crate) fn fail(&self, error: Error) {
        // The first failure is the cause of the others.
        let _ = self.failure.set(error);
    }

    /// Publishes the shard, if all of it was written, and tells whoever waits.
    pub(crate) fn commit(&self) {
        let result = match self.failure.get() {
            Some(error) => Err(error.clone()),
            None => self.publish(),
        };
        self.end(result);
    }

    /// Ends the revision without publishing it.
    pub(super) fn abandon(&self, error: Error) {
        self.fail(error.clone());
        self.end(Err(error));
    }

    fn end(&self, result: Result<()>) {
        if let Some(record) = self.meta.record() {
            record.clear();
        }
        let number = self.plan.key.number;
        let not_saved = |error: Error| match error {
            // The space is out of use, not only this revision.
            Error::SyncFailed { .. } | Error::Fenced { .. } => error,
            _ => Error::NotSaved { revision: number, kind: error.kind(), cause: error.to_string() },
        };
        lock(&self.outcome).get_or_insert(result.map_err(not_saved));
        self.changed.notify_all();
    }

    /// t2: from here on another process can complete the shard if this one dies. Without it, for want of
    /// memory beside the pool, the shard is lost with the process, and is saved otherwise.
    pub(crate) fn seal(&self, contents: &Contents, staged: Staged) {
        let Some(record) = self.meta.record() else { return };
        let plan = &self.plan;
        let (sequence, held) = self.found.clone();
        let sealed = SealedPlan {
            file_system: plan.file_system,
            space: plan.space.clone(),
            layout_id: self.portion.layout_id(),
            portion: self.portion.rank(),
            key: plan.key,
            shards: plan.shards,
            sequence,
            allocation: plan.allocation.clone(),
            retained: plan.retained.clone(),
            held,
            manifest: self.manifest(contents, |_| [0; HASH_BYTES]).build(),
            manifest_in_meta: plan.manifest_in_meta(),
            outputs: plan.outputs.iter().map(|output| output.path().as_os_str().as_bytes().to_vec()).collect(),
            phases: PhaseRecord {
                perceived_ns: plan.started.elapsed().as_nanos() as u64,
                ..staged.noted_in(*lock(&self.phases))
            },
        };
        let _ = record.seal(&sealed);
    }

    /// The manifest. `hash_of`: the hash of these bytes of the metadata.
    fn manifest(&self, contents: &Contents, hash_of: impl Fn(Range<usize>) -> Hash) -> Manifest {
        let mut annex = self.plan.size.annex.clone();
        annex.profile = Some(contents.profile);
        let runs = self.plan.allocation.runs(contents.blocks, hash_of);
        Manifest { runs, items: contents.items.clone(), annex }
    }

    fn publish(&self) -> Result<()> {
        // The revision tells how long they are: so much must be there when it is.
        self.plan.outputs.iter().try_for_each(Marked::sync)?;
        // A shard without a single block has not been prepared by a write.
        self.prepare()?;
        let (contents, _) =
            self.contents.get().ok_or_else(|| Error::Internal { what: "published before t2".to_owned() })?;
        let plan = &self.plan;
        let rows = plan.manifest_in_meta();
        let mut manifest = self.meta.read(rows, |rows| self.manifest(contents, |row| hash(&rows[row])));
        let writes = *lock(&self.writes);
        let mut phases = *lock(&self.phases);
        (phases.writes, phases.written_bytes) = (writes.total().count, writes.total().bytes);
        if let Some(profile) = &mut manifest.annex.profile {
            profile.writes = writes;
        }
        let publication = Publication {
            key: plan.key,
            shards: plan.shards,
            manifest,
            manifest_in_meta: rows,
            allocation: &plan.allocation,
            retained: &plan.retained,
            phases,
        };
        let manifest = publication.manifest_bytes()?;
        self.meta.write(rows, &manifest);
        let meta_at = plan.allocation.meta.first * BLOCK_BYTES;
        let used = publication.meta_bytes(&manifest);
        let writes = self.meta.read(used, |meta| self.portion.write(meta_at, meta))?;
        let mut ledger = lock(&self.ledger);
        let mut phases = publication.publish(&mut ledger, &manifest, writes)?;
        // t3
        phases.durable_ns = self.plan.started.elapsed().as_nanos() as u64;
        ledger.note(plan.key, phases);
        *lock(&self.phases) = phases;
        Ok(())
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
