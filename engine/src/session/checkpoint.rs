//! One checkpoint, from t1 to t2. What is left until t3 is the I/O threads'.

use super::{
    agreement::{Agreement, Alike},
    due::same_steps,
    entry::{Call, Entry},
    holds::Asked,
    inner::Inner,
    reading::Reading,
    settle::Attempt,
};
use crate::{
    capture::Size,
    clock::unix_ns,
    commit::{Allocation, Complete},
    error::{Error, Result},
    group::agree,
    place::Intent,
    space::format::PhaseRecord,
    stage::Staging,
};
use std::time::Instant;

/// A revision between t1 and t2.
pub(super) struct Begun {
    number: u64,
    /// Or why nothing of it can be saved here.
    pub(super) staging: Result<Staging>,
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
        let Inner { program, means, epoch, levels } = self;
        let level = levels.nearest_mut();
        let before = level.saving.as_ref().and_then(Attempt::key);
        let (outputs, outputs_told) = match program.outputs.mark() {
            Ok(marked) => (marked, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let looked = program.regions.look();
        let size = Size::new(program.regions.all(), announced, means.policy.small_below, program.notes.all(), &outputs);
        // Holds if the other ranks' parts are durable too, as the all-reduce will tell.
        let complete = level.complete_with(before, epoch.group.size());
        let ready = ready.and(outputs_told).and(looked);
        let read = self.check_read(call);
        let room = if read.is_ok() { self.find_room(&size, &complete) } else { Ok(None) };
        let holds = self.levels.nearest_mut().changed_holds(&self.epoch);

        let asked = Instant::now();
        let mine = Agreement {
            step: Alike::of(self.program.due.step),
            not_ready: ready.is_err().into(),
            no_room: room.is_err().into(),
            no_layout: matches!(room, Ok(None)).into(),
            anything: (!size.is_empty()).into(),
            holds_changed: holds.is_some().into(),
            chunk: self.means.chunk_facts(),
            ..Agreement::default()
        };
        let (entry, told) = self.enter(arrival, mine)?;
        let all = told.all;
        let communication = asked.elapsed();
        self.program.reading = Reading::Over;
        told.previous(self.epoch.group.with(&entry))?;
        same_steps(all.step)?;
        if all.not_ready.is_set() {
            return agree(self.epoch.group.with(&entry), ready.map(|()| 0));
        }
        read?;
        let (room, no_room) = if all.holds_changed.is_set() {
            self.renew_holds(&entry, holds, &size)?
        } else {
            (room, all.no_room.is_set())
        };
        if !all.anything.is_set() {
            // A layout made for nothing would have no room for what comes later.
            let why = "no rank protects anything, or has announced bytes to begin; protect regions first, or give begin \
                       the bytes that will be written";
            return Err(Error::argument("checkpoint", why));
        }
        let (group, level) = (self.epoch.group.with(&entry), self.levels.nearest_mut());
        if no_room && !level.leaves_layout() {
            return agree(group, room.map(|_| 0));
        }
        let allocation = if no_room {
            level.leave_layout(&self.epoch, &entry, room)?;
            self.make_room(&entry, &size)?
        } else if all.no_layout.is_set() {
            self.make_room(&entry, &size)?
        } else {
            room?.ok_or_else(lost_layout)?
        };
        let level = self.levels.nearest_mut();
        level.has_other_boxes = false;
        level.drop_old_layouts(self.epoch.group.rank());

        let key = self.epoch.next();
        let phases =
            PhaseRecord { t1_unix_ns, communication_ns: communication.as_nanos() as u64, ..PhaseRecord::default() };
        let (shards, rank) = (self.epoch.group.size() as u32, self.epoch.group.rank() as u32);
        let intent = Intent { key, shards, shard: rank, size, outputs, started };
        // From here on the ranks go their own ways: what fails is remembered for all to learn.
        let sites = level.site(allocation).ok_or_else(lost_layout).map(|site| self.epoch.road.writers(site));
        let staging = self.means.fit_pool(all.chunk).and_then(|()| self.means.stage(intent, sites?, phases));
        self.program.begun = Some(Begun { number: key.number, staging });
        Ok(key.number)
    }

    /// One piece of a stream. Local.
    pub(super) fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(mut begun) = self.program.begun.take() else {
            return Err(Error::argument("write", "no checkpoint has begun; call begin first, on all ranks"));
        };
        let written = match &mut begun.staging {
            Ok(staging) => self.with_outlet(|hands, regions| staging.write(hands, name, offset, bytes, regions)),
            Err(error) => Err(error.clone()),
        };
        if let (Err(error), Ok(staging)) = (&written, &begun.staging) {
            staging.shard().fail(error.clone());
        }
        self.program.begun = Some(begun);
        written
    }

