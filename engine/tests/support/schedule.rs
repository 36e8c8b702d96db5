//! Seeded schedules: jobs of several ranks follow one another on one space. By its seed, each saves, goes back, fails,
//! dies, loses power or writes late.

use super::{
    faulty::{Failure, Faulty, Gate, Loss, Medium, Mortal, View},
    program::{Mark, Program, Restoring},
    recording::Checked,
    ways::{capture_of, compress_of},
    whole,
};
use fastrand::Rng;
use mainstay_engine::{Config, Error, ErrorKind, Session, Stage, group::ThreadGroup, space::Per};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::AddAssign,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

/// Counts of the events in the rounds of one schedule or of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub rounds: u64,
    pub restores: u64,
    pub rewinds: u64,
    pub acknowledged: u64,
    /// Revisions that failed and that all ranks gave up.
    pub abandoned: u64,
    pub deaths: u64,
    pub power_losses: u64,
    /// Jobs that were thought dead and wrote on.
    pub late_writers: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.rounds += other.rounds;
        self.restores += other.restores;
        self.rewinds += other.rewinds;
        self.acknowledged += other.acknowledged;
        self.abandoned += other.abandoned;
        self.deaths += other.deaths;
        self.power_losses += other.power_losses;
        self.late_writers += other.late_writers;
    }
}

const ROUNDS: u64 = 10;
const BYTES_MAX: usize = 200 << 10;

/// One space, several jobs. An error names the fault and its round.
pub fn run(seed: u64) -> Checked<Tally> {
    let mut random = Rng::with_seed(seed);
    let has_locks = random.bool();
    let ranks = random.usize(2..=4);
    let config = Config {
        per: [Per::App, Per::Node, Per::Rank][(seed % 3) as usize],
        keep: random.u32(1..=2),
        stage: if random.bool() { Stage::Pool } else { Stage::Direct },
        pool_bytes: Some(64 << 10),
        chunk_bytes: Some(16 << 10),
        // With one thread, the seed sets the order of a rank's operations.
        io_threads: 1,
        // In every other pair of schedules, larger shards outgrow the portions that the first checkpoint has sized.
        portion_bytes: if seed % 4 < 2 { 1 << 20 } else { 0 },
        capture: capture_of((seed / 3) as usize),
        compress: compress_of((seed / 9) as usize),
        ..Config::default()
    };
    let mut space = Space { medium: Medium::new(has_locks), zombies: Vec::new(), floor: None, run: 0 };
    let mut tally = Tally::default();
    for round in 1..=ROUNDS {
        let told = |why| {
            format!(
                "seed {seed}, round {round} of {ROUNDS} ({ranks} ranks, keep {}, locks {has_locks}): {why}",
                config.keep
            )
        };
        tally += space.round(ranks, &config, has_locks, &mut random).map_err(told)?;
    }
    space.let_zombies_end().map_err(|why| format!("seed {seed}: {why}"))?;
    Ok(tally)
}

struct Space {
    medium: Medium,
    zombies: Vec<Running>,
    /// No restore may return an older mark.
    floor: Option<Mark>,
    /// Openings and rewinds so far: states of a later one are newer.
    run: u64,
}

/// The steps that all ranks of a job do, in this order.
#[derive(Debug, Clone, Copy)]
enum Step {
    Save {
        bytes: usize,
    },
    Wait,
    Rewind,
    Close,
    /// The gates of jobs that are thought dead open.
    LetLateWritersIn,
}

/// The end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    InOrder,
    /// One rank dies in the middle of an operation. The others die when they find out, or a little later.
    Death,
    /// The writes of some rank are held back, and the job is thought dead.
    Zombie,
}

struct Job {
    steps: Vec<Step>,
    ranks: usize,
    config: Config,
    gate: Arc<Gate>,
    /// Gates of jobs that are thought dead.
    late: Vec<Arc<Gate>>,
    floor: Option<Mark>,
    run: u64,
    /// The rank, and the operation after the opening before which its gate closes. A job that hangs before its first
    /// write is no older job: it comes after those that open meanwhile.
    gate_closes: Option<(usize, u64)>,
    /// No fault was planned: every error is an error of the test.
    healthy: bool,
    seen: Mutex<Seen>,
}

/// The reports of a job's ranks.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: Option<Mark>,
    /// The marks that the ranks restored at their nth restore.
    restored: BTreeMap<u64, BTreeSet<Option<Mark>>>,
    tally: Tally,
}

struct Running {
    job: Arc<Job>,
    ranks: Vec<JoinHandle<Checked<()>>>,
}

