//! What makes a checkpoint due: the schedule, a signal, and those who ask from outside.

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
    sync::{Arc, atomic::AtomicBool},
};

/// What makes a checkpoint due.
pub(super) struct Due {
    pub(super) schedule: Schedule,
    /// Hears requests from outside; on rank 0 only.
    pub(super) listener: Option<Listener>,
    pub(super) signal: Option<SignalFlag>,
    /// The step that the program last gave to `due`, or the step of the revision that a restore has brought back; 0: none.
    /// The same on all ranks where they save.
    pub(super) step: u64,
    /// A restore brought back a revision of an unknown step: multiples that came before the next step are not due.
    step_is_unknown: bool,
    /// `every_steps` made a checkpoint due at `step`, and none has begun since.
    by_steps: bool,
    /// A restore brought back a revision of a known step, and `due` was not called since.
    came_back: Option<CameBack>,
    /// The next revision was asked for from outside, or by a signal, and goes to all levels: whoever asks may be about to
    /// end the job, and its nodes' memory with it. The same on all ranks.
    pub(super) to_all: bool,
    /// The first step at which a checkpoint was put off, if it is due as soon as the one before is durable. The same on all
    /// ranks.
    pub(super) put_off_at: Option<u64>,
    /// How often one was put off since the last was begun, and since the job began.
    pub(super) times_put_off: u64,
    pub(super) all_times_put_off: u64,
    /// The step of the last revision that this session began, or restored; 0: unknown.
    pub(super) last_saved_at: u64,
    pub(super) tally: Tally,
}

/// How often `due` was called, how often it returned true, and how many checkpoints were begun. The same on all ranks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) found: u64,
    pub(super) begun: u64,
}

/// The step of a revision that a restore brought back, and the step at which the program was before.
struct CameBack {
    saved_at: u64,
    before: u64,
}

impl CameBack {
    /// What to say if the program, which now is at `step`, has not gone back to the step of the revision. It may ask at
    /// some steps only, and again at the step of the revision itself.
    fn missed_by(&self, step: u64) -> Option<String> {
        let CameBack { saved_at, before } = *self;
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

/// A flag that a signal raises. What handled the signal before is called too.
pub(super) struct SignalFlag {
    pub(super) raised: Arc<AtomicBool>,
    id: SigId,
    number: i32,
    /// What the system called at the signal once this was set.
    handler: Option<usize>,
}

impl SignalFlag {
    pub(super) fn new(number: i32) -> Result<SignalFlag> {
        let raised = Arc::new(AtomicBool::new(false));
        let id = flag::register(number, raised.clone());
        let id = id.map_err(|e| Error::io("handling", format!("signal {number}"), e))?;
        Ok(SignalFlag { raised, id, number, handler: handler_of(number) })
    }

    /// Whether something else has been set as the handler since.
    pub(super) fn is_replaced(&self) -> bool {
        handler_of(self.number) != self.handler
    }
}

/// The address that the system calls at the signal; `None` if it does not tell.
#[allow(unsafe_code)]
fn handler_of(number: i32) -> Option<usize> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only fills the old one, which has room for it; zeros are one, too.
    unsafe {
        let told = libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        (told == 0).then(|| action.assume_init().sa_sigaction)
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

    /// The program is at `step`: whether steps make a checkpoint due. The answer for the same step stays the same until a
    /// checkpoint begins.
    pub(super) fn ask(&mut self, step: u64) -> bool {
        if step != self.step {
            let before = (step > self.step && !self.step_is_unknown).then_some(self.step);
            self.by_steps = self.schedule.by_steps(before, step);
            (self.step, self.step_is_unknown) = (step, false);
        }
        self.by_steps
    }

    /// The ranks were at different steps, the highest of which was `step`: they count on from the same one.
    pub(super) fn agree_on(&mut self, step: u64) {
        (self.step, self.by_steps) = (step, false);
    }

    /// The first call after a restore: what there is to say if the program did not go back to where it was saved.
    pub(super) fn look_back(&mut self, step: u64) -> Option<String> {
        self.came_back.take()?.missed_by(step)
    }

    /// The checkpoint that is due is so once the one before is durable.
    pub(super) fn put_off(&mut self) {
        self.put_off_at = self.put_off_at.or(Some(self.step));
        self.times_put_off += 1;
        self.all_times_put_off += 1;
        self.schedule.meet_soon();
    }

    /// Whether any setting makes a checkpoint due.
    pub(super) fn has_rule(&self) -> bool {
        self.signal.is_some() || self.schedule.has_rule()
    }

    /// The program is back at a revision, which was saved at step `saved_at` as far as this rank knows (0: it does not), or at
    /// its beginning (`None`). All ranks count on from the same step, however far each had come. Collective.
    pub(super) fn go_back_to(&mut self, group: &dyn Group, saved_at: Option<u64>) -> Result<()> {
        let Tally { asked, found, begun } = self.tally;
        let mut told = [saved_at.unwrap_or(0), self.step, asked, found, begun];
        group.all_max(&mut told)?;
        let [step, before, asked, found, begun] = told;
        // A rank that took another's place tells at the end for all.
        self.tally = Tally { asked, found, begun };
        self.step_is_unknown = saved_at.is_some() && step == 0;
        self.came_back = (step > 0).then_some(CameBack { saved_at: step, before });
        (self.step, self.last_saved_at, self.by_steps) = (step, step, false);
        Ok(())
    }
}
