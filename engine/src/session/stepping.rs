//! Decides at each step whether a checkpoint is due. After each checkpoint, updates the schedule and answers requests.

use super::{
    agreement::Agreement,
    diary::BegunAt,
    due::{Due, SignalFlag},
    entry::Call,
    epoch::Epoch,
    flag::EqualOnAllRanks,
    level::Level,
    program::Program,
    progress::early,
    requests::Listener,
    schedule::Schedule,
    state::SessionState,
};
use crate::{
    commit::RevisionKey,
    config::{Signal, WhenBusy},
    error::{Error, Result},
    ground::Instant,
    group::agree,
    remark::{Remark, remark},
    stage::TouchOrder,
};
use std::{mem::take, sync::atomic::Ordering, time::Duration};

static NO_RULE: Remark = Remark::new();
const NO_RULE_TEXT: &str = "no setting says when a checkpoint is due (every_steps, every_seconds, mtbf_seconds, \
                            checkpoint_signal): the program decides by itself, or `mainstay checkpoint` or \
                            `mainstay run` asks for one";

static DEAF: Remark = Remark::new();

fn deaf(signal: Option<Signal>) -> String {
    let name = signal.map_or("checkpoint_signal", Signal::name);
    format!(
        "the program has set a handler of its own for {name} since the session was opened: the signal no longer asks for a \
         checkpoint on each rank that did. Set the handler before the session is opened, and both are called"
    )
}

impl SessionState {
    /// Whether a checkpoint is due: `true` on all ranks, or on none.
    pub(super) fn due(&mut self, step: u64) -> Result<bool> {
        // Copies advance at each step, even if the ranks do not meet.
        self.progress()?;
        let puts_off = self.program.config.when_busy == WhenBusy::Later;
        let Program { due, tracing, regions, .. } = &mut self.program;
        tracing.iter_mut().for_each(|tracing| tracing.step(regions.all()));
        if let Some(early) = early(&mut self.resources.changing) {
            early.step(regions.all());
        }
        let by_steps = due.ask(step);
        let rank = self.epoch.group.rank();
        due.warn_without_rule(rank);
        if let Some(text) = due.look_back(step) {
            remark(rank, &text);
        }
        due.tally.asked += 1;
        // Only a meeting shows whether another rank's part is still being written.
        let meets = due.schedule.meets();
        let asks_all = puts_off && by_steps;
        if !meets && !asks_all {
            due.tally.found += u64::from(by_steps);
            return Ok(by_steps);
        }
        self.meet_about_due(Call::Due, by_steps)
    }

    /// Whether a checkpoint is due now, apart from any step: `true` on all ranks, or on none.
    pub(super) fn due_now(&mut self) -> Result<bool> {
        let due = &mut self.program.due;
        due.warn_without_rule(self.epoch.group.rank());
        due.tally.asked += 1;
        self.meet_about_due(Call::DueNow, false)
    }

    /// Whether this rank knows a reason for a checkpoint. Local.
    pub(super) fn is_due_here(&mut self) -> Result<bool> {
        self.move_on()?;
        let (rank, now) = (self.epoch.group.rank(), Instant::now());
        self.program.due.warn_without_rule(rank);
        if self.program.due.is_signalled() || rank != 0 {
            return Ok(self.program.due.is_signalled());
        }
        if self.program.due.looks_again(now) {
            self.hear_requests();
            self.program.due.listener.iter_mut().for_each(|listener| {
                listener.is_asked();
            });
        }
        let due = &self.program.due;
        if due.listener.as_ref().is_some_and(Listener::has_found) {
            return Ok(true);
        }
        let is_put_off =
            self.program.config.when_busy == WhenBusy::Later && self.levels.nearest().facts().busy.is_set();
        Ok(!is_put_off && due.schedule.is_time(now))
    }

    /// A meeting about a checkpoint: `true` on all ranks if one is due, or on none. `by_steps`: steps make it due.
    fn meet_about_due(&mut self, call: Call, by_steps: bool) -> Result<bool> {
        let puts_off = self.program.config.when_busy == WhenBusy::Later;
        let arrival = self.arrive(call)?;
        self.resources.tend_pool(&self.program.regions);
        self.resources.touch(&self.levels, TouchOrder::EndFirst);
        self.hear_requests();
        let (due, now) = (&mut self.program.due, Instant::now());
        let asked = due.is_signalled() | due.listener.as_mut().is_some_and(Listener::is_asked);
        if let Some(record) = self.levels.nearest_mut().last_record() {
            let ns = Duration::from_nanos;
            due.schedule.learn(ns(record.phases.perceived_ns), ns(record.phases.durable_ns));
        }
        let mut meeting = due.schedule.facts(asked, now);
        meeting.is_deaf = due.signal.as_ref().is_some_and(SignalFlag::is_replaced).into();
        let ready = self.program.ready();
        let (step, not_ready) = (EqualOnAllRanks::of(self.program.due.step), ready.is_err().into());
        let (entry, agreed) = self.enter(arrival, Agreement { meeting, step, not_ready, ..Agreement::default() })?;
        if agreed.all.not_ready.is_set() {
            return agree(self.epoch.group.with(&entry), ready.map(|()| false));
        }
        self.check_read(call)?;
        if agreed.all.meeting.is_deaf.is_set() {
            DEAF.make(self.epoch.group.rank(), || Some(deaf(self.program.config.checkpoint_signal)));
        }
        let due = &mut self.program.due;
        let is_asked = Schedule::is_asked(agreed.all.meeting);
        due.to_all |= is_asked;
        let decided = match call {
            Call::DueNow => due.schedule.decide_now(agreed.all.meeting),
            _ => due.schedule.decide(agreed.all.meeting, Instant::now()),
        };
        let is_due = decided | by_steps | due.put_off_at.is_some();
        due.same_steps(agreed.all.step)?;
        // A request is never put off, because its sender may be about to end the job.
        if is_due && !is_asked && puts_off && agreed.all.levels[0].busy.is_set() {
            due.put_off();
            return Ok(false);
        }
        due.put_off_at = None;
        due.tally.found += u64::from(is_due);
        Ok(is_due)
    }

