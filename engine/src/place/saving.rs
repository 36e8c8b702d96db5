//! One shard of one revision on its way from t1 to t3.

use super::Carried;
use crate::{
    capture::{Piece, Stream},
    commit::{Allocation, Kept, Ledger, Need, RevisionKey},
    error::{Error, Result},
    space::{
        Aligned, Portion,
        format::{BLOCK, BLOCK_BYTES, Entry, HASH_BYTES, PhaseRecord, Run, blocks_for, hash, hash_blocks},
        free::Blocks,
    },
};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What is to be saved, and where it goes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    pub(crate) stream: Stream,
    pub(crate) allocation: Allocation,
    /// What every root must keep until this revision is known to be complete.
    pub(crate) retained: Vec<RevisionKey>,
    /// t1.
    pub(crate) started: Instant,
}

/// What staging took of the program's time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Staged {
    pub(crate) buffer_wait: Duration,
    pub(crate) copy: Duration,
    pub(crate) chunks: u64,
}

#[derive(Debug)]
pub(crate) struct Saving {
    plan: Plan,
    portion: Portion,
    ledger: Arc<Mutex<Ledger>>,
    /// The roots that free the blocks have been written, by whoever came first.
    prepared: OnceLock<Result<()>>,
    /// Hashes of the blocks, then the manifest.
    meta: Mutex<Aligned>,
    /// One for each chunk under way and one for the stager; who ends the last one commits.
    parts: AtomicU64,
    failure: OnceLock<Error>,
    written_bytes: AtomicU64,
    writes: AtomicU64,
    phases: Mutex<PhaseRecord>,
    outcome: Mutex<Option<Result<()>>>,
    ended: Condvar,
}

impl Plan {
    /// Blocks that `stream` needs when its data lies in at most `runs` runs.
    pub(crate) fn need(stream: &Stream, runs: usize) -> Need {
        let manifest = blocks_for(stream.manifest_bytes_at_most(runs));
        Need { data: stream.blocks(), meta: hash_blocks_for(stream) + manifest }
    }
}

fn hash_blocks_for(stream: &Stream) -> u64 {
    blocks_for(stream.blocks() * HASH_BYTES as u64)
}

impl Saving {
    pub(crate) fn new(plan: Plan, ledger: Arc<Mutex<Ledger>>, phases: PhaseRecord) -> Result<Saving> {
        let portion = lock(&ledger).portion().clone();
        let meta_bytes = plan.allocation.meta.count * BLOCK_BYTES;
        let meta = Aligned::zeroed(meta_bytes).ok_or_else(|| portion.out_of_memory(meta_bytes))?;
        Ok(Saving {
            plan,
            portion,
            ledger,
            prepared: OnceLock::new(),
            meta: Mutex::new(meta),
            parts: AtomicU64::new(1),
            failure: OnceLock::new(),
            written_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            phases: Mutex::new(phases),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
        })
    }

    pub(crate) fn key(&self) -> RevisionKey {
        self.plan.key
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.plan.stream
    }

