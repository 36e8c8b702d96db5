//! A job that is killed between t2 and t3, and its remains in memory and in its space.

use crate::{
    stuck::stuck,
    support::{RANKS, Space, field, region},
};
use mainstay_engine::{Config, LevelPlace, Session, Start, device::Disk, group::ThreadGroup, space::Per};
use nix::sys::signal::{Signal, raise};
use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// A folder in memory for pools.
pub fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// The ways to share files among ranks.
pub const PERS: [Per; 3] = [Per::App, Per::Node, Per::Rank];

/// The pool has room for all staged data. Each rank has a file of its own, unless a test changes that.
pub fn config(pools: &Path) -> Config {
    Config {
        keep: 1,
        per: Per::Rank,
        pool_bytes: Some(2 << 20),
        chunk_bytes: Some(64 << 10),
        pool_directory: pools.into(),
        // The tests look at the staged data of a killed job, and not at a restore of the job.
        start: Start::Fresh,
        ..Config::default()
    }
}

/// A space with a killed job: revision 1 was saved, and revision 2 was staged by all ranks and not written.
pub fn killed(pools: &TempDir) -> Space {
    killed_when(pools, "staged")
}

pub fn killed_when(pools: &TempDir, when: &str) -> Space {
    killed_of(pools, when, Per::Rank)
}

pub fn killed_per(pools: &TempDir, per: Per) -> Space {
    killed_of(pools, "staged", per)
}

fn killed_of(pools: &TempDir, when: &str, per: Per) -> Space {
    let space = Space { config: Config { per, ..config(pools.path()) }, ..Space::new(1) };
    kill_job(&space, pools, when);
    assert_eq!(complete(&space), [1]);
    space
}

pub fn kill_job(space: &Space, pools: &TempDir, when: &str) {
    let mut job = Command::new(env::current_exe().unwrap())
        .args(["--exact", "salvage::killed::job_that_is_killed", "--ignored", "--nocapture"])
        .env("SALVAGE_SPACE", space.path())
        .env("SALVAGE_POOLS", pools.path())
        .env("SALVAGE_WHEN", when)
        .env("SALVAGE_PER", PERS.iter().position(|per| *per == space.config.per).unwrap().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while job.try_wait().unwrap().is_none() {
        if since.elapsed() > LIMIT {
            job.kill().unwrap();
            job.wait().unwrap();
            panic!("the job hangs");
        }
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(job.wait().unwrap().signal(), Some(9));
}

/// The job itself, in a process of its own.
#[test]
#[ignore = "run by the other tests"]
fn job_that_is_killed() {
    let Some(space) = env::var_os("SALVAGE_SPACE") else { return };
    let is_staged = env::var("SALVAGE_WHEN").unwrap() == "staged";
    let per = PERS[env::var("SALVAGE_PER").unwrap().parse::<usize>().unwrap()];
    let mut config = Config { per, ..config(Path::new(&env::var_os("SALVAGE_POOLS").unwrap())) };
    if env::var("SALVAGE_WHEN").unwrap() == "levels" {
        return job_of_levels(Path::new(&space), &mut config);
    }
    let device = stuck(Disk::make(Path::new(&space)).unwrap());
    let all = Barrier::new(RANKS);
    thread::scope(|scope| {
        for (rank, group) in ThreadGroup::new(RANKS).into_iter().enumerate() {
            let (device, config, all) = (&device, &config, &all);
            scope.spawn(move || {
                let disk = Arc::new(device.clone());
                let mut session = Session::open_on(Box::new(group), disk, config.clone()).unwrap();
                let mut state = field(rank, 1);
                session.protect(region(&mut state)).unwrap();
                session.checkpoint().unwrap();
                session.wait().unwrap();
                all.wait();
                if is_staged {
                    device.between.sticks_after(0);
                    state.copy_from_slice(&field(rank, 2));
                    session.checkpoint().unwrap();
                    all.wait();
                }
                raise(Signal::SIGKILL).unwrap();
            });
        }
    });
}

/// A job with a level in memory, which is killed after three checkpoints.
fn job_of_levels(space: &Path, config: &mut Config) {
    config.memory = LevelPlace::At(space.with_file_name("memory"));
    (config.keep, config.memory_keep, config.memory_copies, config.pfs_every) = (3, 3, 1, 1);
    let (config, all) = (&*config, Barrier::new(RANKS));
    thread::scope(|scope| {
        for (rank, group) in ThreadGroup::new(RANKS).into_iter().enumerate() {
            let all = &all;
            scope.spawn(move || {
                let mut session = Session::open(Box::new(group), space, config.clone()).unwrap();
                let mut state = field(rank, 1);
                session.protect(region(&mut state)).unwrap();
                for _ in 0..3 {
                    session.checkpoint().unwrap();
                    session.wait().unwrap();
                }
                all.wait();
                raise(Signal::SIGKILL).unwrap();
            });
        }
    });
}

/// Complete revisions, newest first.
pub fn complete(space: &Space) -> Vec<u64> {
    let document = space.mainstay(&["ls", "--json"]).json();
    let complete = document["revisions"].as_array().unwrap().iter().filter(|r| r["state"] != "incomplete");
    complete.map(|r| r["revision"].as_u64().unwrap()).collect()
}

/// Restores the staged revision, and checks every byte.
pub fn holds_what_was_staged(space: &Space) {
    holds_what_was_staged_as(space, 2);
}

pub fn holds_what_was_staged_as(space: &Space, revision: u64) {
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, revision);
        assert!(state == field(rank, 2), "rank {rank} has other bytes than were staged");
    });
}

pub fn files(pools: &TempDir) -> Vec<PathBuf> {
    fs::read_dir(pools.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

pub fn pool_in(pools: &TempDir) -> PathBuf {
    files(pools).into_iter().find(|path| path.extension().is_none()).unwrap()
}

pub fn copy(from: &TempDir, to: &TempDir) {
    for path in files(from) {
        fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
}
