//! One checkpoint, from t1 to t2. What is left until t3 is the I/O threads'.

use super::{
    due::same_steps,
    entry::{Call, Entry},
    inner::Inner,
    settle::Attempt,
};
use crate::{
    capture::Size,
    clock::unix_ns,
    commit::{Allocation, Complete, RevisionKey},
    error::{Error, Result},
    group::agree,
    place::{Intent, Shard, Target},
    salvage::complete_dead,
    space::format::PhaseRecord,
    stage::{Hands, PoolInMaking, Staging, Way},
};
use std::time::Instant;

/// A revision between t1 and t2.
pub(super) struct Begun {
    number: u64,
    /// Or why nothing of it can be saved here.
    staging: Result<Staging>,
}

impl Begun {
    /// Why it cannot become a revision any more, if it cannot.
    pub(super) fn failure(&self) -> Option<Error> {
        match &self.staging {
            Ok(staging) => staging.shard().failure().cloned(),
            Err(error) => Some(error.clone()),
        }
    }
}

impl Inner {
    /// t1: the only communication of a checkpoint, which `call` begins. Collective.
    pub(super) fn begin(&mut self, call: Call, announced: u64, ready: Result<()>) -> Result<u64> {
        let started = Instant::now();
        let t1_unix_ns = unix_ns();
        let arrival = self.arrive(call)?;
        let before = self.saving.as_ref().and_then(Attempt::key);
        let (outputs, outputs_told) = match self.outputs.mark() {
            Ok(marked) => (marked, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let looked = self.regions.look();
        let size = Size::new(self.regions.all(), announced, self.policy.small_below, self.notes.all(), &outputs);
        // Holds if the other ranks' parts are durable too, as the all-reduce will tell.
        let complete = self.complete_with(before);
        let ready = ready.and(outputs_told).and(looked);
        let read = self.check_read(call);
        let room = if read.is_ok() { self.find_room(&size, &complete) } else { Ok(None) };
        let holds = self.changed_holds();

        let asked = Instant::now();
        let anything = !size.is_empty();
        let no_layout = matches!(room, Ok(None));
        let [a, b, c, d, e] = [ready.is_err(), room.is_err(), no_layout, anything, holds.is_some()].map(u64::from);
        let [highest, lowest] = self.due.steps();
        let [shard, chunk] = self.chunk_facts();
        let (entry, told) = self.enter(arrival, [a, b, c, d, e, highest, lowest, shard, chunk])?;
        let [facts @ .., highest, lowest, shard, chunk] = told.facts;
        let communication = asked.elapsed();
        self.forget_reading();
        let [not_ready, no_room, no_layout, anything, holds_changed] = facts.map(|fact| fact != 0);
        told.previous(self.group.with(&entry))?;
        same_steps([highest, lowest])?;
        if not_ready {
            return agree(self.group.with(&entry), ready.map(|()| 0));
        }
        read?;
        let (room, no_room) = if holds_changed { self.renew_holds(&entry, holds, &size)? } else { (room, no_room) };
        if !anything {
            // A layout made for nothing would have no room for what comes later.
            let why = "no rank protects anything, or has announced bytes to begin; protect regions first, or give begin \
                       the bytes that will be written";
            return Err(Error::argument("checkpoint", why));
        }
        if no_room && !self.leaves_layout() {
            return agree(self.group.with(&entry), room.map(|_| 0));
        }
        let allocation = if no_room {
            self.leave_layout(&entry, room)?;
            self.make_room(&entry, &size)?
        } else if no_layout {
            self.make_room(&entry, &size)?
        } else {
            room?.ok_or_else(lost_layout)?
        };
        self.has_other_boxes = false;
        if self.layouts.len() > 1 {
            self.drop_old_layouts();
        }

        let key = RevisionKey::new(self.lineage, self.next_number);
        self.next_number += 1;
        self.attempted = true;
        let phases =
            PhaseRecord { t1_unix_ns, communication_ns: communication.as_nanos() as u64, ..PhaseRecord::default() };
        let (shards, rank) = (self.group.size() as u32, self.group.rank() as u32);
        let intent = Intent { key, shards, shard: rank, size, outputs, started };
        // From here on the ranks go their own ways: what fails is remembered for all to learn.
        let staging = self.fit_pool([shard, chunk]).and_then(|()| self.stage(intent, allocation, phases));
        self.begun = Some(Begun { number: key.number, staging });
        Ok(key.number)
    }

    /// One piece of a stream. Local.
    pub(super) fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(mut begun) = self.begun.take() else {
            return Err(Error::argument("write", "no checkpoint has begun; call begin first, on all ranks"));
        };
        let written = match &mut begun.staging {
            Ok(staging) => {
                // Local: the rank that writes for this one does not listen.
                let way = if self.aggregators.is_member() { Way::RankLater } else { Way::Space };
                self.with_hands(way, |hands| staging.write(hands, name, offset, bytes, self.regions.all()))
            }
            Err(error) => Err(error.clone()),
        };
        if let (Err(error), Ok(staging)) = (&written, &begun.staging) {
            staging.shard().fail(error.clone());
        }
        self.begun = Some(begun);
        written
    }

    /// Saves the regions, after what was written in pieces; t2.
    pub(super) fn checkpoint(&mut self, ready: Result<()>) -> Result<u64> {
        let ready = match self.begun {
            // The program has gone on since t1.
            Some(_) => ready.and_then(|()| self.regions.look_again()),
            None => self.begin(Call::Checkpoint, 0, ready).map(drop),
        };
        self.finish(ready)
    }

    /// Ends what was begun, if anything was.
    pub(super) fn finish(&mut self, ready: Result<()>) -> Result<u64> {
        let Some(Begun { number, staging }) = self.begun.take() else { return ready.map(|()| 0) };
        self.stage_together(staging, ready).map(|()| number)
    }

    /// Stages what is left, for the I/O threads of this rank. Local.
    pub(super) fn stage_here(&mut self, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        let staging = staging.inspect_err(|error| self.saving = Some(Attempt::Failed(error.clone())))?;
        let saving = staging.shard().clone();
        self.with_hands(Way::Space, |hands| match ready {
            Ok(()) => staging.finish(hands, self.regions.all(), self.profile()),
            Err(error) => staging.abandon(hands, error),
        });
        let told = match saving.failure() {
            Some(error) => Err(error.clone()),
            None => saving.poll().unwrap_or(Ok(())),
        };
        self.saving = Some(Attempt::Running(saving));
        told
    }

    /// Gives up what was begun, and waits until nobody writes for it any more: what comes next may get the same blocks.
    /// Collective: the revision would be there on some ranks only.
    pub(super) fn abandon(&mut self) -> Result<()> {
        let had_begun = self.begun.is_some();
        let arrival = self.arrive(Call::Abandon)?;
        let (entry, told) = self.enter(arrival, [u64::from(!had_begun), u64::from(had_begun), 0, 0, 0, 0, 0, 0, 0])?;
        let group = self.group.with(&entry);
        let [some_had_not, some_had, ..] = told.facts.map(|fact| fact != 0);
        if !some_had {
            told.previous(group)?;
        }
        let nothing = || Error::argument("abandon", "no checkpoint has begun; call begin first, on all ranks");
        let given_up = if had_begun { Ok(()) } else { Err(nothing()) };
        if some_had_not { agree(group, given_up) } else { Ok(()) }
    }

    /// What was begun and not finished has failed, as after an exception that took the program past `checkpoint`. Perhaps
    /// on this rank alone: refused here, or dropped without a word, the others would wait for it, or take it for complete.
    /// The ranks that have finished are through with this.
    pub(super) fn fail_unfinished(&mut self) {
        if let Some(Begun { staging, .. }) = self.begun.take() {
            let why =
                "the checkpoint before was not finished, and is given up; end each with checkpoint, or with abandon";
            // Told by whatever settles it.
            let _ = self.stage_together(staging, Err(Error::argument("begin", why)));
        }
    }

    pub(super) fn check_not_begun(&self, call: &str) -> Result<()> {
        if self.begun.is_none() {
            return Ok(());
        }
        Err(Error::argument(
            call,
            "a checkpoint has begun; finish it with checkpoint, or give it up with abandon, first",
        ))
    }

    /// Where a stream of the checkpoint that has begun ends so far. Local.
    pub(super) fn written_bytes(&self, name: &str) -> Result<u64> {
        match &self.begun {
            Some(Begun { staging, .. }) => {
                staging.as_ref().map(|staging| staging.stream_bytes(name)).map_err(Error::clone)
            }
            None => Err(Error::argument("written_bytes", "no checkpoint has begun; call begin first, on all ranks")),
        }
    }

    /// A pool, and room in the portion beside what is `complete`. Local.
    pub(super) fn find_room(&mut self, size: &Size, complete: &[Complete]) -> Result<Option<Allocation>> {
        self.find_pool(size)?;
        self.allocate(size, complete)
    }

    /// The first checkpoint sizes the portions. Collective.
    fn make_room(&mut self, entry: &Entry, size: &Size) -> Result<Allocation> {
        self.make_layout(entry, size)?;
        let room = self.allocate(size, &self.complete).and_then(|room| room.ok_or_else(lost_layout));
        agree(self.group.with(entry), room)
    }

    fn stage(&mut self, intent: Intent, allocation: Allocation, phases: PhaseRecord) -> Result<Staging> {
        let ledger = self.current.as_ref().ok_or_else(lost_layout)?.ledger.clone();
        let retained = self.complete.iter().map(|complete| complete.key).collect();
        let target = Target::new(&*self.device, ledger, allocation, retained);
        let record = self.record.as_mut().map(|record| {
            let bytes = record.chunk_bytes();
            (record, bytes)
        });
        Staging::new(Shard::new(intent, vec![target], record, phases)?, self.policy)
    }

    pub(super) fn with_hands<T>(&self, way: Way<'_>, work: impl FnOnce(&Hands<'_>) -> T) -> T {
        let pool = self.pool.as_ref().map(PoolInMaking::pool);
        let reclaim = || {
            if let Some(pool) = pool {
                complete_dead(&[&*self.device], pool);
            }
        };
        work(&Hands { threads: &self.io, pool, reclaim: &reclaim, way })
    }
}

fn lost_layout() -> Error {
    Error::Internal { what: "a layout was made and is not there".to_owned() }
}
