//! One job: its ranks as processes, and the calls that each of them makes.

use crate::{
    cluster::{Cluster, Death, ProcessId},
    group::{Refill, SimulatedGroup},
    judge::Judge,
    objects::{Models, ObjectsProgram},
    plan::{Round, Setting, Step},
    program::{Mark, Program, Restoring, Workload},
};
use mainstay_engine::{Config, DiskLost, Error, ErrorKind, LevelPlace, Recovery, Session, current_world};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A job of a run, for all its ranks.
pub struct Job {
    pub cluster: Arc<Cluster>,
    pub setting: Setting,
    pub round: Round,
    /// States of a later job are newer.
    pub number: u64,
    pub judge: Arc<Mutex<Judge>>,
    /// The right states of objects.
    pub models: Arc<Mutex<Models>>,
    /// All processes that were started.
    pub ranks: Mutex<Vec<Rank>>,
    /// Ranks that have closed in order.
    pub closed: AtomicUsize,
}

/// A started rank.
#[derive(Clone)]
pub struct Rank {
    pub process: ProcessId,
    node: usize,
    death: Death,
    is_over: Arc<AtomicBool>,
}

impl Rank {
    /// Whether its process has ended or was killed. Conditions may ask.
    pub fn is_gone(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.is_dead()
    }

    pub fn is_dead(&self) -> bool {
        self.death.time().is_some()
    }
}