    /// If the rank that heard requests is lost, its successor hears them. It does so even before the level of the
    /// requests is open.
    fn hear_requests(&mut self) {
        let farthest = self.later.as_ref().and_then(|later| later.plans.last());
        if let Some(farthest) = farthest.filter(|_| self.program.due.listener.is_none()) {
            let Epoch { group, lineage, .. } = &self.epoch;
            self.program.due.listener = Listener::begin(group.rank(), &*farthest.device, *lineage);
        }
    }

    /// Runs `work`, which waits for checkpoints, and counts its time neither in a trace nor in the length of a step.
    pub(super) fn untraced<T>(&mut self, work: impl FnOnce(&mut SessionState) -> T) -> T {
        let begun = Instant::now();
        let done = work(self);
        self.program.due.schedule.leave_out(begun);
        self.program.tracing.iter().for_each(|tracing| tracing.leave_out(begun));
        done
    }

    /// Takes a checkpoint by `save`, updates the schedule, and answers requests from outside.
    pub(super) fn answering(&mut self, save: impl FnOnce(&mut SessionState) -> Result<u64>) -> Result<u64> {
        let started = Instant::now();
        let Program { due, tracing, regions, .. } = &mut self.program;
        tracing.iter_mut().for_each(|tracing| tracing.checkpoint(regions.all()));
        due.begin(started);
        due.tally.begun += 1;
        let was_asked_for = due.to_all;
        let raised = due.signal.as_ref().map(|signal| signal.raised.clone());
        // Signals from here on ask for the next checkpoint.
        let signalled = raised.as_ref().is_some_and(|raised| raised.swap(false, Ordering::Relaxed));
        let saved = self.untraced(save);
        // The sender of a request may be about to end the job. So only a revision that goes to all levels is an answer.
        let goes_to = |level: &Level, key| level.is_former() || level.feeding.under_feed == Some(key) || level.has(key);
        let answers = saved.as_ref().is_ok_and(|number| {
            let key = RevisionKey::new(self.epoch.lineage, *number);
            was_asked_for || self.levels.iter().skip(1).all(|level| goes_to(level, key))
        });
        // The time until t3 is recorded later. A failed checkpoint has a cost too, and the next one waits its time.
        let due = &mut self.program.due;
        due.schedule.learn(started.elapsed(), Duration::ZERO);
        let put_off = take(&mut due.times_put_off);
        if let Ok(number) = &saved {
            let key = RevisionKey::new(self.epoch.lineage, *number);
            due.last_saved_at = due.step;
            let step = Some(due.step).filter(|step| *step > 0);
            let saved_early = self.resources.changing.as_ref().and_then(|changing| changing.saved_early);
            if let Some(reporter) = &mut self.announcer.reporter {
                reporter.put_off = due.all_times_put_off;
            }
            if let Some(diary) = &mut self.announcer.diary {
                diary.begun(key, BegunAt { step, saved_early, put_off });
            }
        }
        match (&saved, &mut due.listener) {
            (Ok(number), Some(listener)) if answers => listener.answer(self.epoch.lineage, *number),
            _ => {}
        }
        if signalled && !answers {
            raised.iter().for_each(|raised| raised.store(true, Ordering::Relaxed));
        }
        self.tell();
        saved
    }
}

impl Due {
    /// Warns once if no setting ever makes a checkpoint due.
    fn warn_without_rule(&self, rank: usize) {
        if !self.has_rule() {
            NO_RULE.make(rank, || Some(NO_RULE_TEXT.to_owned()));
        }
    }

    /// Refuses ranks at different steps: together they would save a mixture.
    pub(super) fn same_steps(&mut self, step: EqualOnAllRanks) -> Result<()> {
        if step.is_so() {
            return Ok(());
        }
        let (highest, lowest) = (step.highest(), step.lowest());
        self.agree_on(highest);
        let why = format!("the ranks call it with steps {lowest} to {highest}; call it on all ranks at the same step");
        Err(Error::argument("due", why))
    }
}
