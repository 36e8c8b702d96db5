//! One checkpoint, from t1 to t2. What is left until t3 is the I/O threads'.

use super::due::same_steps;
use super::{inner::Inner, settle::Attempt};
use crate::{
    capture::Stream,
    clock::unix_ns,
    commit::{Allocation, Complete, RevisionKey},
    error::{Error, Result},
    group::agree,
    place::{Plan, Saving},
    space::format::PhaseRecord,
    stage::{PoolInMaking, stage_pool, write_direct},
};
use std::{sync::Arc, time::Instant};

impl Inner {
    pub(super) fn checkpoint(&mut self, ready: Result<()>) -> Result<u64> {
        let started = Instant::now();
        self.forget_reading();
        let t1_unix_ns = unix_ns();
        let previous = self.settle();
        let before = self.saving.as_ref().and_then(Attempt::key);
        let (outputs, outputs_told) = match self.outputs.mark() {
            Ok(marked) => (marked, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let stream = Stream::new(self.regions.all(), self.notes.all(), outputs);
        // Holds if the other ranks' parts are durable too, as the all-reduce will tell.
        let complete = self.complete_with(before);
        let ready = ready.and(outputs_told);
        let room = self.find_room(&stream, &complete);
        let holds = self.changed_holds();

        let asked = Instant::now();
        let anything = !self.regions.all().is_empty();
        let no_layout = matches!(room, Ok(None));
        let facts = [previous.is_err(), ready.is_err(), room.is_err(), no_layout, anything, holds.is_some()];
        let [a, b, c, d, e, f] = facts.map(u64::from);
        let [highest, lowest] = self.due.steps();
        let mut numbers = [a, b, c, d, e, f, highest, lowest];
        self.group.all_max(&mut numbers)?;
        let [facts @ .., highest, lowest] = numbers;
        let communication = asked.elapsed();
        let [previous_failed, not_ready, no_room, no_layout, anything, holds_changed] = facts.map(|fact| fact != 0);
        self.saving = None;
        if previous_failed {
            return agree(&*self.group, previous.map(|()| 0));
        }
        self.complete = complete;
        same_steps([highest, lowest])?;
        if not_ready {
            return agree(&*self.group, ready.map(|()| 0));
        }
        let (room, no_room) = if holds_changed {
            self.renew_holds(holds, |session| session.find_room(&stream, &session.complete.clone()))?
        } else {
            (room, no_room)
        };
        if !anything {
            // A layout made for nothing would have no room for what comes later.
            return Err(Error::argument("checkpoint", "no rank protects anything; protect regions first"));
        }
        if no_room {
            return agree(&*self.group, room.map(|_| 0));
        }
        let allocation = if no_layout { self.make_room(&stream)? } else { room?.ok_or_else(lost_layout)? };
        if self.layouts.len() > 1 {
            self.drop_old_layouts();
        }

        let key = RevisionKey::new(self.lineage, self.next_number);
        self.next_number += 1;
        self.attempted = true;
        let phases =
            PhaseRecord { t1_unix_ns, communication_ns: communication.as_nanos() as u64, ..PhaseRecord::default() };
        let plan = Plan {
            key,
            shards: self.group.size() as u32,
            stream,
            allocation,
            retained: self.complete.iter().map(|complete| complete.key).collect(),
            started,
        };
        let staged = self.stage(plan, phases);
        // From here on the ranks go their own ways: what fails is remembered for all to learn.
        let told = match &staged {
            Attempt::Failed(error) => Err(error.clone()),
            Attempt::Running(saving) => saving.poll().unwrap_or(Ok(())),
        };
        self.saving = Some(staged);
        told.map(|()| key.number)
    }

    /// A pool, and room in the portion beside what is `complete`. Local.
    fn find_room(&mut self, stream: &Stream, complete: &[Complete]) -> Result<Option<Allocation>> {
        self.pool.as_mut().map_or(Ok(()), |pool| pool.get().map(drop))?;
        self.allocate(stream, complete)
    }

    /// The first checkpoint sizes the portions. Collective.
    fn make_room(&mut self, stream: &Stream) -> Result<Allocation> {
        self.make_layout(stream)?;
        let room = self.allocate(stream, &self.complete).and_then(|room| room.ok_or_else(lost_layout));
        agree(&*self.group, room)
    }

    fn stage(&mut self, plan: Plan, phases: PhaseRecord) -> Attempt {
        let Some(current) = &self.current else { return Attempt::Failed(lost_layout()) };
        let saving = match Saving::new(plan, current.ledger.clone(), phases) {
            Ok(saving) => Arc::new(saving),
            Err(error) => return Attempt::Failed(error),
        };
        let (stream, regions) = (saving.stream(), self.regions.all());
        match self.pool.as_mut().map(PoolInMaking::get) {
            Some(Ok(pool)) => {
                saving.note_staged(stage_pool(stream, regions, &saving, pool, &self.io));
                self.io.all_staged(&saving);
            }
            Some(Err(error)) => return Attempt::Failed(error),
            None => {
                match write_direct(stream, regions, &saving) {
                    Ok(staged) => saving.note_staged(staged),
                    Err(error) => saving.fail(error),
                }
                saving.commit();
            }
        }
        Attempt::Running(saving)
    }
}

fn lost_layout() -> Error {
    Error::Internal { what: "a layout was made and is not there".to_owned() }
}
