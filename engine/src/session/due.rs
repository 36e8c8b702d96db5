//! Decides when a checkpoint is due: by the schedule, a signal, or a request from outside.

use super::{requests::Listener, schedule::Schedule};
use crate::{
    error::{Error, Result},
    ground::Instant,
    group::Group,
};
use signal_hook::{SigId, flag, low_level};
use std::{
    mem::MaybeUninit,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The state behind `due`.
pub(super) struct Due {
    pub(super) schedule: Schedule,
    /// Receives requests from outside; on rank 0 only.
    pub(super) listener: Option<Listener>,
    /// When rank 0 last looked for requests between meetings.
    looked: Option<Instant>,
    pub(super) signal: Option<SignalFlag>,
    /// The step that the program last gave to `due`, or the step of the restored revision; 0: none. The same on all
    /// ranks whenever they save.
    pub(super) step: u64,
    /// The step of the restored revision is unknown. Multiples before the next step are not due.
    step_is_unknown: bool,
    /// `every_steps` made a checkpoint due at `step`, and none has begun since.
    by_steps: bool,
    /// The restored revision has a known step, and `due` was not called since.
    came_back: Option<RestoreSteps>,
    /// A request from outside or a signal asked for the next revision, so it goes to all levels: the job and its nodes'
    /// memory may be about to end. The same on all ranks.
    pub(super) to_all: bool,
    /// The first step at which a checkpoint was put off until the one before is durable. The same on all ranks.
    pub(super) put_off_at: Option<u64>,
    /// How often a checkpoint was put off, since the last one began and since the job began.
    pub(super) times_put_off: u64,
    pub(super) all_times_put_off: u64,
    /// The step of the last revision that this session began or restored; 0: unknown.
    pub(super) last_saved_at: u64,
    pub(super) tally: Tally,
}

/// How often `due` was called, how often it returned true, and how many checkpoints began. The same on all ranks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) found: u64,
    pub(super) begun: u64,
}

/// The step of a restored revision, and the step of the program before the restore.
struct RestoreSteps {
    saved_at: u64,
    before: u64,
}

impl RestoreSteps {
    /// The warning if the program, now at `step`, has not gone back to the step of the revision. The program may ask at
    /// some steps only, or again at the step of the revision itself.
    fn missed_by(&self, step: u64) -> Option<String> {
        let RestoreSteps { saved_at, before } = *self;
        let how = match () {
            () if step < saved_at => format!("goes on at step {step}: its count of steps did not come back"),
            () if before > saved_at && step > before => {
                format!("goes on at step {step}, after step {before}: it did not go back with its state")
            }
            () => return None,
        };
        Some(format!(
            "the restored revision was saved at step {saved_at}, and the program {how}. Protect the variable that counts \
             the steps; in Python an array that is changed in place, as `step = step + 1` makes a new object. Check the \
             rest of the state, too: arrays that the program swaps are protected with follow"
        ))
    }
}

/// A flag that a signal raises. The previous handler of the signal is called too.
pub(super) struct SignalFlag {
    pub(super) raised: Arc<AtomicBool>,
    id: SigId,
    number: i32,
    /// The handler in the system once this flag was set.
    handler: Option<usize>,
}

impl SignalFlag {
    pub(super) fn new(number: i32) -> Result<SignalFlag> {
        let raised = Arc::new(AtomicBool::new(false));
        let id = flag::register(number, raised.clone());
        let id = id.map_err(|e| Error::io("handling", format!("signal {number}"), e))?;
        Ok(SignalFlag { raised, id, number, handler: handler_of(number) })
    }

    /// Whether another handler was set since.
    pub(super) fn is_replaced(&self) -> bool {
        handler_of(self.number) != self.handler
    }
}

/// The address of the signal's handler; `None` if the system does not report it.
#[allow(unsafe_code)]
fn handler_of(number: i32) -> Option<usize> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only fills the old one, which has room for it. Zeros are a valid action
    // too.
    unsafe {
        let status = libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        (status == 0).then(|| action.assume_init().sa_sigaction)
    }
}

impl Drop for SignalFlag {
    fn drop(&mut self) {
        low_level::unregister(self.id);
    }
}

impl Due {
    pub(super) fn new(schedule: Schedule, listener: Option<Listener>, signal: Option<SignalFlag>) -> Due {
        Due {
            schedule,
            listener,
            looked: None,
            signal,
            step: 0,
            step_is_unknown: false,
            by_steps: false,
            came_back: None,
            to_all: false,
            put_off_at: None,
            times_put_off: 0,
            all_times_put_off: 0,
            last_saved_at: 0,
            tally: Tally::default(),
        }
    }

    /// Notes that a checkpoint begins, or that the program is back at one.
    pub(super) fn begin(&mut self, now: Instant) {
        self.schedule.begin(now);
        (self.by_steps, self.put_off_at) = (false, None);
    }

    /// The program is at `step`: returns whether steps make a checkpoint due. The answer for one step is the same until
    /// a checkpoint begins.
    pub(super) fn ask(&mut self, step: u64) -> bool {
        if step != self.step {
            let before = (step > self.step && !self.step_is_unknown).then_some(self.step);
            self.by_steps = self.schedule.by_steps(before, step);
            (self.step, self.step_is_unknown) = (step, false);
        }
        self.by_steps
    }

    /// The ranks were at different steps, at most `step`. All count on from there.
    pub(super) fn agree_on(&mut self, step: u64) {
        (self.step, self.by_steps) = (step, false);
    }

    /// At the first call after a restore: the warning if the program did not go back to the saved step.
    pub(super) fn look_back(&mut self, step: u64) -> Option<String> {
        self.came_back.take()?.missed_by(step)
    }

    /// Whether a signal has asked this rank for a checkpoint.
    pub(super) fn is_signalled(&self) -> bool {
        self.signal.as_ref().is_some_and(|signal| signal.raised.load(Ordering::Relaxed))
    }

    /// Whether it is time to look for requests again, between meetings.
    pub(super) fn looks_again(&mut self, now: Instant) -> bool {
        let looks = self.looked.is_none_or(|looked| now - looked >= self.schedule.look_every());
        if looks {
            self.looked = Some(now);
        }
        looks
    }

    /// Puts the checkpoint off until the one before is durable.
    pub(super) fn put_off(&mut self) {
        self.put_off_at = self.put_off_at.or(Some(self.step));
        self.times_put_off += 1;
        self.all_times_put_off += 1;
        self.schedule.meet_soon();
        self.schedule.be_quiet(Instant::now());
    }

    /// Whether any setting makes a checkpoint due.
    pub(super) fn has_rule(&self) -> bool {
        self.signal.is_some() || self.schedule.has_rule()
    }

    /// The program is back at a revision, or at its beginning (`None`). `saved_at`: the step of the revision; 0:
    /// unknown to this rank. All ranks count on from the same step, no matter how far each had come. Collective.
    pub(super) fn go_back_to(&mut self, group: &dyn Group, saved_at: Option<u64>) -> Result<()> {
        let Tally { asked, found, begun } = self.tally;
        let mut highest = [saved_at.unwrap_or(0), self.step, asked, found, begun];
        group.all_max(&mut highest)?;
        let [step, before, asked, found, begun] = highest;
        // A rank that took another's place may report for all at the end.
        self.tally = Tally { asked, found, begun };
        self.step_is_unknown = saved_at.is_some() && step == 0;
        self.came_back = (step > 0).then_some(RestoreSteps { saved_at: step, before });
        (self.step, self.last_saved_at, self.by_steps) = (step, step, false);
        Ok(())
    }
}
