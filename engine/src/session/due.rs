//! What makes a checkpoint due: the schedule, a signal, and those who ask from outside.

use super::{requests::Listener, schedule::Schedule};
use crate::{
    commit::RevisionKey,
    error::{Error, Result},
    ground::Instant,
    group::Group,
};
use signal_hook::{SigId, flag, low_level};
use std::sync::{Arc, atomic::AtomicBool};

/// A recovery goes back to one of so many, if memory has kept what it should.
pub(super) const SAVED_MAX: usize = 3;

/// What makes a checkpoint due.
pub(super) struct Due {
    pub(super) schedule: Schedule,
    /// Hears requests from outside; on rank 0 only.
    pub(super) listener: Option<Listener>,
    pub(super) signal: Option<SignalFlag>,
    /// The step that the program last gave to `due`, or that a restore has brought it back to; 0: none. The same on all
    /// ranks where they save.
    pub(super) step: u64,
    /// At which steps the last revisions were begun, the newest last.
    pub(super) saved_at: [Option<(RevisionKey, u64)>; SAVED_MAX],
    /// The next revision was asked for from outside, or by a signal, and goes to all levels: whoever asks may be about to
    /// end the job, and its nodes' memory with it. The same on all ranks.
    pub(super) to_all: bool,
    /// A checkpoint is due as soon as the one before is durable. The same on all ranks.
    pub(super) is_put_off: bool,
    /// How often one was put off since the last was begun, and since the job began.
    pub(super) times_put_off: u64,
    pub(super) all_times_put_off: u64,
}

/// A flag that a signal raises. What handled the signal before is called too.
pub(super) struct SignalFlag {
    pub(super) raised: Arc<AtomicBool>,
    id: SigId,
}

impl SignalFlag {
    pub(super) fn new(number: i32) -> Result<SignalFlag> {
        let raised = Arc::new(AtomicBool::new(false));
        let id = flag::register(number, raised.clone());
        let id = id.map_err(|e| Error::io("handling", format!("signal {number}"), e))?;
        Ok(SignalFlag { raised, id })
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
            saved_at: [None; SAVED_MAX],
            to_all: false,
            is_put_off: false,
            times_put_off: 0,
            all_times_put_off: 0,
        }
    }

    /// Notes that a checkpoint begins, or that the program is back at one.
    pub(super) fn begin(&mut self, now: Instant) {
        self.schedule.begin(now);
        self.is_put_off = false;
    }

    /// The checkpoint that is due is so once the one before is durable.
    pub(super) fn put_off(&mut self) {
        self.is_put_off = true;
        self.times_put_off += 1;
        self.all_times_put_off += 1;
        self.schedule.meet_soon();
    }

    /// Whether any setting makes a checkpoint due.
    pub(super) fn has_rule(&self) -> bool {
        self.signal.is_some() || self.schedule.has_rule()
    }

    /// The program is back at `revision`, or at its beginning: all ranks are at the step at which that was begun, as far as
    /// one of them knows it, however far each had come. Collective.
    pub(super) fn go_back_to(&mut self, group: &dyn Group, revision: Option<RevisionKey>) -> Result<()> {
        let saved = self.saved_at.iter().flatten().find(|(key, _)| Some(*key) == revision);
        let mut step = [saved.map_or(0, |(_, step)| *step)];
        group.all_max(&mut step)?;
        [self.step] = step;
        Ok(())
    }
}
