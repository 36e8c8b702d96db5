//! The life of a rank: makes its calls, one after the other, and reports their results to the judge.

use crate::{
    group::SimulatedGroup,
    job::{Job, Rank},
    lock::{locked, sleep},
    mark::Mark,
    objects::ObjectsProgram,
    openings::Opening,
    plan::{Calls, Setting, Step},
    program::Program,
    workload::{Restoring, Workload},
};
use mainstay_engine::{Error, ErrorKind, Recovery, Session, group::Group};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Why a rank does not go on with its steps.
enum Trouble {
    /// A promise is broken.
    Wrong(String),
    /// A call has failed.
    Failed(&'static str, Error),
}

/// One rank between its calls.
struct Life {
    session: Session,
    program: Box<dyn Workload>,
    /// Its number when it began.
    first_rank: usize,
    node: usize,
    /// `None`: the session recovers, or is about to close.
    opening: Option<Opening>,
    /// Recoveries of the job so far.
    generation: Arc<AtomicU64>,
    /// Restores since the start, or since the last recovery.
    restores: u64,
    pending: Option<Pending>,
    /// Nothing is on its way to any level.
    is_quiet: bool,
    has_saved: bool,
}

/// The last revision, which may not be complete.
#[derive(Clone, Copy)]
struct Pending {
    mark: Mark,
    number: u64,
    /// No level was busy when it was saved, so each level whose turn it was took it.
    is_for_all: bool,
}

impl Job {
    /// Opens a session, does the steps, and recovers after failures, until the rank closes or gives up.
    pub fn live(&self, group: SimulatedGroup, node: usize) -> Result<(), String> {
        let (generation, channel, first_rank) = (group.generation(), group.program_channel(), group.rank());
        let death = self.cluster.death_of(self.cluster.this_process());
        let session = match Session::open(Box::new(group), &self.space, self.config(node)) {
            Ok(session) => session,
            Err(error) => {
                self.cluster.tell(|| format!("rank {first_rank}: open: {error}"));
                return self.explained("open", &error);
            }
        };
        let opening = self.openings.enter(self.number, death.clone())?;
        // Ranks may have failed during `open`, so the numbers may differ from those of the group.
        let (rank, ranks) = (session.rank(), session.size());
        let program: Box<dyn Workload> = match self.setting {
            Setting { objects: Some(objects), .. } => {
                let program = ObjectsProgram::new(channel, objects, self.models.clone());
                Box::new(program.map_err(|error| format!("objects: {error}"))?)
            }
            Setting { is_global: true, .. } => Box::new(Program::global(rank, ranks)),
            Setting { calls, .. } => Box::new(Program::own(rank, calls)),
        };
        let mut life = Life {
            session,
            program,
            first_rank,
            node,
            opening: Some(opening),
            generation,
            restores: 0,
            pending: None,
            is_quiet: true,
            has_saved: false,
        };
        life.program.protect(&mut life.session).map_err(|error| format!("protect: {error}"))?;
        loop {
            let error = match self.steps(&mut life) {
                Ok(true) => return self.close(life),
                Ok(false) => {
                    life.program.end();
                    return Ok(());
                }
                Err(Trouble::Wrong(why)) => return Err(why),
                Err(Trouble::Failed(call, error)) => {
                    self.cluster.tell(|| format!("rank {}: {call}: {error}", life.session.rank()));
                    self.explained(call, &error)?;
                    error
                }
            };
            if error.kind() != ErrorKind::GroupFailed || self.setting.recovery == Recovery::Off {
                return Ok(());
            }
            life.opening = None;
            self.may_die_in_recovery(first_rank);
            match life.session.recover() {
                Ok(recovered) => self.cluster.tell(|| format!("rank {}: recovers: {recovered:?}", life.session.rank())),
                Err(error) => {
                    self.cluster.tell(|| format!("rank {rank}: recover: {error}"));
                    return self.explained("recover", &error);
                }
            }
            life.opening = Some(self.openings.enter(self.number, death.clone())?);
            (life.restores, life.pending, life.is_quiet, life.has_saved) = (0, None, false, false);
            let (rank, ranks) = (life.session.rank(), life.session.size());
            let goes_on = life.program.goes_on(&mut life.session, rank, ranks);
            goes_on.map_err(|error| format!("protecting after a recovery: {error}"))?;
        }
    }