    pub(crate) fn pieces(&self, chunk_bytes: u64) -> Vec<Piece> {
        self.plan.stream.pieces(&self.plan.allocation.data, chunk_bytes)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    pub(super) fn add_part(&self) {
        self.parts.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it was the last one.
    pub(super) fn end_part(&self) -> bool {
        self.parts.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Notes what staging took; before the stager says that it has ended.
    pub(crate) fn note_staged(&self, staged: Staged) {
        let mut phases = lock(&self.phases);
        phases.buffer_wait_ns = staged.buffer_wait.as_nanos() as u64;
        phases.copy_ns = staged.copy.as_nanos() as u64;
        phases.chunks = staged.chunks;
        phases.perceived_ns = self.plan.started.elapsed().as_nanos() as u64;
    }

    /// An I/O thread's work on one chunk.
    pub(super) fn write_chunk(&self, chunk: &dyn Carried, piece: Piece) {
        if !self.has_failed()
            && let Err(error) = self.write(piece, &chunk.bytes()[..piece.bytes as usize])
        {
            self.fail(error);
        }
    }

    /// As `write_chunk`; each chunk needs both, in any order.
    pub(super) fn hash_chunk(&self, chunk: &dyn Carried, piece: Piece) {
        if !self.has_failed() {
            self.hash(piece, &chunk.bytes()[..piece.bytes as usize]);
        }
    }

    /// Puts the hashes of the piece's blocks into their row.
    pub(crate) fn hash(&self, piece: Piece, bytes: &[u8]) {
        let mut hashes = vec![0; bytes.len() / BLOCK * HASH_BYTES];
        hash_blocks(bytes, &mut hashes);
        let at = piece.offset as usize / BLOCK * HASH_BYTES;
        lock(&self.meta)[at..at + hashes.len()].copy_from_slice(&hashes);
    }

    /// Writes the blocks of one piece.
    pub(crate) fn write(&self, piece: Piece, bytes: &[u8]) -> Result<()> {
        self.prepared.get_or_init(|| lock(&self.ledger).free(&self.plan.allocation, &self.plan.retained)).clone()?;
        let writes = self.portion.write(piece.at, bytes)?;
        self.writes.fetch_add(writes, Ordering::Relaxed);
        self.written_bytes.fetch_add(piece.bytes, Ordering::Relaxed);
        Ok(())
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
        let number = self.plan.key.number;
        let not_saved = |error: Error| match error {
            // The space is out of use, not only this revision.
            Error::SyncFailed { .. } | Error::Fenced { .. } => error,
            _ => Error::NotSaved { revision: number, kind: error.kind(), cause: error.to_string() },
        };
        lock(&self.outcome).get_or_insert(result.map_err(not_saved));
        self.ended.notify_all();
    }

    fn publish(&self) -> Result<()> {
        // The revision tells how long they are: so much must be there when it is.
        self.plan.stream.sync_outputs()?;
        // A shard without a single block has not been prepared by a write.
        self.prepared.get_or_init(|| lock(&self.ledger).free(&self.plan.allocation, &self.plan.retained)).clone()?;
        let (meta, stream) = (self.plan.allocation.meta, &self.plan.stream);
        let mut buffer = lock(&self.meta);
        let manifest = stream.manifest(self.runs(&buffer)).build();
        let manifest_in_meta = hash_blocks_for(stream) * BLOCK_BYTES;
        buffer[manifest_in_meta as usize..][..manifest.len()].copy_from_slice(&manifest);
        let writes = self.portion.write(meta.first * BLOCK_BYTES, &buffer)?;

        let mut phases = *lock(&self.phases);
        let mut ledger = lock(&self.ledger);
        let roots = self.plan.allocation.roots();
        let metadata = meta.count + roots * self.plan.allocation.root_blocks();
        phases.writes = self.writes.load(Ordering::Relaxed) + writes + 2 * roots;
        phases.written_bytes = self.written_bytes.load(Ordering::Relaxed) + metadata * BLOCK_BYTES;
        let entry = Entry {
            lineage: self.plan.key.lineage,
            number: self.plan.key.number,
            shards: self.plan.shards,
            shard: self.portion.rank(),
            bytes: stream.item_bytes(),
            manifest_at: meta.first * BLOCK_BYTES + manifest_in_meta,
            manifest_bytes: manifest.len() as u64,
            manifest_hash: hash(&manifest),
            meta_at: meta.first * BLOCK_BYTES,
            meta_bytes: meta.count * BLOCK_BYTES,
            phases,
        };
        let blocks: Vec<Blocks> = self.plan.allocation.data.iter().copied().chain([meta]).collect();
        ledger.publish(Kept { entry, blocks }, &self.plan.allocation, &self.plan.retained)?;
        // t3
        phases.durable_ns = self.plan.started.elapsed().as_nanos() as u64;
        ledger.note(self.plan.key, phases);
        *lock(&self.phases) = phases;
        Ok(())
    }

    fn runs(&self, hashes: &[u8]) -> Vec<Run> {
        let mut from = 0;
        let runs = self.plan.allocation.data.iter().map(|blocks| {
            let row = &hashes[from..][..blocks.count as usize * HASH_BYTES];
            let hashes_at = self.plan.allocation.meta.first * BLOCK_BYTES + from as u64;
            from += row.len();
            Run { first_block: blocks.first, blocks: blocks.count, hashes_at, hashes_hash: hash(row) }
        });
        runs.collect()
    }

    /// Waits for t3, or for the failure.
    pub(crate) fn wait(&self) -> Result<PhaseRecord> {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(result) = &*outcome {
                return result.clone().map(|()| *lock(&self.phases));
            }
            outcome = self.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner);
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