impl Space {
    fn round(&mut self, ranks: usize, config: &Config, has_locks: bool, random: &mut Rng) -> Checked<Tally> {
        let end = match random.u8(0..10) {
            0..2 => End::InOrder,
            // In an empty space, nothing separates two jobs before the first layout is made. They would be two runs of
            // one lineage, which is an error that names both.
            2..6 if !has_locks && self.floor.is_some() => End::Zombie,
            _ => End::Death,
        };
        let gate = Arc::new(Gate::new());
        let views: Vec<Arc<View>> = (0..ranks).map(|_| self.medium.gated_view(&gate)).collect();
        let fails = random.u8(0..3) == 0;
        plan(&views, end, fails, random);
        let job = Arc::new(Job {
            steps: steps(end, random),
            ranks,
            config: config.clone(),
            gate: gate.clone(),
            late: self.zombies.iter().map(|zombie| zombie.job.gate.clone()).collect(),
            floor: self.floor,
            run: self.run + 1,
            gate_closes: (end == End::Zombie).then(|| (random.usize(0..ranks), random.u64(1..30))),
            healthy: end == End::InOrder && !fails,
            seen: Mutex::default(),
        });
        self.run += 1 + job.steps.len() as u64;
        let running = start(&job, &views);
        let mut tally = Tally { rounds: 1, ..Tally::default() };
        if end == End::Zombie {
            gate.wait_for_closing();
        }
        if end == End::Zombie && gate.was_closed() {
            tally.late_writers += 1;
            self.judge(&job)?;
            self.zombies.push(running);
        } else {
            running.wait()?;
            views.iter().for_each(|view| view.ends());
            tally.deaths += u64::from(views.iter().any(|view| view.is_dead()));
            self.judge(&job)?;
        }
        tally += job.lock().tally;
        whole::check(&self.medium.files())?;

        if random.u8(0..if has_locks { 3 } else { 8 }) == 0 {
            // Held back writes will never arrive.
            let medium = self.medium.lose_power(Loss::Seeded(random.u64(..)));
            self.let_zombies_end()?;
            self.medium = medium;
            tally.power_losses += 1;
            whole::check(&self.medium.files())?;
        } else if self.zombies.is_empty() {
            self.medium = self.medium.end_processes();
        }
        Ok(tally)
    }

    /// Takes over the findings of a job.
    fn judge(&mut self, job: &Job) -> Checked<()> {
        let seen = job.lock();
        for (nth, found) in &seen.restored {
            if found.len() != 1 {
                return Err(format!("restore {nth} of run {} gave {found:?}: a mixture", job.run));
            }
        }
        self.floor = self.floor.max(seen.acknowledged);
        Ok(())
    }

    fn let_zombies_end(&mut self) -> Checked<()> {
        self.zombies.iter().for_each(|zombie| zombie.job.gate.open());
        self.zombies.drain(..).try_for_each(Running::wait)
    }
}

impl Running {
    fn wait(self) -> Checked<()> {
        let ended: Vec<Checked<()>> =
            self.ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("a rank panicked".into()))).collect();
        ended.into_iter().collect()
    }
}

fn plan(views: &[Arc<View>], end: End, fails: bool, random: &mut Rng) {
    // A moment within the opening, the first layout, or some checkpoint.
    let moment = |random: &mut Rng| 1 + if random.bool() { random.u64(0..20) } else { random.u64(0..150) };
    match end {
        End::Death => {
            let first = random.usize(0..views.len());
            views[first].dies_in(moment(random));
            if random.bool() {
                views.iter().for_each(|view| view.dies_in(moment(random)));
            }
        }
        End::Zombie | End::InOrder => {}
    }
    if fails {
        let view = &views[random.usize(0..views.len())];
        let failure = [Failure::Io, Failure::Io, Failure::Full, Failure::Forgets][random.usize(0..4)];
        view.fails_in(moment(random), failure);
    }
    if random.u8(0..4) == 0 {
        views[random.usize(0..views.len())].writes_short();
    }
}

fn steps(end: End, random: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..random.usize(1..=6) {
        let bytes_max = BYTES_MAX >> random.u8(0..4);
        steps.push(match random.u8(0..12) {
            0..8 => Step::Save { bytes: random.usize(1..bytes_max) },
            8..10 => Step::Wait,
            _ => Step::Rewind,
        });
        if random.bool() {
            steps.push(Step::Wait);
        }
    }
    steps.insert(random.usize(0..=steps.len()), Step::LetLateWritersIn);
    if end == End::InOrder && random.bool() {
        steps.push(Step::Close);
    }
    steps
}