    /// The steps of the program. Returns whether a close comes next.
    fn steps(&self, life: &mut Life) -> Result<bool, Trouble> {
        self.restore(life)?;
        for (index, step) in self.round.steps.iter().enumerate() {
            let rank = life.session.rank();
            let tell = |outcome: &str| self.cluster.tell(|| format!("rank {rank}: step {index}, {step:?}: {outcome}"));
            let failed = |call: &'static str| move |error| Trouble::Failed(call, error);
            match *step {
                Step::Save { bytes, ticks } => {
                    let run = (self.number, life.generation.load(Ordering::Relaxed), life.restores);
                    let mark = locked(&self.judge).begins(run, index as u64);
                    life.program.fill(&mut life.session, mark, bytes).map_err(failed("fill"))?;
                    if ticks > 0 {
                        life.program.dawdle(&mut life.session, mark, ticks).map_err(failed("tick"))?;
                        tell(&format!("{:?}", life.session.speculation()));
                    }
                    match life.program.save(&mut life.session) {
                        Ok(number) => {
                            tell(&format!("revision {number}"));
                            self.has_saved(life, mark, number);
                        }
                        Err(error) => self.passed_over(life, "checkpoint", error)?,
                    }
                }
                Step::Wait => match life.session.wait() {
                    Ok(()) => {
                        tell("complete");
                        life.is_quiet = true;
                        if let Some(Pending { mark, number, is_for_all }) = life.pending
                            && self.all_live(&life.session)
                        {
                            let number = Some(number).filter(|_| is_for_all);
                            locked(&self.judge).complete(&self.setting, self.nodes_apart(), mark, number);
                        }
                    }
                    Err(error) => self.passed_over(life, "wait", error)?,
                },
                Step::Poll { times } => {
                    for _ in 0..times {
                        match life.session.poll() {
                            Ok(_) => sleep(Duration::from_millis(1)),
                            Err(error) => {
                                self.passed_over(life, "poll", error)?;
                                break;
                            }
                        }
                    }
                }
                Step::Compute { time } => sleep(time),
                Step::Rewind => self.restore(life)?,
                Step::Objects(act) => match life.program.act(act) {
                    Ok(()) => tell("done"),
                    Err(Restoring::Refused(error)) => self.passed_over(life, "objects", error)?,
                    Err(Restoring::Wrong(why)) => return Err(Trouble::Wrong(why)),
                },
                Step::Close => return Ok(true),
            }
            self.ends_after(life.first_rank, life.node, index);
        }
        Ok(false)
    }

    /// The rank has saved `mark` as revision `number`. The revision before is complete now.
    fn has_saved(&self, life: &mut Life, mark: Mark, number: u64) {
        let is_for_all = std::mem::replace(&mut life.is_quiet, false);
        life.has_saved = true;
        let counts = self.all_live(&life.session);
        if counts && self.setting.calls == Calls::Buffer {
            // `put` waits for the nearest level.
            locked(&self.judge).complete(&self.setting, self.nodes_apart(), mark, None);
        }
        let before = life.pending.replace(Pending { mark, number, is_for_all });
        if let Some(before) = before.filter(|_| counts) {
            locked(&self.judge).complete_somewhere(&self.setting, before.mark);
        }
    }

    /// A call has failed. The program goes on without it, unless ranks are gone.
    fn passed_over(&self, life: &mut Life, call: &'static str, error: Error) -> Result<(), Trouble> {
        (life.pending, life.is_quiet) = (None, false);
        if error.kind() == ErrorKind::GroupFailed {
            return Err(Trouble::Failed(call, error));
        }
        self.cluster.tell(|| format!("rank {}: {call}: {error}", life.session.rank()));
        self.explained(call, &error).map_err(Trouble::Wrong)
    }

    /// The number of nodes that have a rank of the job, if ranks that are out do not count.
    fn nodes(&self, is_out: impl Fn(&Rank) -> bool) -> usize {
        let ranks = locked(&self.ranks);
        ranks.iter().filter(|rank| !is_out(rank)).map(|rank| rank.node).collect::<BTreeSet<_>>().len()
    }

