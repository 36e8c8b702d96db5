//! Jobs with threads as ranks.
#![allow(dead_code, reason = "each test uses its part of this")]

/// Prints a line that appears even if the output of passing tests is hidden.
#[allow(unused_macros, reason = "each test uses its part of this")]
macro_rules! tell {
    ($($line:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($line)*);
    }};
}

pub mod around;
pub mod between;
pub mod bytes;
pub mod counting;
pub mod faulty;
pub mod full;
pub mod gate;
pub mod killed;
pub mod nodes;
pub mod processes;
pub mod program;
pub mod recording;
pub mod schedule;
pub mod spread;
pub mod stuck;
pub mod ways;
pub mod whole;

use mainstay_engine::{
    Config, Region, Session,
    device::Device,
    group::{Group, ThreadGroup},
    space::format::ElementType,
};
use std::{
    ops::Range,
    path::Path,
    process,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// `some` in each run of the tests, `all` in the campaign, which sets the variable CAMPAIGN.
pub fn often<T>(some: T, all: T) -> T {
    if std::env::var_os("CAMPAIGN").is_some() { all } else { some }
}

/// These seeds, or only the seed in the variable MAINSTAY_SEED.
pub fn one_or_all(all: Range<u64>) -> Range<u64> {
    let Ok(seed) = std::env::var("MAINSTAY_SEED") else { return all };
    let seed = seed.parse().expect("MAINSTAY_SEED is a number");
    seed..seed + 1
}

/// A small job with a small pool.
pub fn small_pool() -> Config {
    Config { pool_bytes: Some(512 << 10), chunk_bytes: Some(64 << 10), buffer_bytes: 64 << 10, ..Config::default() }
}

/// Does `work`, and ends the whole test program if the work does not end: ranks that wait for each other cannot be
/// ended one by one.
pub fn bounded<T>(what: &str, work: impl FnOnce() -> T) -> T {
    bounded_by(Duration::from_secs(60), what, work)
}

/// The same with another limit.
pub fn bounded_by<T>(limit: Duration, what: &str, work: impl FnOnce() -> T) -> T {
    let (done, told) = mpsc::channel::<()>();
    let what = what.to_owned();
    thread::spawn(move || {
        if let Err(mpsc::RecvTimeoutError::Timeout) = told.recv_timeout(limit) {
            tell!("{what}: the ranks wait for ever");
            process::abort();
        }
    });
    let worked = work();
    drop(done);
    worked
}

/// Runs `work` once for each rank, on a thread of its own. Returns the results by rank.
pub fn run<T: Send>(ranks: usize, work: impl Fn(usize, Box<dyn Group>) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let spawn = |(rank, group)| {
            let work = &work;
            scope.spawn(move || work(rank, Box::new(group)))
        };
        let threads: Vec<_> = ThreadGroup::new(ranks).into_iter().enumerate().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The same with a session on `space` for each, which is closed at the end.
pub fn in_sessions<T: Send>(
    space: &Path,
    ranks: usize,
    config: &Config,
    work: impl Fn(usize, &mut Session) -> T + Sync,
) -> Vec<T> {
    run(ranks, |rank, group| {
        let session = Session::open(group, space, config.clone()).unwrap();
        to_the_end(session, |session| work(rank, session))
    })
}

/// The same on `device`.
pub fn in_sessions_on<T: Send>(
    device: &Arc<dyn Device>,
    ranks: usize,
    config: &Config,
    work: impl Fn(usize, &mut Session) -> T + Sync,
) -> Vec<T> {
    run(ranks, |rank, group| {
        let session = Session::open_on(group, device.clone(), config.clone()).unwrap();
        to_the_end(session, |session| work(rank, session))
    })
}

fn to_the_end<T>(mut session: Session, work: impl FnOnce(&mut Session) -> T) -> T {
    let done = work(&mut session);
    session.close().unwrap();
    done
}

/// The state that one rank of the test jobs saves: a region of several chunks, a small one and an empty one.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub field: Vec<f64>,
    pub step: [u64; 1],
    pub empty: [u8; 0],
}

impl State {
    pub fn new() -> State {
        State { field: vec![0.0; 50_001], step: [0], empty: [] }
    }

    /// # Safety
    /// The state outlives the session, or is unprotected before.
    #[allow(unsafe_code)]
    pub fn protect(&mut self, session: &mut Session) {
        let shape = [self.field.len() as u64];
        // SAFETY: the tests keep the state for as long as the session.
        let regions = unsafe {
            [
                Region::array("field", self.field.as_mut_ptr().cast(), ElementType::F64, &shape),
                Region::array("step", self.step.as_mut_ptr().cast(), ElementType::U64, &[1]),
                Region::new("empty", self.empty.as_mut_ptr(), 0),
            ]
        };
        for region in regions {
            session.protect(region.unwrap()).unwrap();
        }
    }
}

/// Fills `state` with the values of rank `rank` after `step`.
pub fn filled(state: &mut State, rank: usize, step: u64) {
    let mut random = fastrand::Rng::with_seed((rank as u64) << 32 | step);
    state.field.fill_with(|| random.f64());
    state.step = [step];
}

pub struct Job {
    pub ranks: usize,
    pub config: Config,
    pub directory: TempDir,
}

impl Job {
    pub fn new(ranks: usize, config: Config) -> Job {
        Job { ranks, config, directory: TempDir::new().unwrap() }
    }

    /// Runs one job on the space: every rank opens it, protects its state, does `work` and closes.
    pub fn run(&self, work: impl Fn(usize, &mut Session, &mut State) + Sync) {
        run(self.ranks, |rank, group| {
            let path = self.directory.path().join("space");
            let mut session = Session::open(group, &path, self.config.clone()).unwrap();
            let mut state = State::new();
            state.protect(&mut session);
            work(rank, &mut session, &mut state);
            session.close().unwrap();
        });
    }
}