/// Stops the thread for a time of the cluster.
pub fn sleep(time: Duration) {
    let world = current_world().expect("a thread of the cluster");
    world.wait("a time", Some(world.now() + time), &mut || false);
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a rank does not go on with its steps.
enum Trouble {
    /// A promise is broken.
    Wrong(String),
    /// A call has failed.
    Failed(&'static str, Error),
}

type Slot = Arc<Mutex<Option<SimulatedGroup>>>;

/// One rank between its calls.
struct Life {
    session: Session,
    program: Box<dyn Workload>,
    generation: Arc<AtomicU64>,
    /// Restores since the job has gone on.
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
    /// No level was busy at its turn.
    is_for_all: bool,
}

impl Job {
    /// Starts the ranks. They run once the caller waits.
    pub fn start(self: &Arc<Job>) {
        let slots: Vec<Slot> = self.round.seats.iter().map(|_| Slot::default()).collect();
        let seated = slots.iter().zip(&self.round.seats).enumerate();
        let members: Vec<(ProcessId, usize)> =
            seated.map(|(rank, (slot, node))| (self.start_rank(rank, *node, slot.clone()), *node)).collect();
        let refill = (self.setting.recovery != Recovery::Off).then(|| {
            let job = Arc::downgrade(self);
            let start = move |rank, node, slot| job.upgrade().expect("the job goes on").start_rank(rank, node, slot);
            Refill {
                start: Arc::new(start),
                always: self.setting.recovery == Recovery::Replace || !self.setting.is_global,
            }
        });
        for (group, slot) in SimulatedGroup::of(&self.cluster, &members, refill).into_iter().zip(&slots) {
            *locked(slot) = Some(group);
        }
    }

    fn start_rank(self: &Arc<Job>, rank: usize, node: usize, slot: Slot) -> ProcessId {
        let is_over = Arc::new(AtomicBool::new(false));
        let (job, over) = (self.clone(), is_over.clone());
        let process =
            self.cluster.start_process(&format!("rank {rank} of job {}", self.number), Some(node), move || {
                let group = locked(&slot).take();
                if let Some(Err(why)) = group.map(|group| job.live(group, node)) {
                    job.cluster.has_failed(format!("job {}, rank {rank}: {why}", job.number));
                }
                over.store(true, Ordering::Release);
            });
        if self.setting.has_racks {
            self.cluster.set_variable(process, "MAINSTAY_DOMAIN", &format!("rack{}", self.setting.domain(node)));
        }
        locked(&self.ranks).push(Rank { process, node, death: self.cluster.death_of(process), is_over });
        process
    }

    fn config(&self, node: usize) -> Config {
        let (setting, folder) = (&self.setting, self.cluster.node_folder(node));
        let place =
            |copies: u32, name: &str| if copies == 0 { LevelPlace::Off } else { LevelPlace::At(folder.join(name)) };
        Config {
            keep: setting.keep,
            per: setting.per,
            stage: setting.stage,
            capture: setting.capture,
            compress: setting.compress,
            exchange: setting.exchange,
            io_threads: setting.io_threads,
            recovery: setting.recovery,
            pool_bytes: Some(128 << 10),
            chunk_bytes: Some(16 << 10),
            buffer_bytes: 16 << 10,
            threshold_bytes: Some(8 << 10),
            pool_directory: folder.join("memory"),
            memory: place(setting.memory_copies, "memory"),
            memory_copies: setting.memory_copies.max(1),
            disk: place(setting.disk_copies, "disk"),
            disk_copies: setting.disk_copies.max(1),
            disk_lost: DiskLost::Accepted,
            pfs_every: setting.pfs_every,
            portion_bytes: setting.portion_bytes,
            ..Config::default()
        }
    }

    /// The life of one rank.
    fn live(&self, group: SimulatedGroup, node: usize) -> Result<(), String> {
        let (generation, channel) = (group.generation(), group.program_channel());
        let session = match Session::open(Box::new(group), &self.cluster.shared_folder(), self.config(node)) {
            Ok(session) => session,
            Err(error) => return self.explained("open", &error),
        };
        // Ranks may have failed before it was open.
        let (rank, ranks) = (session.rank(), session.size());
        let program: Box<dyn Workload> = match self.setting {
            Setting { objects: Some(objects), .. } => {
                let program = ObjectsProgram::new(channel, objects, self.models.clone());
                Box::new(program.map_err(|error| format!("objects: {error}"))?)
            }
            Setting { is_global: true, .. } => Box::new(Program::global(rank, ranks)),
            _ => Box::new(Program::own(rank)),
        };
        let mut life =
            Life { session, program, generation, restores: 0, pending: None, is_quiet: true, has_saved: false };
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
            match life.session.recover() {
                Ok(recovered) => self.cluster.tell(|| format!("rank {}: recovers: {recovered:?}", life.session.rank())),
                Err(error) => {
                    self.cluster.tell(|| format!("rank {rank}: recover: {error}"));
                    return self.explained("recover", &error);
                }
            }
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
                Step::Save { bytes } => {
                    let mark = Mark { run: self.run_of(life), step: index as u64 };
                    life.program.fill(&mut life.session, mark, bytes).map_err(failed("fill"))?;
                    match life.program.checkpoint(&mut life.session) {
                        Ok(number) => {
                            tell(&format!("revision {number}"));
                            let is_for_all = std::mem::replace(&mut life.is_quiet, false);
                            life.has_saved = true;
                            if let Some(before) = life.pending.replace(Pending { mark, number, is_for_all }) {
                                locked(&self.judge).complete_somewhere(&self.setting, before.mark);
                            }
                        }
                        Err(error) => self.passed_over(life, "checkpoint", error)?,
                    }
                }
                Step::Wait => match life.session.wait() {
                    Ok(()) => {
                        tell("complete");
                        life.is_quiet = true;
                        if let Some(Pending { mark, number, is_for_all }) = life.pending {
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
        }
        Ok(false)
    }

    /// The time of the program since its last restore. Later ones are greater.
    fn run_of(&self, life: &Life) -> u64 {
        (self.number * 1000 + life.generation.load(Ordering::Relaxed)) * 100 + life.restores
    }

    /// A checkpoint has failed; the program goes on, unless ranks are gone.
    fn passed_over(&self, life: &mut Life, call: &'static str, error: Error) -> Result<(), Trouble> {
        (life.pending, life.is_quiet) = (None, false);
        if error.kind() == ErrorKind::GroupFailed {
            return Err(Trouble::Failed(call, error));
        }
        self.cluster.tell(|| format!("rank {}: {call}: {error}", life.session.rank()));
        self.explained(call, &error).map_err(Trouble::Wrong)
    }

    /// The number of nodes that the job has now, without those of ranks that are out.
    fn nodes(&self, is_out: impl Fn(&Rank) -> bool) -> usize {
        let ranks = locked(&self.ranks);
        ranks.iter().filter(|rank| !is_out(rank)).map(|rank| rank.node).collect::<BTreeSet<_>>().len()
    }

    /// The number of nodes that do not fail together. Racks with unlike numbers of ranks cannot hold each other's copies.
    fn nodes_apart(&self) -> usize {
        let domains: Vec<usize> = {
            let ranks = locked(&self.ranks);
            ranks.iter().filter(|rank| !rank.is_dead()).map(|rank| self.setting.domain(rank.node)).collect()
        };
        let count = |of: usize| domains.iter().filter(|domain| **domain == of).count();
        if self.setting.has_racks && count(0) != count(1) { 1 } else { self.nodes(Rank::is_dead) }
    }

    fn close(&self, life: Life) -> Result<(), String> {
        let Life { session, pending, program, has_saved, .. } = life;
        let rank = session.rank();
        let closed = session.close();
        drop(program);
        match closed {
            Ok(()) => {
                self.cluster.tell(|| format!("rank {rank}: closed"));
                self.closed.fetch_add(1, Ordering::Relaxed);
                locked(&self.judge).closed(&self.setting, pending.map(|pending| pending.mark), has_saved);
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
        // A job that goes on with fewer nodes does not see the disks of the others.
        let floor = locked(&self.judge).floor(self.nodes(Rank::is_gone) == self.setting.nodes);
        let run = self.run_of(life);
        match life.program.restore(&mut life.session, run) {
            Ok(found) => {
                self.cluster.tell(|| format!("rank {}: restores {found:?}", life.session.rank()));
                let mut judge = locked(&self.judge);
                let job = self.number * 1000 + life.generation.load(Ordering::Relaxed);
                judge.restored(job, life.restores, found, floor).map_err(Trouble::Wrong)?;
                if let Some(found) = found {
                    judge.complete_somewhere(&self.setting, found);
                }
                Ok(())
            }
            Err(Restoring::Refused(error)) => Err(Trouble::Failed("restore", error)),
            Err(Restoring::Wrong(why)) => Err(Trouble::Wrong(why)),
        }
    }

    /// Checks for an error that a fault explains. No fault explains damage.
    fn explained(&self, call: &str, error: &Error) -> Result<(), String> {
        let is_possible = matches!(
            error.kind(),
            ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::GroupFailed | ErrorKind::SyncFailed | ErrorKind::Fenced
        );
        let is_explained = match error.kind() {
            // With portions of a fixed size, a state may be too large.
            ErrorKind::PortionTooSmall => self.setting.portion_bytes > 0,
            ErrorKind::Damaged | ErrorKind::OutOfSight if locked(&self.judge).is_rotten => true,
            // One rank may give up after damage, and another try again.
            ErrorKind::GroupFailed if locked(&self.judge).is_rotten => true,
            _ => !self.round.is_healthy() && is_possible,
        };
        if is_explained { Ok(()) } else { Err(format!("{call}: {error}")) }
    }
}