fn start(job: &Arc<Job>, views: &[Arc<View>]) -> Running {
    let left = Arc::new(Mutex::new(views.len()));
    let ranks = ThreadGroup::new(views.len()).into_iter().zip(views).enumerate().map(|(rank, (group, view))| {
        let (job, view, left) = (job.clone(), view.clone(), left.clone());
        thread::spawn(move || {
            let group = Mortal::new(group, view.clone());
            let result = job.live(rank, group, &view);
            let mut left = left.lock().unwrap();
            *left -= 1;
            if *left == 0 {
                job.gate.job_ended();
            }
            result
        })
    });
    Running { job: job.clone(), ranks: ranks.collect() }
}

impl Job {
    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The life of one rank.
    fn live(&self, rank: usize, group: Mortal, view: &Arc<View>) -> Checked<()> {
        let mut program = Program::new(rank);
        let device = Arc::new(Faulty(view.clone()));
        let mut session = match Session::open_on(Box::new(group), device, self.config.clone()) {
            Ok(session) => session,
            Err(error) => return self.may_fail("open", &error),
        };
        if let Some((_, operation)) = self.gate_closes.filter(|(on, _)| *on == rank) {
            view.closes_gate_in(operation);
        }
        program.protect(&mut session).map_err(|error| error.to_string())?;
        let (mut run, mut restores, mut pending) = (self.run, 0, None::<Mark>);
        if !self.restore(&mut program, &mut session, &mut restores)? {
            return Ok(());
        }
        for (index, step) in self.steps.iter().enumerate() {
            if view.is_dead() || self.gate.was_closed() {
                return Ok(());
            }
            match *step {
                Step::Save { bytes } => {
                    let mark = Mark { run, step: index as u64 };
                    program.fill(&mut session, mark, bytes).map_err(|error| error.to_string())?;
                    match session.checkpoint() {
                        // All ranks had to report that the one before is durable.
                        Ok(_) => self.acknowledge(pending.replace(mark)),
                        Err(error) => {
                            pending = None;
                            self.may_fail("checkpoint", &error)?;
                            if error.kind() == ErrorKind::GroupFailed {
                                return Ok(());
                            }
                        }
                    }
                }
                Step::Wait => match session.wait() {
                    Ok(()) => self.acknowledge(pending.take()),
                    Err(error) => {
                        pending = None;
                        self.may_fail("wait", &error)?;
                        self.lock().tally.abandoned += u64::from(rank == 0);
                        if error.kind() == ErrorKind::GroupFailed {
                            return Ok(());
                        }
                    }
                },
                Step::Rewind => {
                    pending = None;
                    // Complete or not, the floor is the mark that was acknowledged before.
                    if !self.restore(&mut program, &mut session, &mut restores)? {
                        return Ok(());
                    }
                    run += 1;
                    self.lock().tally.rewinds += u64::from(rank == 0);
                }
                Step::LetLateWritersIn => self.late.iter().for_each(|gate| gate.open()),
                Step::Close => {
                    return match session.close() {
                        Ok(()) => {
                            self.acknowledge(pending);
                            Ok(())
                        }
                        Err(error) => self.may_fail("close", &error),
                    };
                }
            }
        }
        Ok(())
    }

    /// Returns whether the job goes on.
    fn restore(&self, program: &mut Program, session: &mut Session, restores: &mut u64) -> Checked<bool> {
        *restores += 1;
        let floor = self.floor.max(self.lock().acknowledged);
        match program.restore(session) {
            Ok(found) if found < floor => Err(format!("{found:?} was restored after {floor:?} had been acknowledged")),
            Ok(found) => {
                let mut seen = self.lock();
                seen.restored.entry(*restores).or_default().insert(found);
                seen.tally.restores += u64::from(session.rank() == 0);
                if !self.gate.was_closed() {
                    // A mark that was restored once must be restored again.
                    seen.acknowledged = seen.acknowledged.max(found);
                }
                Ok(true)
            }
            Err(Restoring::Refused(error)) => self.may_fail("restore", &error).map(|()| false),
            Err(Restoring::Wrong(why)) => Err(why),
        }
    }

    fn acknowledge(&self, mark: Option<Mark>) {
        // A job that is thought dead promises nothing any more.
        if mark.is_some() && !self.gate.was_closed() {
            let mut seen = self.lock();
            seen.tally.acknowledged += u64::from(seen.acknowledged < mark);
            seen.acknowledged = seen.acknowledged.max(mark);
        }
    }

    /// Checks for an error that a fault explains. No fault explains damage or conflicts.
    fn may_fail(&self, call: &str, error: &Error) -> Checked<()> {
        let explained = matches!(
            error.kind(),
            ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::GroupFailed | ErrorKind::SyncFailed | ErrorKind::Fenced
        );
        let tight = error.kind() == ErrorKind::PortionTooSmall && self.config.portion_bytes > 0;
        if tight || (explained && !self.healthy) {
            Ok(())
        } else {
            Err(format!("{call} of a job of {} ranks: {error}", self.ranks))
        }
    }
}
