//! Going on after ranks have failed: the session is opened again, in the same process, for the ranks that are left and
//! for those that take the places of the others (paper 002, section 4.2).
//!
//! What must hold: a rank that takes another's place comes out of the ordinary opening, and meets there those that
//! recover; what the program has protected stays protected.

use super::{
    inner::Inner,
    open::{Refused, Whence},
    program::Program,
};
use crate::{
    config::{Config, Recovery},
    error::{Error, ErrorKind, Result},
    group::{Group, gather},
};
use serde::{Deserialize, Serialize};

/// What a recovery has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The ranks that have failed, by the numbers that they had, in ascending order.
    pub lost: Vec<usize>,
    /// How many ranks there were.
    pub ranks_before: usize,
    /// How many there are now.
    pub ranks: usize,
}

/// What a rank that goes on brings along from before the failure.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Before {
    rank: usize,
    ranks: usize,
    /// Of the lineage under which it saved.
    pub(super) lineage: u64,
    /// The number that its next revision would have got.
    pub(super) next_number: u64,
}

/// What all ranks know of those that go on; of an opening that is no recovery, nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct GoingOn {
    pub(super) recovered: Option<Recovered>,
    /// The highest of all.
    pub(super) lineage: u64,
    pub(super) next_number: u64,
}

impl GoingOn {
    /// Finds out who goes on, and who is new. Collective.
    pub(super) fn find(group: &dyn Group, before: Option<Before>) -> Result<GoingOn> {
        let told: Vec<Option<Before>> = gather(group, &before)?;
        let before: Vec<Before> = told.into_iter().flatten().collect();
        let Some(ranks_before) = before.iter().map(|before| before.ranks).max() else {
            return Ok(GoingOn::default());
        };
        let goes_on = |rank: &usize| before.iter().any(|before| before.rank == *rank);
        let lost = (0..ranks_before).filter(|rank| !goes_on(rank)).collect();
        let highest = |of: fn(&Before) -> u64| before.iter().map(of).max().unwrap_or(0);
        Ok(GoingOn {
            recovered: Some(Recovered { lost, ranks_before, ranks: group.size() }),
            lineage: highest(|before| before.lineage),
            next_number: highest(|before| before.next_number),
        })
    }
}

impl Inner {
    /// Opens a session; if ranks fail meanwhile and the job is to go on without them, for those that are left.
    /// Collective.
    pub(super) fn open(
        mut group: Box<dyn Group>,
        whence: &Whence,
        config: &Config,
        before: Option<Before>,
    ) -> Result<Inner> {
        // Each failure costs a rank, and what else may go wrong with a group comes to an end, too.
        let mut tries = group.size() + 1;
        loop {
            let opened = Inner::try_open(group, whence.clone(), config.clone(), before);
            let Refused { group: failed, error } = match opened {
                Ok(session) => return Ok(session),
                Err(refused) => refused,
            };
            tries -= 1;
            if config.recovery == Recovery::Off || error.kind() != ErrorKind::GroupFailed || tries == 0 {
                return Err(error);
            }
            // Why the ranks cannot go on says less than what has failed.
            group = failed.shrink().map_err(|_| error)?;
        }
    }

    /// The group that the session goes on with. An error leaves the session as it was. Collective among the ranks that
    /// are left.
    pub(super) fn going_on(&self) -> Result<Box<dyn Group>> {
        if self.program.config.recovery == Recovery::Off {
            let why = "it is off, so that nobody has made ready for it; set it to replace or shrink";
            return Err(Error::argument("recovery", why));
        }
        self.epoch.group.going_on()
    }

    /// Goes on with `group`. An error ends the session. Collective.
    pub(super) fn go_on(self, group: Box<dyn Group>) -> Result<(Inner, Recovered)> {
        let (rank, ranks) = (self.epoch.group.rank(), self.epoch.group.size());
        let before = Before { rank, ranks, lineage: self.epoch.lineage.number, next_number: self.epoch.next_number };
        // All that the old session has under way ends here, and its locks are free for the new one.
        let Inner { mut program, means, epoch, levels, whence, .. } = self;
        program.begun = None;
        drop((means, epoch, levels));
        let mut session = Inner::open(group, &whence, &program.config, Some(before))?;
        session.program.take_over(program);
        if session.means.pool_is_foreseen {
            session.means.begin_pool(&session.program.regions);
        }
        let recovered = session.recovered.clone().unwrap_or_default();
        Ok((session, recovered))
    }
}

impl Program {
    /// From now on this is what the program said `before`.
    fn take_over(&mut self, before: Program) {
        let Program { regions, notes, outputs, due, .. } = before;
        (self.regions, self.notes, self.outputs) = (regions, notes, outputs);
        // Who has raised the signal before is still waiting.
        (self.due.step, self.due.signal) = (due.step, due.signal);
    }
}
