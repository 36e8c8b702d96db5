//! Jobs that are killed between t2 and t3: what was staged is completed by whoever comes next.

mod support;

use mainstay_engine::{Config, ErrorKind, Session, SpaceSurvey, Stage, group::ThreadGroup};
use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Barrier,
    thread,
};
use support::{State, filled};
use tempfile::TempDir;

const RANKS: usize = 3;
const MEMORY: &str = "/dev/shm";

/// A space, and a folder in memory for the pools.
struct Place {
    space: TempDir,
    pools: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { space: TempDir::new().unwrap(), pools: tempfile::tempdir_in(MEMORY).unwrap() }
    }

    fn config(&self, pool_bytes: u64) -> Config {
        Config { pool_directory: self.pools.path().into(), pool_bytes, chunk_bytes: 256 << 10, ..Config::default() }
    }

    /// Runs a job that saves the steps 1 and 2 and is killed as a whole just after t2 of the second.
    fn kill_job(&self, pool_bytes: u64, cells: usize) {
        for _ in 0..10 {
            let job = Command::new(env::current_exe().unwrap())
                .args(["--exact", "job_that_is_killed", "--ignored", "--nocapture"])
                .env("SALVAGE_SPACE", self.space())
                .env("SALVAGE_POOLS", self.pools.path())
                .env("SALVAGE_POOL_BYTES", pool_bytes.to_string())
                .env("SALVAGE_CELLS", cells.to_string())
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert_eq!(job.signal(), Some(9), "{job}");
            // On a very fast disk it may have been complete.
            if self.newest() == Some(1) && !self.files().is_empty() {
                return;
            }
            fs::remove_dir_all(self.space()).unwrap();
            self.files().iter().for_each(|name| fs::remove_file(self.pools.path().join(name)).unwrap());
        }
        panic!("each revision was complete at once");
    }

    fn space(&self) -> PathBuf {
        self.space.path().join("space")
    }

    fn newest(&self) -> Option<u64> {
        newest(&self.space())
    }

    fn files(&self) -> Vec<String> {
        fs::read_dir(self.pools.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// What a job finds that comes next; all ranks have that step, whole.
    fn restore(&self, space: &Path, ranks: usize, pool_bytes: u64, cells: usize) -> Option<u64> {
        let config = self.config(pool_bytes);
        let found = run(ranks, |rank, group| {
            let mut session = Session::open(Box::new(group), space, config.clone()).unwrap();
            let mut state = State::new();
            state.field = vec![0.0; cells];
            state.protect(&mut session);
            let restored = session.restore().unwrap().map(|_| state.step[0]);
            let mut expected = State::new();
            expected.field = vec![0.0; cells];
            if let Some(step) = restored {
                filled(&mut expected, rank, step);
            }
            assert!(state == expected, "rank {rank} has other bytes than it saved");
            session.close().unwrap();
            restored
        });
        assert!(found.iter().all(|step| *step == found[0]));
        found[0]
    }
}

fn newest(space: &Path) -> Option<u64> {
    SpaceSurvey::open(space).unwrap().newest().map(|revision| revision.key.number)
}

fn run<T: Send>(ranks: usize, work: impl Fn(usize, ThreadGroup) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let ranks = ThreadGroup::new(ranks).into_iter().enumerate();
        let ranks: Vec<_> = ranks.map(|(rank, group)| scope.spawn(move || work(rank, group))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// The job itself, in a process of its own.
#[test]
#[ignore = "run by the other tests"]
fn job_that_is_killed() {
    let Some(space) = env::var_os("SALVAGE_SPACE") else { return };
    let number = |name: &str| env::var(name).unwrap().parse::<u64>().unwrap();
    let config = Config {
        pool_directory: env::var_os("SALVAGE_POOLS").unwrap().into(),
        pool_bytes: number("SALVAGE_POOL_BYTES"),
        chunk_bytes: 256 << 10,
        ..Config::default()
    };
    let staged = Barrier::new(RANKS);
    run(RANKS, |rank, group| {
        let mut session = Session::open(Box::new(group), Path::new(&space), config.clone()).unwrap();
        let mut state = State::new();
        state.field = vec![0.0; number("SALVAGE_CELLS") as usize];
        state.protect(&mut session);
        filled(&mut state, rank, 1);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        filled(&mut state, rank, 2);
        session.checkpoint().unwrap();
        staged.wait();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    });
}

#[test]
fn the_next_start_completes_what_was_staged() {
    // With room for all of it, and for a part.
    for (pool_bytes, cells) in [(64 << 20, 2 << 20), (4 << 20, 3_000_001)] {
        let place = Place::new();
        place.kill_job(pool_bytes, cells);
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2));
        assert_eq!(place.newest(), Some(2));
        assert_eq!(place.files(), [""; 0], "nothing is left in memory");
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2), "and again");
    }
}
