//! Where a shard goes: a portion of one space, with the room that it has there. A target ends on its own, published or
//! failed, whatever becomes of the others.

use super::{Intent, Shard};
use crate::{
    commit::{Allocation, Ledger, Publication, RevisionKey},
    device::Device,
    error::{Error, Result},
    ground::lock,
    pool::SealedTarget,
    space::{
        Portion,
        format::{Histogram, PhaseRecord, hash},
    },
};
use std::{
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Debug)]
pub(crate) struct Target {
    portion: Portion,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) allocation: Allocation,
    /// What every root must keep until this revision is known to be complete.
    pub(super) retained: Vec<RevisionKey>,
    /// The space's directory.
    space: PathBuf,
    /// That holds the space, as its device tells it.
    file_system: u64,
    /// At t1: the sequence of the newest slot, and what others hold.
    found: (u64, Vec<RevisionKey>),
    /// The roots that free the blocks have been written, by whoever came first.
    prepared: OnceLock<Result<()>>,
    /// Of each chunk under way its write and its hashing, and one for the stager: who ends the last one commits.
    parts: AtomicU64,
    pub(super) failure: OnceLock<Error>,
    writes: Mutex<Histogram>,
    /// t3: with what the checkpoint took.
    outcome: Mutex<Option<Result<PhaseRecord>>>,
    ended: Condvar,
}

impl Target {
    /// `allocation`, in the portion of `ledger` of the space on `device`, beside `retained`.
    pub(crate) fn new(
        device: &dyn Device,
        ledger: Arc<Mutex<Ledger>>,
        allocation: Allocation,
        retained: Vec<RevisionKey>,
    ) -> Target {
        let (portion, found) = {
            let ledger = lock(&ledger);
            (ledger.portion().clone(), (ledger.position().0, ledger.held().to_vec()))
        };
        Target {
            portion,
            ledger,
            allocation,
            retained,
            space: device.directory(),
            file_system: device.device_number(),
            found,
            prepared: OnceLock::new(),
            parts: AtomicU64::new(1),
            failure: OnceLock::new(),
            writes: Mutex::default(),
            outcome: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    pub(super) fn portion(&self) -> &Portion {
        &self.portion
    }

    pub(super) fn takes_processor(&self) -> bool {
        self.portion.takes_processor()
    }

    /// Sequence of the root that publishes it.
    pub(super) fn sequence(&self) -> u64 {
        self.found.0 + self.allocation.roots()
    }

    /// As a salvager is told of it.
    pub(super) fn sealed(&self) -> SealedTarget {
        let (sequence, held) = self.found.clone();
        SealedTarget {
            space: self.space.as_os_str().as_bytes().to_vec(),
            file_system: self.file_system,
            layout_id: self.portion.layout_id(),
            sequence,
            allocation: self.allocation.clone(),
            retained: self.retained.clone(),
            held,
        }
    }

    pub(super) fn add_parts(&self, count: u64) {
        self.parts.fetch_add(count, Ordering::AcqRel);
    }

    /// Whether it was the last one.
    pub(super) fn end_part(&self) -> bool {
        self.parts.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Writes the roots that free its blocks, if nobody has.
    pub(super) fn prepare(&self) -> Result<()> {
        self.prepared.get_or_init(|| lock(&self.ledger).free(&self.allocation, &self.retained)).clone()
    }

    /// Writes `bytes` of the log, from `offset` on.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.prepare()?;
        self.allocation.write(&self.portion, offset, bytes, |bytes, took| lock(&self.writes).note(bytes, took))
    }

    /// Publishes `shard`, of which all is written; returns what it took until t3.
    pub(super) fn publish(&self, shard: &Shard) -> Result<PhaseRecord> {
        shard.sync_outputs()?;
        // A shard without a single block has not been prepared by a write.
        self.prepare()?;
        let Intent { key, shards, started, .. } = shard.intent;
        let (contents, writes) = (shard.contents()?, *lock(&self.writes));
        let phases =
            PhaseRecord { writes: writes.total().count, written_bytes: writes.total().bytes, ..shard.phases() };
        let mut described = shard.hashes.read(shard.size().hash_bytes(), |rows| {
            let mut manifest = self.allocation.manifest(contents, |row| hash(&rows[row]));
            if let Some(profile) = &mut manifest.annex.profile {
                profile.writes = writes;
            }
            let (allocation, retained) = (&self.allocation, &self.retained[..]);
            Publication { key, shards, manifest, allocation, retained, phases }.describe(rows, &self.portion)
        })?;
        described.write(&self.portion)?;
        let mut ledger = lock(&self.ledger);
        let mut phases = described.publish(&mut ledger)?;
        phases.durable_ns = started.elapsed().as_nanos() as u64;
        ledger.note(key, phases);
        Ok(phases)
    }

    /// Tells whoever waits.
    pub(super) fn end(&self, outcome: Result<PhaseRecord>) {
        lock(&self.outcome).get_or_insert(outcome);
        self.ended.notify_all();
    }

    /// What the program's thread took besides, of a shard that was published before it went on.
    pub(super) fn note_after(&self, key: RevisionKey, note: impl FnOnce(&mut PhaseRecord)) {
        if let Some(Ok(phases)) = &mut *lock(&self.outcome) {
            note(phases);
            lock(&self.ledger).note(key, *phases);
        }
    }

    /// Waits for t3, or for the failure.
    pub(super) fn wait(&self) -> Result<PhaseRecord> {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = self.ended.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is known so far, without waiting.
    pub(super) fn poll(&self) -> Option<Result<()>> {
        lock(&self.outcome).as_ref().map(|outcome| outcome.clone().map(drop))
    }
}