    /// Whether no rank has died since the job began or went on. Otherwise a node may be lost, and the answer of a call does
    /// not know it yet.
    fn all_live(&self, session: &Session) -> bool {
        locked(&self.ranks).iter().filter(|rank| !rank.is_dead()).count() == session.size()
    }

    /// The number of nodes that can hold each other's copies: 1 if the racks have unlike numbers of ranks.
    fn nodes_apart(&self) -> usize {
        let domains: Vec<usize> = {
            let ranks = locked(&self.ranks);
            ranks.iter().filter(|rank| !rank.is_dead()).map(|rank| self.setting.domain(rank.node)).collect()
        };
        let count = |of: usize| domains.iter().filter(|domain| **domain == of).count();
        if self.setting.has_racks && count(0) != count(1) { 1 } else { self.nodes(Rank::is_dead) }
    }

    fn close(&self, life: Life) -> Result<(), String> {
        let Life { session, pending, program, has_saved, opening, first_rank, node, .. } = life;
        drop(opening);
        let rank = session.rank();
        let closed = session.close();
        drop(program);
        match closed {
            Ok(()) => {
                self.cluster.tell(|| format!("rank {rank}: closed"));
                // A job that has saved nothing leaves older revisions where they are.
                self.closed.fetch_add(has_saved.into(), Ordering::Relaxed);
                locked(&self.judge).closed(&self.setting, pending.map(|pending| pending.mark), has_saved);
                self.ends_after(first_rank, node, self.round.steps.len() - 1);
                Ok(())
            }
            Err(error) => {
                self.cluster.tell(|| format!("rank {rank}: close: {error}"));
                self.explained("close", &error)
            }
        }
    }

    fn restore(&self, life: &mut Life) -> Result<(), Trouble> {
        life.restores += 1;
        life.pending = None;
        // A job that goes on with fewer nodes does not see the disks of the other nodes.
        let floor = locked(&self.judge).floor(self.nodes(Rank::is_gone) == self.setting.nodes);
        let job = self.number * 1000 + life.generation.load(Ordering::Relaxed);
        match life.program.restore(&mut life.session, job * 100 + life.restores) {
            Ok(found) => {
                self.cluster.tell(|| format!("rank {}: restores {found:?}", life.session.rank()));
                let mut judge = locked(&self.judge);
                judge.restored(job, life.restores, found, floor).map_err(Trouble::Wrong)?;
                if let Some(found) = found {
                    // It may be on its way to levels and copies that lack it.
                    life.is_quiet = false;
                    if self.all_live(&life.session) {
                        judge.complete_somewhere(&self.setting, found);
                    }
                }
                Ok(())
            }
            Err(Restoring::Refused(error)) => Err(Trouble::Failed("restore", error)),
            Err(Restoring::Wrong(why)) => Err(Trouble::Wrong(why)),
        }
    }

    /// Fails if nothing in the plan explains the error. Nothing explains damage without `rots`, or a space that another job
    /// took in spite of the locks.
    fn explained(&self, call: &str, error: &Error) -> Result<(), String> {
        let is_possible = matches!(
            error.kind(),
            ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::GroupFailed | ErrorKind::SyncFailed
        );
        let is_explained = match error.kind() {
            // With portions of a fixed size, a state may be too large.
            ErrorKind::PortionTooSmall => self.setting.portion_bytes > 0,
            ErrorKind::Damaged | ErrorKind::OutOfSight if locked(&self.judge).is_rotten => true,
            // A command has the space for a moment, or another job has it.
            ErrorKind::InUse => self.round.rival.is_some() || self.round.tools.iter().any(|tool| tool.time.is_some()),
            // The other job may be at its end, and remove its levels in memory.
            ErrorKind::Io | ErrorKind::NotASpace | ErrorKind::GroupFailed
                if call == "open" && self.round.rival.is_some() =>
            {
                true
            }
            // After damage one rank may give up while another tries again.
            ErrorKind::GroupFailed if locked(&self.judge).is_rotten => true,
            _ => !self.round.is_healthy() && is_possible,
        };
        if is_explained { Ok(()) } else { Err(format!("{call}: {error}")) }
    }
}
