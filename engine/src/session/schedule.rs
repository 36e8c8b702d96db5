//! Decides when a checkpoint is due, and when the ranks meet to find out.
//!
//! A rule that counts steps needs no messages: all ranks count the same. Time rules, and requests from outside, are
//! decided in *meetings*: one small all-reduce, after which all ranks know the same. Each meeting also sets the number
//! of calls until the next one. So all ranks meet at the same call, about every `agree_every`, and a step in between
//! costs only a count.
//!
//! Invariant: every answer follows from the settings, which are alike, from the number of calls, and from results of
//! meetings. It never depends on observations of one rank.

use super::flag::Flag;
use crate::{config::Config, ground::Instant, model::daly};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The most calls between two meetings, unless so many take less than a hundredth of `agree_every`.
const CALLS_FEW: u64 = 100;

#[derive(Debug)]
pub(super) struct Schedule {
    rules: Rules,
    calls_until_meeting: u64,
    calls_since_meeting: u64,
    last_meeting: Instant,
    /// The part of the time since `last_meeting` that was spent in checkpoints and in waiting for them, outside any
    /// step.
    apart: Duration,
    /// The time that a step takes, from the last meeting: the same on all ranks.
    call: Duration,
    /// The last t1, or a moment that counts as one.
    last_checkpoint: Instant,
    /// t2 − t1 and t3 − t1 of the last checkpoint, if known.
    cost: Option<(Duration, Duration)>,
    /// The highest of these on all ranks, from a meeting since that checkpoint.
    agreed_cost: (Duration, Duration),
    /// Until then, time makes no checkpoint due for this rank alone: the last one was put off.
    quiet_until: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Rules {
    every_steps: u64,
    every: Duration,
    mtbf: Duration,
    agree_every: Duration,
}

/// The facts that the ranks exchange at a meeting. The highest value of each field counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Facts {
    asked: Flag,
    /// The program has replaced the handler of `checkpoint_signal`.
    pub(super) is_deaf: Flag,
    since_checkpoint_ns: u64,
    since_meeting_ns: u64,
    /// Times of the last checkpoint; zero if unknown.
    perceived_ns: u64,
    durable_ns: u64,
}

impl Schedule {
    pub(super) fn new(config: &Config, now: Instant) -> Schedule {
        Schedule {
            rules: Rules {
                every_steps: config.every_steps,
                every: config.every,
                mtbf: config.mtbf,
                agree_every: config.agree_every,
            },
            calls_until_meeting: 1,
            calls_since_meeting: 0,
            last_meeting: now,
            apart: Duration::ZERO,
            call: Duration::ZERO,
            last_checkpoint: now,
            cost: None,
            agreed_cost: Default::default(),
            quiet_until: None,
        }
    }

    /// Whether any rule of steps or time is set.
    pub(super) fn has_rule(&self) -> bool {
        let Rules { every_steps, every, mtbf, .. } = &self.rules;
        *every_steps > 0 || !every.is_zero() || !mtbf.is_zero()
    }

    /// Whether steps make a checkpoint due at `step`. It is due at the first step at or after a multiple of
    /// `every_steps`, if the program last asked at step `before`. Without `before`, only a multiple itself is due.
    pub(super) fn by_steps(&self, before: Option<u64>, step: u64) -> bool {
        let before = before.unwrap_or(step.saturating_sub(1));
        let multiples = |step: u64| step.checked_div(self.rules.every_steps).unwrap_or(0);
        multiples(step) > multiples(before)
    }

    /// Counts one call, and returns whether the ranks meet at it.
    pub(super) fn meets(&mut self) -> bool {
        self.calls_since_meeting += 1;
        // After a failed meeting the ranks meet at every call, so each call reports the failure.
        self.calls_until_meeting = self.calls_until_meeting.saturating_sub(1);
        self.calls_until_meeting == 0
    }

    /// Makes the ranks meet at the next call, even if their counts differed.
    pub(super) fn meet_next(&mut self, now: Instant) {
        (self.calls_since_meeting, self.calls_until_meeting, self.last_meeting) = (0, 1, now);
        self.apart = Duration::ZERO;
    }

    /// Makes the ranks meet at the next call. If steps are much shorter than the time between two meetings, within a
    /// hundredth of that time.
    pub(super) fn meet_soon(&mut self) {
        let soon = self.rules.agree_every.as_nanos() / 100 / self.call.as_nanos().max(1);
        self.calls_until_meeting = self.calls_until_meeting.min(u64::try_from(soon).unwrap_or(u64::MAX).max(1));
    }

    /// Does not count the time since `begun` as steps: a checkpoint took it.
    pub(super) fn leave_out(&mut self, begun: Instant) {
        self.apart += begun.elapsed();
    }

    /// Whether a request or a signal asks some rank for a checkpoint.
    pub(super) fn is_asked(facts: Facts) -> bool {
        facts.asked.is_set()
    }