    /// Saves the regions, after what was written in pieces; t2.
    pub(super) fn checkpoint(&mut self, ready: Result<()>) -> Result<u64> {
        let ready = match self.program.begun {
            // The program has gone on since t1.
            Some(_) => ready.and_then(|()| self.program.regions.look_again()),
            None => self.begin(Call::Checkpoint, 0, ready).map(drop),
        };
        self.finish(ready)
    }

    /// Ends what was begun, if anything was.
    pub(super) fn finish(&mut self, ready: Result<()>) -> Result<u64> {
        let Some(Begun { number, staging }) = self.program.begun.take() else { return ready.map(|()| 0) };
        self.stage_together(staging, ready).map(|()| number)
    }

    /// Stages what is left, for all that save it. Collective.
    pub(super) fn stage(&mut self, staging: Staging, ready: Result<()>) -> Result<()> {
        let (saving, profile) = (staging.shard().clone(), self.profile());
        self.with_outlet(|hands, regions| match ready {
            Ok(()) => staging.finish(hands, regions, profile),
            Err(error) => staging.abandon(hands, error),
        });
        let told = match saving.failure() {
            Some(error) => Err(error.clone()),
            None => saving.poll().unwrap_or(Ok(())),
        };
        self.levels.nearest_mut().saving = Some(Attempt::Running(saving));
        told
    }

    /// Gives up what was begun, and waits until nobody writes for it any more: what comes next may get the same blocks.
    /// Collective: the revision would be there on some ranks only.
    pub(super) fn abandon(&mut self) -> Result<()> {
        let had_begun = self.program.begun.is_some();
        let arrival = self.arrive(Call::Abandon)?;
        let mine =
            Agreement { had_begun: had_begun.into(), had_not_begun: (!had_begun).into(), ..Agreement::default() };
        let (entry, told) = self.enter(arrival, mine)?;
        let group = self.epoch.group.with(&entry);
        let all = told.all;
        if !all.had_begun.is_set() {
            told.previous(group)?;
        }
        let nothing = || Error::argument("abandon", "no checkpoint has begun; call begin first, on all ranks");
        let given_up = if had_begun { Ok(()) } else { Err(nothing()) };
        if all.had_not_begun.is_set() { agree(group, given_up) } else { Ok(()) }
    }

    /// What was begun and not finished has failed, as after an exception that took the program past `checkpoint`. Perhaps
    /// on this rank alone: refused here, or dropped without a word, the others would wait for it, or take it for complete.
    /// The ranks that have finished are through with this.
    pub(super) fn fail_unfinished(&mut self) {
        if let Some(Begun { staging, .. }) = self.program.begun.take() {
            let why =
                "the checkpoint before was not finished, and is given up; end each with checkpoint, or with abandon";
            // Told by whatever settles it.
            let _ = self.stage_together(staging, Err(Error::argument("begin", why)));
        }
    }

    /// A pool, and room in the portion beside what is `complete`. Local.
    fn find_room(&mut self, size: &Size, complete: &[Complete]) -> Result<Option<Allocation>> {
        self.means.find_pool(size, &self.program.regions)?;
        self.levels.nearest().allocate(size, complete)
    }

    /// Has all ranks keep what is held now, and looks for room for a shard of `size` again. Returns this rank's room, and
    /// whether any rank has none. Collective.
    fn renew_holds(
        &mut self,
        entry: &Entry,
        asked: Option<Vec<Asked>>,
        size: &Size,
    ) -> Result<(Result<Option<Allocation>>, bool)> {
        let (group, level) = (self.epoch.group.with(entry), self.levels.nearest_mut());
        level.renew_holds(group, self.epoch.next_number, asked, size)?;
        let complete = level.complete.clone();
        let room = self.find_room(size, &complete);
        let mut lacking = [u64::from(room.is_err())];
        self.epoch.group.with(entry).all_max(&mut lacking)?;
        self.levels.nearest_mut().acknowledge(&self.epoch);
        Ok((room, lacking == [1]))
    }

    /// The first checkpoint sizes the portions. Collective.
    fn make_room(&mut self, entry: &Entry, size: &Size) -> Result<Allocation> {
        let (epoch, level) = (&mut self.epoch, self.levels.nearest_mut());
        let files = level.make_layout(epoch, entry, size)?;
        let group = epoch.group.with(entry);
        epoch.road.open(group, &*level.device, |rank| files.get(rank).cloned())?;
        let room = level.allocate(size, &level.complete).and_then(|room| room.ok_or_else(lost_layout));
        agree(group, room)
    }
}

fn lost_layout() -> Error {
    Error::Internal { what: "a layout was made and is not there".to_owned() }
}
