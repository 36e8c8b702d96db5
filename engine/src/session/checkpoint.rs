//! One checkpoint, from t1 to t2. The I/O threads do the rest, until t3.

use super::{
    agreement::{Agreement, LEVELS_MAX, LevelFacts},
    attempt::Attempt,
    begun::Begun,
    changed::{Changed, Changing, PlannedShard},
    copying::swap_sizes,
    entry::Call,
    flag::Alike,
    inner::Inner,
    level::{Level, LevelKind, lost_layout},
    outputs::compare_outputs,
    reading::Reading,
    room::{RoomSought, ShardSizes},
};
use crate::{
    capture::{Size, size_elsewhere, size_to_lead, tell_of_pointers},
    commit::RevisionKey,
    error::{Error, Result},
    feed::Source,
    ground::{Instant, unix_ns},
    group::agree,
    place::{Intent, Shard, Site},
    space::format::PhaseRecord,
    stage::{Publisher, Staging, TouchOrder},
};
use std::sync::Arc;

impl Inner {
    /// t1 of the checkpoint that `call` begins, with its only communication. Collective.
    pub(super) fn begin(&mut self, call: Call, announced: u64, ready: Result<()>) -> Result<u64> {
        let started = Instant::now();
        let t1_unix_ns = unix_ns();
        let to_all = self.program.due.to_all;
        if to_all {
            // No level is to be busy when its turn comes.
            self.levels.split().1.iter_mut().for_each(|level| drop(level.settle()));
        }
        let arrival = self.arrive(call)?;
        // A checkpoint waits for no disk.
        self.finish_copies(call, Some(LevelKind::Memory))?;
        self.open_later_in(call)?;
        let Inner { program, means, .. } = self;
        let (outputs, outputs_told) = match program.outputs.mark() {
            Ok(marked) => (marked, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let new_outputs = program.outputs.look_for_new().into();
        let had = means.pooled_bytes_of_heap(&program.regions);
        let looked = program.look();
        means.foresee(means.pooled_bytes_of_heap(&program.regions).saturating_sub(had));
        let size = Size::new(program.regions.all(), announced, means.policy.small_below, program.notes.all(), &outputs);
        let ready = ready.and(outputs_told).and(looked);
        let read = self.check_read(call);
        let (number, ranks) = (self.epoch.next_number, self.epoch.group.size());
        // What is written from here on may be written anywhere.
        self.means.changing.iter_mut().for_each(Changing::stop_early);
        // Between begin and checkpoint the program goes on, and may change what was found clean.
        let changing = self.means.changing.as_mut().filter(|_| call != Call::Begin && read.is_ok() && ready.is_ok());
        let small_below = self.means.policy.small_below;
        let fills_later = self.means.policy.publisher == Publisher::Threads;
        let planned = changing.map_or(Ok(None), |changing| {
            let regions = self.program.regions.all();
            changing.plan((self.levels.nearest(), number, fills_later), ranks, regions, &size, small_below)
        });
        let (planned, ready) = match planned {
            Ok(planned) => (planned, ready),
            Err(error) => (None, Err(error)),
        };
        // What changed of what comes later is found out then.
        let to_lead = self.means.changing.as_ref().filter(|_| call == Call::Begin).map(|_| size_to_lead(&size));
        let whole = match &self.means.changing {
            Some(_) => {
                let least = size.at_least(to_lead.as_ref().map_or(0, Size::bytes));
                let elsewhere =
                    |planned: Option<&PlannedShard>| size_elsewhere(&least, planned.map(|planned| &planned.plan));
                // Which of the two it is shows only once there is room.
                let without = planned.as_ref().and_then(|planned| planned.without.as_deref());
                let whole = elsewhere(planned.as_ref());
                without.map_or_else(|| whole.clone(), |without| whole.at_least(elsewhere(Some(without)).bytes()))
            }
            None => size.clone(),
        };
        let nearest =
            ShardSizes { planned: planned.as_ref(), to_lead: to_lead.as_ref(), ..ShardSizes::of_owner(&size) };
        let sizes = ShardSizes::of_owner(&whole);
        let pool = if read.is_ok() { self.means.find_pool(&size, &self.program.regions) } else { Ok(()) };
        let mut levels = [LevelFacts::default(); LEVELS_MAX];
        let mut rooms = Vec::new();
        for (index, level) in self.levels.iter_mut().enumerate() {
            // A holder is told only after the all-reduce how large the shards are.
            let has_turn = index == 0 || !level.is_copy() && level.takes(number, to_all);
            let looks = read.is_ok() && has_turn;
            let sizes = if index == 0 { nearest } else { sizes };
            let look = if looks { level.look_for_room(index == 0, sizes, &self.epoch) } else { RoomSought::NoTurn };
            let look = if index == 0 { look.with(&pool) } else { look };
            levels[index] = look.facts();
            rooms.push(look);
        }

        let asked = Instant::now();
        let mine = Agreement {
            step: Alike::of(self.program.due.step),
            levels,
            not_ready: ready.is_err().into(),
            new_outputs,
            anything: (!size.is_empty()).into(),
            chunk: self.means.chunk_facts(),
            early_batch_us: self.means.changing.as_ref().map_or(0, Changing::early_batch_us),
            ..Agreement::default()
        };
        let (entry, told) = self.enter(arrival, mine)?;
        let all = told.all;
        let communication = asked.elapsed();
        self.means.changing.iter().for_each(|changing| changing.begin_turns(all.early_batch_us));
        self.program.reading = Reading::Over;
        self.program.shards = Default::default();
        self.levels.iter_mut().for_each(Level::forget_fetched);
        self.remark_unsaved(&entry);
        let previous = told.untold(self.epoch.group.with(&entry));
        self.levels.nearest_mut().failing.because(&previous);
        previous?;
        self.program.due.same_steps(all.step)?;
        if all.not_ready.is_set() {
            return agree(self.epoch.group.with(&entry), ready.map(|()| 0));
        }
        if all.new_outputs.is_set() {
            compare_outputs(self.epoch.group.with(&entry), &mut self.program.outputs)?;
        }
        read?;
        if !all.anything.is_set() {
            // A layout made for nothing would have no room for what comes later.
            let why = "no rank protects anything, or has announced bytes to begin; protect regions first, or give begin \
                       the bytes that will be written";
            return Err(Error::argument("checkpoint", why));
        }
        let mut rooms = rooms.into_iter().zip(&all.levels);
        let (room, facts) = rooms.next().ok_or_else(lost_layout)?;
        let (level, farther) = self.levels.split();
        let room = room.found().ok_or_else(lost_layout)?;
        let again = |level: &Level, grows| pool.clone().and_then(|()| level.allocate(nearest, &level.complete, grows));
        let found = level.agree_on_room(&self.epoch, &entry, room, facts, nearest, &again);
        if let Err(error) = &found {
            level.failing.again(&Err(error.clone()));
        }
        let allocation = found?.swap_remove(0);
        let mut feeds = Vec::new();
        for ((index, level), (room, facts)) in (1..).zip(farther).zip(rooms) {
            if !level.takes(number, to_all) {
                continue;
            }
            if level.is_copy() && level.under_feed.is_some() {
                level.pass_over(RevisionKey::new(self.epoch.lineage, self.epoch.next_number));
                continue;
            }
            let (found, sizes) = if level.is_copy() {
                let group = self.epoch.group.with(&entry);
                let told = swap_sizes(group, &mut self.epoch.post, level, &whole, &entry)?;
                (level.have_room_or_note(&self.epoch, &entry, ShardSizes::of_writer(&whole, &told))?, told)
            } else {
                (level.take_turn(&self.epoch, &entry, room, facts, sizes)?, vec![whole.clone()])
            };
            if let Some(found) = found {
                let sites = (0..).zip(found).map(|(written, allocation)| level.site(written, allocation));
                let sites = sites.collect::<Option<Vec<Site>>>().ok_or_else(lost_layout)?;
                feeds.push((index, sites.into_iter().zip(sizes).collect()));
            }
        }
        let key = self.epoch.next();
        self.program.divided = self.program.regions.divided();
        tell_of_pointers(self.epoch.group.rank(), &self.program.regions);
        self.program.due.to_all = false;
        let (_, farther) = self.levels.split();
        feeds.iter().for_each(|(index, _)| farther[*index - 1].under_feed = Some(key));
        self.levels.keep_for_feeding((!feeds.is_empty()).then_some(key));
        let phases = PhaseRecord {
            t1_unix_ns,
            step: self.program.due.step,
            communication_ns: communication.as_nanos() as u64,
            ..PhaseRecord::default()
        };
        let (shards, rank) = (self.epoch.group.size() as u32, self.epoch.group.rank() as u32);
        // Where no room was found for what changed alone, there is some for all.
        let planned = planned.and_then(|planned| planned.for_room(&allocation));
        let leads_to_early = planned.as_ref().is_some_and(|planned| !planned.early.is_empty());
        let (base, plan) = planned.map(|PlannedShard { base, plan, .. }| (base, plan)).unzip();
        let size = to_lead.filter(|size| allocation.is_for(size, &[])).map_or((size, false), |size| (size, true));
        let (size, is_late) = size;
        let changing = self.means.changing.as_mut().filter(|_| is_late);
        let compared = changing.map(|changing| changing.compared(self.levels.nearest()));
        let base = base.or_else(|| compared.as_ref().map(|compared| compared.base.clone()));
        let mut size = plan.as_ref().map_or(size, |plan| plan.size.clone());
        size.annex.saved_early =
            self.means.changing.as_mut().and_then(|changing| changing.tell_saved_early(leads_to_early));
        let outlines = self.means.changing.as_ref().map(Changing::outlines);
        let changed = outlines.map(|outlines| Changed { base, plan, is_late, is_indexed: outlines && fills_later });
        let intent = Intent { key, shards, shard: rank, size, outputs, started };
        // From here on each rank goes its own way: a failure is remembered, and a later call tells all ranks.
        let site = self.levels.nearest().site(0, allocation).ok_or_else(lost_layout);
        let staging =
            self.means.fit_pool(all.chunk, key.number).and_then(|()| self.means.stage(intent, site?, phases, changed));
        self.program.begun = Some(Begun { number: key.number, staging, feeds, compared });
        Ok(key.number)
    }

    /// Stages one piece of a stream. Local.
    pub(super) fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(mut begun) = self.program.begun.take() else {
            return Err(Error::argument("write", "no checkpoint has begun; call begin first, on all ranks"));
        };
        let written = match &mut begun.staging {
            Ok(staging) => {
                let regions = self.program.regions.all();
                self.means.with_hands(&self.levels, |hands| staging.write(hands, name, offset, bytes, regions))
            }
            Err(error) => Err(error.clone()),
        };
        if let (Err(error), Ok(staging)) = (&written, &begun.staging) {
            staging.shard().fail(error.clone());
        }
        self.program.begun = Some(begun);
        written
    }

    /// Saves the regions, after the pieces that were written before; returns at t2.
    pub(super) fn checkpoint(&mut self, ready: Result<()>) -> Result<u64> {
        let ready = match self.program.begun {
            // The program has gone on since t1, and may have moved its regions.
            Some(_) => ready.and_then(|()| self.program.look_again()),
            None => self.begin(Call::Checkpoint, 0, ready).map(drop),
        };
        self.finish(ready)
    }

    /// Finishes the checkpoint that was begun, if one was.
    pub(super) fn finish(&mut self, ready: Result<()>) -> Result<u64> {
        let Some(begun) = self.program.begun.take() else { return ready.map(|()| 0) };
        let Begun { number, mut staging, feeds, compared } = begun;
        let mut ready = ready;
        if let (Some(compared), Some(changing), Ok(staging), Ok(())) =
            (&compared, &mut self.means.changing, &mut staging, &ready)
        {
            let (regions, whole) = (self.program.regions.all(), staging.shard().size().clone());
            let plan = changing.plan_late(compared, number, regions, &whole, self.means.policy.small_below);
            match plan {
                Ok(plan) => staging.plan_regions(plan),
                Err(error) => ready = Err(error),
            }
        }
        let source = staging.as_ref().map(|staging| staging.shard().clone()).map_err(Error::clone);
        if let (Some(changing), Ok(shard)) = (&mut self.means.changing, &source) {
            changing.staged(shard, self.levels.nearest(), self.program.regions.all());
        }
        let told = self.stage(staging, ready);
        self.program.knows_failure = told.is_err();
        // The journal tells it too, unless the job is killed before that is written.
        if let (Some(report), Ok(shard), Ok(())) = (&self.report, &source, &told) {
            let key = RevisionKey::new(self.epoch.lineage, number);
            report.checkpoint(key, shard.phases().perceived_ns);
        }
        self.feed(told.clone().and(source), feeds);
        // From the second revision on the pages are at hand.
        self.means.touch(&self.levels, TouchOrder::EndFirst);
        // Other copies go on their way later: to take them here would keep the program as long as those who have nothing to wait for
        // send.
        self.copy_now(Call::Checkpoint).and(told).map(|()| number)
    }

    /// Has the farther levels of `feeds` fed from `source`; a level that cannot be fed notes why.
    fn feed(&mut self, source: Result<Arc<Shard>>, feeds: Vec<(usize, Vec<(Site, Size)>)>) {
        let (_, farther) = self.levels.split();
        for (index, mut sites) in feeds {
            let level = &mut farther[index - 1];
            level.saving = Some(match level.under_feed.filter(|_| level.is_copy()) {
                Some(key) => {
                    let source = Some(source.clone().map(Source::UnderWay));
                    let (post, rank) = (&mut self.epoch.post, self.epoch.group.rank());
                    let wards = level.writers.shards_of(rank).into_iter().zip(sites);
                    let sites = wards.map(|(ward, (site, size))| (ward, site, size)).collect();
                    Attempt::Copying(level.begin_copying(post, (index, rank), key, source, sites))
                }
                None => {
                    let (site, size) = sites.swap_remove(0);
                    let fed =
                        source.clone().and_then(|source| self.means.feed(index, Source::UnderWay(source), size, site));
                    fed.map_or_else(Attempt::Failed, Attempt::Running)
                }
            });
        }
    }

    /// Stages the rest of the shard that `staging` began; gives the shard up if `ready` is an error.
    fn stage(&mut self, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        let staging = staging.inspect_err(|error| {
            self.means.end_copying();
            self.levels.nearest_mut().saving = Some(Attempt::Failed(error.clone()));
        })?;
        let (saving, profile, regions) = (staging.shard().clone(), self.profile(), self.program.regions.all());
        self.means.with_hands(&self.levels, |hands| match ready {
            Ok(()) => staging.finish(hands, regions, profile),
            Err(error) => staging.abandon(hands, error),
        });
        let outcome = match saving.failure() {
            Some(error) => Err(error.clone()),
            None => saving.poll().unwrap_or(Ok(())),
        };
        self.levels.nearest_mut().saving = Some(Attempt::Running(saving));
        outcome
    }

    /// Gives up the checkpoint that was begun, and waits until nobody writes for it any more: the next one may get the
    /// same blocks. Collective, as the revision would otherwise be there on some ranks only.
    pub(super) fn abandon(&mut self) -> Result<()> {
        let had_begun = self.program.begun.is_some();
        let arrival = self.arrive(Call::Abandon)?;
        let ready = self.program.ready();
        let (not_ready, had_not_begun) = (ready.is_err().into(), (!had_begun).into());
        let mine = Agreement { not_ready, had_begun: had_begun.into(), had_not_begun, ..Agreement::default() };
        let (entry, told) = self.enter(arrival, mine)?;
        let group = self.epoch.group.with(&entry);
        let all = told.all;
        if !all.had_begun.is_set() {
            told.previous(group)?;
        }
        let nothing = || Error::argument("abandon", "no checkpoint has begun; call begin first, on all ranks");
        let given_up = ready.and(if had_begun { Ok(()) } else { Err(nothing()) });
        if all.had_not_begun.is_set() || all.not_ready.is_set() { agree(group, given_up) } else { Ok(()) }
    }

    /// Fails a checkpoint that was begun and not finished, as after an exception that took the program past
    /// `checkpoint`. That may have happened on this rank alone: if this rank refused the call, the others would wait
    /// for it; if it dropped the checkpoint without a word, they would take it for complete. Ranks that have finished
    /// the checkpoint are past this step.
    pub(super) fn fail_unfinished(&mut self) {
        if let Some(Begun { staging, feeds, .. }) = self.program.begun.take() {
            let why =
                "the checkpoint before was not finished, and is given up; end each with checkpoint, or with abandon";
            let given_up = Error::argument("begin", why);
            // The error is told by whichever call settles the revision.
            let _ = self.stage(staging, Err(given_up.clone()));
            self.program.knows_failure = false;
            // Holders wait for what was announced at t1; nobody waits for the other levels.
            let copies = feeds.into_iter().filter(|(index, _)| self.levels.at(*index).is_copy()).collect();
            self.feed(Err(given_up), copies);
        }
    }
}