    pub(super) fn facts(&self, asked: bool, now: Instant) -> Facts {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        let (perceived, durable) = self.cost.unwrap_or_default();
        Facts {
            asked: asked.into(),
            is_deaf: false.into(),
            since_checkpoint_ns: ns(now - self.last_checkpoint),
            since_meeting_ns: ns((now - self.last_meeting).saturating_sub(self.apart)),
            perceived_ns: ns(perceived),
            durable_ns: ns(durable),
        }
    }

    /// Ends a meeting: returns whether a checkpoint is due, and sets the call of the next meeting, alike on all ranks.
    pub(super) fn decide(&mut self, facts: Facts, now: Instant) -> bool {
        let calls = std::mem::take(&mut self.calls_since_meeting).max(1);
        (self.last_meeting, self.apart) = (now, Duration::ZERO);
        let since_checkpoint = Duration::from_nanos(facts.since_checkpoint_ns);
        self.call = Duration::from_nanos(facts.since_meeting_ns / calls);
        let call = self.call.as_nanos();
        let calls_in = |time: Duration| u64::try_from(time.as_nanos() / call.max(1)).unwrap_or(u64::MAX);

        let target = self.target(Duration::from_nanos(facts.perceived_ns), Duration::from_nanos(facts.durable_ns));
        // A checkpoint is due now if the next call would come more than half a step too late.
        let due = target.is_some_and(|target| since_checkpoint.as_nanos() + call / 2 >= target.as_nanos());
        let left = target.map(|target| if due { target } else { target - since_checkpoint });
        // Steps may become slower, and no rank can call a meeting in between. So the next meeting is after at most
        // twice as many calls as since the last one, and after few enough calls even if these are slow.
        let few = calls_in(self.rules.agree_every / 100).max(CALLS_FEW);
        let until = calls_in(self.rules.agree_every).min(2 * calls).min(few);
        self.calls_until_meeting = until.min(left.map_or(u64::MAX, calls_in)).max(1);
        due || facts.asked.is_set()
    }

    /// Ends a meeting that is not at a step: returns whether a checkpoint is due. The schedule of steps stays.
    pub(super) fn decide_now(&mut self, facts: Facts) -> bool {
        let [perceived, durable] = [facts.perceived_ns, facts.durable_ns].map(Duration::from_nanos);
        self.agreed_cost = (perceived, durable);
        let since_checkpoint = Duration::from_nanos(facts.since_checkpoint_ns);
        facts.asked.is_set() || self.target(perceived, durable).is_some_and(|target| since_checkpoint >= target)
    }

    /// Whether time makes a checkpoint due, as far as this rank knows.
    pub(super) fn is_time(&self, now: Instant) -> bool {
        let ((perceived, durable), agreed) = (self.cost.unwrap_or_default(), self.agreed_cost);
        let target = self.target(perceived.max(agreed.0), durable.max(agreed.1));
        let is_quiet = self.quiet_until.is_some_and(|until| now < until);
        !is_quiet && target.is_some_and(|target| now - self.last_checkpoint >= target)
    }

    /// The checkpoint of this moment was put off: time makes none due for this rank alone until a while has passed.
    pub(super) fn be_quiet(&mut self, now: Instant) {
        self.quiet_until = Some(now + self.rules.agree_every / 100);
    }

    /// The time between two looks at something outside the ranks.
    pub(super) fn look_every(&self) -> Duration {
        self.rules.agree_every
    }

    /// The time from one t1 to the next; `None` without a time rule.
    fn target(&self, perceived: Duration, durable: Duration) -> Option<Duration> {
        let rules = &self.rules;
        let by_formula = || match perceived {
            // The first checkpoint is due at once, to measure its cost.
            Duration::ZERO => Duration::ZERO,
            // The formula counts from t2. Before t3 the next checkpoint would only wait.
            _ => (daly(perceived, rules.mtbf) + perceived).max(durable),
        };
        let by_clock = (!rules.every.is_zero()).then_some(rules.every);
        let by_formula = (!rules.mtbf.is_zero()).then(by_formula);
        by_clock.into_iter().chain(by_formula).min()
    }

