//! Goes on after ranks have failed: opens the session again, in the same process. The surviving ranks and those that
//! replace the failed ones open it together (paper 002, section 4.2).
//!
//! Invariants: a replacing rank comes out of the ordinary opening, and meets the recovering ranks there. All protected
//! regions stay protected.

use super::{
    carryover::{Carryover, SurvivorFacts},
    epoch::Epoch,
    level::Level,
    level_plan::Origin,
    locking::KeptLocks,
    open::Refused,
    program::Program,
    state::SessionState,
    status_reporter::StatusReporter,
};
use crate::{
    config::{self, Config},
    error::{Error, ErrorKind, Result},
    ground::{Instant, unix_ns},
    group::{Divided, Group},
    printable::shortened,
    remark::remark,
    status::Recovery,
};
use std::time::Duration;

/// The changes that a recovery made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The failed ranks by their former numbers, in ascending order.
    pub lost: Vec<usize>,
    /// Number of ranks before the failure.
    pub ranks_before: usize,
    /// Number of ranks now.
    pub ranks: usize,
}

impl SessionState {
    /// Opens a session. If ranks fail meanwhile and the job goes on without them, opens it for the ranks that are left.
    /// Collective.
    pub(super) fn open(
        mut group: Box<dyn Group>,
        origin: &Origin,
        config: &Config,
        mut carryover: Carryover,
    ) -> Result<SessionState> {
        // Each failure costs a rank. The limit also ends the loop if a group keeps failing otherwise.
        let mut tries = group.size() + 1;
        let divided = carryover.before.map_or(Divided::Unknown, |before| before.divided);
        loop {
            let opened = SessionState::try_open(group, origin.clone(), config.clone(), &mut carryover);
            let Refused { group: failed, error } = match opened {
                Ok(session) => return Ok(session),
                Err(refused) => refused,
            };
            tries -= 1;
            if config.recovery == config::Recovery::Off || error.kind() != ErrorKind::GroupFailed || tries == 0 {
                return Err(error);
            }
            // The first failure says more than the reason why the ranks cannot go on.
            group = failed.shrink(divided).map_err(|_| error)?;
        }
    }

    /// Reports to status, journal, `mainstay run` and the user that the job has gone on after a failure. Called on all
    /// ranks once the program has its state back. Local.
    pub(super) fn has_recovered(&mut self, recovery: Recovery) {
        // If `mainstay run` gets the report, it prints the message itself.
        if !self.report.as_ref().is_some_and(|report| report.recovered(&recovery)) {
            remark(self.epoch.group.rank(), &recovery.summary());
        }
        if let Some(reporter) = &mut self.announcer.reporter {
            reporter.recoveries.add(recovery.clone());
        } else if let Some(later) = &mut self.later {
            later.carryover.past.get_or_insert_default().since.push(recovery.clone());
        }
        if let Some(diary) = &mut self.announcer.diary {
            diary.recovered(recovery.shortened(shortened));
        }
        self.tell();
    }

    /// The group that the session goes on with. An error leaves the session as it was. Collective among the ranks that
    /// are left.
    pub(super) fn going_on(&self) -> Result<Box<dyn Group>> {
        if self.program.config.recovery == config::Recovery::Off {
            let why = "it is off, so that nobody has made ready for it; set it to replace or shrink";
            return Err(Error::argument("recovery", why));
        }
        self.epoch.group.going_on(self.program.divided())
    }

    /// Goes on with `group`, which took `regroup` to make. An error ends the session. Collective.
    pub(super) fn go_on(self, group: Box<dyn Group>, regroup: Duration) -> Result<(SessionState, Recovered)> {
        let begun = Instant::now();
        let SessionState { mut program, resources, epoch, mut announcer, mut levels, mut later, origin, .. } = self;
        let regroup_ns = regroup.as_nanos() as u64;
        let before = Some(SurvivorFacts {
            rank: epoch.group.rank() as u32,
            ranks: epoch.group.size() as u32,
            lineage: epoch.lineage.number,
            next_number: epoch.next_number,
            newest: levels.iter().flat_map(Level::keys).max(),
            fed: levels.newest_fed(),
            spares_left: epoch.spares_left,
            step: program.due.step,
            noticed_unix_ns: unix_ns() - regroup_ns,
            regroup_ns,
            divided: program.divided(),
        });
        // The old session's pending work ends here. Its locks pass to the new session.
        program.begun = None;
        levels.give_up_feeding();
        let Epoch { post, group: failed, .. } = epoch;
        failed.end(post);
        drop((resources, failed));
        let (ended, mut diary) = (announcer.reporter.take().map(StatusReporter::end), announcer.diary.take());
        let (past, unwritten) = ended.map_or_else(Default::default, |(past, unwritten)| (Some(past), unwritten));
        let past = past.or(later.as_mut().and_then(|later| later.carryover.past.take()));
        if let Some(diary) = &mut diary {
            diary.note_before(unwritten);
        }
        let not_open = later.map_or_else(KeptLocks::default, |later| later.carryover.kept);
        let kept = KeptLocks::new(
            levels.into_levels().into_iter().map(|level| level.location.locks).chain(not_open.into_all()),
        );
        let mut session = SessionState::open(
            group,
            &origin,
            &program.config,
            Carryover { before, kept, past, diary, holds_none: !program.holds_copies },
        )?;
        let lineage = session.epoch.lineage;
        if let Some(listener) = program.due.listener.take_if(|_| session.later.is_some()) {
            let listener = session.program.due.listener.insert(listener);
            listener.renew(lineage);
        }
        session.program.take_over(program);
        if session.resources.pool_is_foreseen {
            session.resources.begin_pool(&session.program.regions);
        }
        let mut recovered = Recovered::default();
        if let Some(recovering) = &mut session.recovering {
            recovering.parts.open_ns = begun.elapsed().as_nanos() as u64;
            recovered.lost = recovering.failed.iter().map(|rank| *rank as usize).collect();
            (recovered.ranks_before, recovered.ranks) = (recovering.ranks_before as usize, recovering.ranks as usize);
        }
        Ok((session, recovered))
    }
}

impl Program {
    /// Takes over the program's state from the session `before` the failure.
    fn take_over(&mut self, before: Program) {
        let Program { regions, globals, heap, notes, allocated, steps, outputs, due, restored, .. } = before;
        (self.restored.divided, self.restored.passed_over) = (restored.divided, restored.passed_over);
        self.restored.suits_any_ranks = restored.suits_any_ranks;
        (self.allocated.memory, self.steps) = (allocated.memory, steps);
        (self.regions, self.globals, self.notes, self.outputs) = (regions, globals, notes, outputs);
        self.heap = heap;
        // A raised signal still waits for its checkpoint.
        (self.due.step, self.due.tally, self.due.signal) = (due.step, due.tally, due.signal);
        self.due.all_times_put_off = due.all_times_put_off;
    }
}
