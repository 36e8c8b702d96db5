//! The end of a shard in a target that this rank writes: it is published there, or has failed there, and the record
//! beside the pool notes that the target needs no more work.
//!
//! Invariant: a shard is published only in a target that has all of it, after its output files are synced.

use super::{Shard, ShardSpec, Site, TakenOver, target::Target};
use crate::{
    commit::Publication,
    error::{Error, Result},
    ground::{Instant, Scope, lock, scope},
    space::format::{BLOCK_BYTES, HASH_BYTES, PhaseRecord, blocks_for},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::Duration,
};

impl Shard {
    /// Publishes the shard in target number `target`, if all of it was written there. Prepares data for the next
    /// checkpoint while the device writes, and after no thread waits for this one any more.
    pub(crate) fn commit(&self, target: usize) {
        scope(|scope| {
            let outcome = match self.failure_of(target) {
                Some(error) => Err(error.clone()),
                None => self.publish(scope, &self.targets[target]),
            };
            self.end(target, outcome);
            self.make_kept_set(&self.targets[target]);
            self.forget_before();
        });
    }

    /// Makes the set of the blocks of this shard, if it shares any.
    fn make_kept_set(&self, target: &Target) {
        let Site { portion, ledger, .. } = &target.site;
        if self.base().is_some() {
            let (from, to) = portion.data_blocks();
            let kept = lock(ledger).kept_of(self.key());
            kept.iter().for_each(|kept| kept.make_set(from..to));
        }
    }

    /// Publishes on the calling thread, which goes on only then; this time counts as phase 3.
    pub(crate) fn commit_now(&self, staged_at: Instant) {
        (0..self.targets.len()).for_each(|target| self.commit(target));
        self.note_resumed_late(staged_at.elapsed());
    }

    /// Notes t2 of a program that waited until now; the shard may be published already.
    pub(crate) fn note_resumed_late(&self, resume: Duration) {
        self.note_resumed(resume);
        for Target { site, ending, .. } in &self.targets {
            ending.note_after(|phases| {
                self.resumed(resume, phases);
                lock(&site.ledger).note(self.key(), *phases);
            });
        }
    }

    /// Ends the shard in target number `target` without publishing it.
    pub(crate) fn abandon(&self, target: usize, error: Error) {
        self.fail_target(target, error.clone());
        self.end(target, Err(error));
    }

    /// Marks the shard as ended in target number `target`: no other process completes it there, and waiting threads get
    /// the outcome.
    fn end(&self, target: usize, outcome: Result<PhaseRecord>) {
        if let Some(record) = self.hashes.record() {
            record.target_ended(target);
            let ended = self.ended.fetch_or(1 << target, Ordering::AcqRel) | 1 << target;
            if ended.count_ones() as usize == self.targets.len() {
                record.clear();
            }
        }
        self.targets[target].ending.tell(outcome.map_err(|error| self.not_saved(error)));
    }

    /// Publishes the shard in `target`, which has all of it; returns the times until t3. `scope`: for threads that may
    /// go on after it.
    fn publish<'scope>(&self, scope: &Scope<'scope, '_>, target: &Target) -> Result<PhaseRecord> {
        self.sync_outputs()?;
        // For a shard without blocks no write has prepared the target.
        target.prepare()?;
        let (ShardSpec { key, shards, started, .. }, site) = (&self.intent, &target.site);
        let filled = self.filled(target)?;
        let contents = filled.as_ref().map_or_else(|| self.contents(), Ok)?;
        debug_assert_eq!(self.hashed_blocks(), contents.blocks, "a block was hashed twice, or never");
        let (writes, allocation) = (target.writes(), target.allocation());
        debug_assert!(allocation.fits(contents), "a shard is larger than its room");
        let written_bytes = writes.total().bytes + target.in_place_bytes();
        let phases = PhaseRecord { writes: writes.total().count, written_bytes, ..self.phases() };
        // A shard that shares blocks may have fewer rows than there is room for.
        let rows = if target.is_delta() {
            blocks_for(contents.blocks * HASH_BYTES as u64) * BLOCK_BYTES
        } else {
            self.size().hash_bytes()
        };
        let mut described = self.hashes.read(rows, |rows| {
            let mut manifest = target.manifest(contents, rows);
            if let Some(profile) = &mut manifest.annex.profile
                && site.taken_over.is_none()
            {
                profile.writes = writes;
            }
            self.note_base(&manifest, allocation.meta.first * BLOCK_BYTES, rows);
            if let Some(base) = self.indexed().filter(|base| base.takes_long()) {
                // If no thread can be started, or the thread hits a bug, the next checkpoint does it.
                let make = move || drop(catch_unwind(AssertUnwindSafe(|| base.make_index())));
                drop(scope.spawn("mainstay-index", make));
            }
            let retained = &site.retained[..];
            Publication { key: *key, shards: *shards, manifest, allocation, retained, phases }
                .describe(rows, &site.portion)
        })?;
        debug_assert!(target.is_prepared() && self.outputs_are_synced(), "a shard is published too early");
        described.write(&site.portion)?;
        if let Some(TakenOver { phases, reads_shared }) = site.taken_over {
            described.keep_times(phases);
            target.read_back(&described, reads_shared)?;
            return described.publish(&mut lock(&site.ledger));
        }
        let mut ledger = lock(&site.ledger);
        let mut phases = described.publish(&mut ledger)?;
        // The program may have gone on only now.
        let PhaseRecord { perceived_ns, resume_ns, .. } = self.phases();
        let durable_ns = started.elapsed().as_nanos() as u64;
        phases = PhaseRecord { perceived_ns, resume_ns, durable_ns, ..phases };
        ledger.note(*key, phases);
        Ok(phases)
    }
}