    /// Notes that a checkpoint begins, or that a restore has returned the program to one.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.last_checkpoint, self.agreed_cost, self.quiet_until) = (now, Default::default(), None);
    }

    /// Records the times of a checkpoint on this rank.
    pub(super) fn learn(&mut self, perceived: Duration, durable: Duration) {
        if !perceived.is_zero() {
            self.cost = Some((perceived, durable));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates ranks with steps of `step_ms` that meet by the schedule. Returns the times at which a checkpoint was
    /// due, and the number of meetings.
    fn simulate(config: &Config, step_ms: impl Fn(u64) -> u64, steps: u64, cost_ms: u64) -> (Vec<u64>, u64) {
        let start = Instant::now();
        let (mut schedule, mut now_ms, mut due, mut met) = (Schedule::new(config, start), 0, Vec::new(), 0);
        for step in 1..=steps {
            now_ms += step_ms(step);
            let now = start + Duration::from_millis(now_ms);
            let mut is_due = schedule.by_steps(Some(step - 1), step);
            if schedule.meets() {
                met += 1;
                is_due |= schedule.decide(schedule.facts(false, now), now);
            }
            if is_due {
                due.push(now_ms);
                schedule.begin(now);
                schedule.learn(Duration::from_millis(cost_ms), Duration::from_millis(2 * cost_ms));
            }
        }
        (due, met)
    }

    /// Calls the schedule `calls` times.
    fn call(schedule: &mut Schedule, calls: u64) {
        for _ in 0..calls {
            schedule.meets();
        }
    }

    #[test]
    fn steps_are_counted_without_a_meeting() {
        let config = Config { every_steps: 10, agree_every: Duration::from_secs(1000), ..Config::default() };
        let (due, met) = simulate(&config, |_| 1, 1000, 1);
        assert_eq!(due, (1..=100).map(|i| 10 * i).collect::<Vec<_>>());
        assert!(met <= 10, "{met} meetings in a second");
    }

    #[test]
    fn time_is_kept_though_the_ranks_meet_only_now_and_then() {
        let config = Config { every: Duration::from_secs(10), ..Config::default() };
        let (due, met) = simulate(&config, |_| 3, 100_000, 1);
        assert_eq!(due.len(), 30, "{due:?}");
        let gaps = due.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().all(|gap| (9_990..=10_020).contains(&gap)), "{:?}", gaps.collect::<Vec<_>>());
        assert!(met < 1500, "{met} meetings");
    }

    #[test]
    fn slow_steps_that_follow_fast_ones_do_not_put_a_meeting_off_for_long() {
        let config = Config { every: Duration::from_secs(10), ..Config::default() };
        // A thousand steps a second, then one step a second.
        let (due, _) = simulate(&config, |step| if step < 20_000 { 1 } else { 1000 }, 21_000, 1);
        let gaps: Vec<u64> = due.windows(2).map(|p| p[1] - p[0]).collect();
        assert!(gaps.iter().all(|gap| *gap <= 10_000 + 1000 * CALLS_FEW), "{gaps:?}");
        assert!(gaps[gaps.len() - 50..].iter().all(|gap| (9_000..=11_000).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn the_interval_follows_from_what_a_checkpoint_costs() {
        let config = Config { mtbf: Duration::from_secs(3600), ..Config::default() };
        let (due, _) = simulate(&config, |_| 50, 40_000, 100);
        assert_eq!(due[0], 50, "the first one is there to be measured");
        let expected = (daly(Duration::from_millis(100), config.mtbf) + Duration::from_millis(100)).as_millis() as u64;
        assert!(due.windows(2).all(|p| (p[1] - p[0]).abs_diff(expected) <= 100), "{expected}: {due:?}");
    }

    /// After a checkpoint of 1 s between two steps of 1 ms, the next meeting came at the very next steps, and a
    /// checkpoint half a second too early.
    #[test]
    fn the_time_of_a_checkpoint_is_no_part_of_a_step() {
        let config = Config { every: Duration::from_secs(10), ..Config::default() };
        let (start, mut schedule) = (Instant::now(), Schedule::new(&config, Instant::now()));
        let at = |ms| start + Duration::from_millis(ms);
        schedule.decide(schedule.facts(false, at(1)), at(1));
        call(&mut schedule, 100);
        schedule.apart = Duration::from_secs(9);
        assert!(!schedule.decide(schedule.facts(false, at(9101)), at(9101)));
        assert_eq!(schedule.call, Duration::from_millis(1));
        // The left-out time counts once.
        call(&mut schedule, 100);
        schedule.decide(schedule.facts(false, at(9301)), at(9301));
        assert_eq!(schedule.call, Duration::from_millis(2));
    }

    #[test]
    fn the_ranks_meet_soon_at_the_next_step_or_within_a_hundredth_of_the_time_between_meetings() {
        let start = Instant::now();
        for (step_ms, calls) in [(1, 10), (3, 3), (10, 1), (500, 1)] {
            let mut schedule = Schedule::new(&Config::default(), start);
            call(&mut schedule, 100);
            let now = start + Duration::from_millis(100 * step_ms);
            schedule.decide(schedule.facts(false, now), now);
            schedule.meet_soon();
            assert_eq!((1..).find(|_| schedule.meets()), Some(calls), "steps of {step_ms} ms");
        }
    }

    /// In a build without overflow checks the count of calls wrapped, and the ranks never met again.
    #[test]
    fn a_meeting_that_failed_is_tried_again_at_the_next_call() {
        let mut schedule = Schedule::new(&Config::default(), Instant::now());
        assert!(schedule.meets() && schedule.meets() && schedule.meets());
    }

    #[test]
    fn without_rules_a_checkpoint_is_due_only_when_asked_for() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Config::default(), start);
        for call in 1..10_000_u64 {
            let now = start + Duration::from_millis(call);
            if schedule.meets() {
                let asked = call > 5000;
                assert_eq!(schedule.decide(schedule.facts(asked, now), now), asked);
            }
        }
    }
}
