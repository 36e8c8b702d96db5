//! How a shard under way ends: sealed at t2, so that another process can complete it; published, or given up, at
//! t3.

use super::{
    Contents, Staged,
    saving::{Saving, lock},
};
use crate::{
    capture::Marked,
    commit::Publication,
    error::{Error, Result},
    pool::SealedPlan,
    space::format::{BLOCK_BYTES, HASH_BYTES, Hash, Manifest, PhaseRecord, hash},
};
use std::{ops::Range, os::unix::ffi::OsStrExt, time::Instant};

impl Saving {
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
        if let Some(record) = self.rows.record() {
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
        let Some(record) = self.rows.record() else { return };
        let plan = &self.plan;
        let (sequence, held) = self.found.clone();
        let sealed = SealedPlan {
            file_system: plan.file_system,
            space: plan.space.as_os_str().as_bytes().to_vec(),
            layout_id: self.portion.layout_id(),
            portion: self.portion.rank(),
            key: plan.key,
            shards: plan.shards,
            sequence,
            allocation: plan.allocation.clone(),
            retained: plan.retained.clone(),
            held,
            manifest: self.unhashed(contents),
            manifest_in_meta: plan.manifest_in_meta(),
            outputs: plan.outputs.iter().map(|output| output.path().as_os_str().as_bytes().to_vec()).collect(),
            phases: PhaseRecord {
                perceived_ns: plan.started.elapsed().as_nanos() as u64,
                ..staged.noted_in(*lock(&self.phases))
            },
        };
        let _ = record.seal(&sealed);
    }

    /// The revision tells how long they are: so much must be there when it is.
    pub(crate) fn sync_outputs(&self) -> Result<()> {
        self.plan.outputs.iter().try_for_each(Marked::sync)
    }

    /// As a rank has carried it that was told its plan: `contents`, in a manifest without hashes.
    pub(crate) fn unhashed(&self, contents: &Contents) -> Vec<u8> {
        self.manifest(contents, |_| [0; HASH_BYTES]).build()
    }

    /// The manifest. `hash_of`: the hash of these bytes of the metadata.
    fn manifest(&self, contents: &Contents, hash_of: impl Fn(Range<usize>) -> Hash) -> Manifest {
        let runs = self.plan.allocation.runs(contents.blocks, hash_of);
        Manifest { runs, items: contents.items.clone(), annex: contents.annex.clone() }
    }

    fn publish(&self) -> Result<()> {
        self.sync_outputs()?;
        // A shard without a single block has not been prepared by a write.
        self.prepare()?;
        let (contents, _) =
            self.contents.get().ok_or_else(|| Error::Internal { what: "published before t2".to_owned() })?;
        let plan = &self.plan;
        let rows = plan.manifest_in_meta();
        let mut manifest = self.rows.read(rows, |rows| self.manifest(contents, |row| hash(&rows[row])));
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
        let meta = self.rows.read(rows, |rows| publication.meta(rows, &manifest));
        let meta = meta.ok_or_else(|| self.portion.out_of_memory(rows + manifest.len() as u64))?;
        let writes = self.portion.write(plan.allocation.meta.first * BLOCK_BYTES, &meta)?;
        let mut ledger = lock(&self.ledger);
        let mut phases = publication.publish(&mut ledger, &manifest, writes)?;
        // t3
        phases.durable_ns = self.plan.started.elapsed().as_nanos() as u64;
        ledger.note(plan.key, phases);
        *lock(&self.phases) = phases;
        Ok(())
    }

    /// Ends a shard that rank `by` has carried, as that rank tells: what it took, but for what is known here.
    pub(crate) fn end_as_told(&self, told: Result<PhaseRecord>) {
        if let Some(error) = self.failure.get() {
            return self.end(Err(error.clone()));
        }
        let outcome = told.map(|told| {
            let mut phases = lock(&self.phases);
            let PhaseRecord { perceived_ns, resume_ns, .. } = *phases;
            *phases = PhaseRecord { perceived_ns, resume_ns, ..told };
            lock(&self.ledger).note(self.plan.key, *phases);
        });
        // It is named already.
        lock(&self.outcome).get_or_insert(outcome);
        self.changed.notify_all();
    }

    /// Publishes on the calling thread, which goes on only then; what it took counts as phase 3.
    pub(crate) fn commit_now(&self, staged_at: Instant) {
        self.commit();
        let mut phases = lock(&self.phases);
        phases.resume_ns = staged_at.elapsed().as_nanos() as u64;
        phases.perceived_ns = self.plan.started.elapsed().as_nanos() as u64;
        lock(&self.ledger).note(self.plan.key, *phases);
    }
}
