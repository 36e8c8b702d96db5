//! Jobs that are killed between t2 and t3: what was staged is completed by whoever comes next.

#[macro_use]
mod support;

use mainstay_engine::{Config, Session, SpaceSurvey, Stage, group::ThreadGroup};
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

/// Of the pool that both jobs have room in.
const POOL: u64 = 16 << 20;
const CELLS: usize = 2_500_000;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_job_that_went_on_elsewhere_is_not_overtaken() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    // On another node, which does not see that memory: two steps further.
    let elsewhere = Place { space: TempDir::new().unwrap(), pools: tempfile::tempdir_in(MEMORY).unwrap() };
    run(RANKS, |rank, group| {
        let mut session = Session::open(Box::new(group), &place.space(), elsewhere.config(POOL)).unwrap();
        let mut state = State::new();
        state.field = vec![0.0; CELLS];
        state.protect(&mut session);
        session.restore().unwrap();
        assert_eq!(state.step[0], 1);
        for step in [7, 8] {
            filled(&mut state, rank, step);
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        session.close().unwrap();
    });
    assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(8));
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_pool_waits_for_its_own_space() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    let left = place.files();
    assert_eq!(left.len(), 1 + RANKS);
    let another = place.space.path().join("another");
    assert_eq!(place.restore(&another, RANKS, POOL, CELLS), None);
    assert_eq!(place.files().len(), left.len(), "its space is there still");
    // Another copy of it, opened first, does not get what is the first one's.
    let copied = place.space.path().join("copied");
    copy(&place.space(), &copied);
    assert_eq!(place.restore(&copied, RANKS, POOL, CELLS), Some(1));
    // It may have been moved.
    let moved = place.space.path().join("moved");
    fs::rename(place.space(), &moved).unwrap();
    assert_eq!(place.restore(&moved, RANKS, POOL, CELLS), Some(2));
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_pool_whose_space_is_gone_is_removed_by_any_start() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    fs::remove_dir_all(place.space()).unwrap();
    assert_eq!(place.restore(&place.space.path().join("another"), 1, POOL, CELLS), None);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn other_ranks_than_before_complete_it_too() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    let config = place.config(POOL);
    run(1, |_, group| Session::open(Box::new(group), &place.space(), config.clone()).unwrap().close().unwrap());
    assert_eq!(place.newest(), Some(2));
    assert_eq!(place.files(), [""; 0]);
    assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2));
}

#[test]
fn a_stage_without_a_pool_completes_what_another_left() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    let config = Config { stage: Stage::Direct, ..place.config(POOL) };
    run(RANKS, |_, group| Session::open(Box::new(group), &place.space(), config.clone()).unwrap().close().unwrap());
    assert_eq!((place.newest(), place.files().len()), (Some(2), 0));
}

/// Whatever a byte of pool and records was changed to: the old revision or the new one, whole.
#[test]
fn what_was_damaged_in_memory_is_never_published_for_whole() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    let (space, pools) = (place.space.path().join("kept"), TempDir::new().unwrap());
    copy(&place.space(), &space);
    copy(place.pools.path(), pools.path());
    let mut random = fastrand::Rng::with_seed(11);
    let mut restored = [0; 2];
    for round in 0..32 {
        fs::remove_dir_all(place.space()).unwrap();
        copy(&space, &place.space());
        copy(pools.path(), place.pools.path());
        let files = place.files();
        // The chunks themselves have no checksum until they are written: only what is before them.
        let name = &files[random.usize(0..files.len())];
        let path = place.pools.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        let end = if name.contains('.') { bytes.len() } else { 8192.min(bytes.len()) };
        match round % 4 {
            0 => bytes.truncate(random.usize(0..end)),
            _ => (0..random.usize(1..4)).for_each(|_| bytes[random.usize(0..end)] ^= 1 << random.u8(0..8)),
        }
        fs::write(&path, bytes).unwrap();
        let step = place.restore(&place.space(), RANKS, POOL, CELLS).unwrap();
        restored[step as usize - 1] += 1;
        assert_eq!(place.files(), [""; 0], "round {round}");
    }
    assert!(restored.iter().all(|count| *count > 5), "{restored:?}");
}

/// Killed again and again while it completes what was left, the salvager comes to an end all the same.
#[test]
fn a_salvager_that_is_killed_is_followed_by_another() {
    let place = Place::new();
    place.kill_job(POOL, CELLS);
    let (space, pools) = (place.space.path().join("kept"), TempDir::new().unwrap());
    copy(&place.space(), &space);
    copy(place.pools.path(), pools.path());
    let mut random = fastrand::Rng::with_seed(5);
    let mut killed = 0;
    for _ in 0..4 {
        fs::remove_dir_all(place.space()).unwrap();
        copy(&space, &place.space());
        copy(pools.path(), place.pools.path());
        while place.newest() == Some(1) {
            let mut salvager = Command::new(env::current_exe().unwrap())
                .args(["--exact", "salvager_that_is_killed", "--ignored", "--nocapture"])
                .env("SALVAGE_SPACE", place.space())
                .env("SALVAGE_POOLS", place.pools.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(std::time::Duration::from_millis(random.u64(0..60)));
            salvager.kill().unwrap();
            killed += u32::from(salvager.wait().unwrap().signal() == Some(9));
        }
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2));
        assert_eq!(place.files(), [""; 0]);
    }
    tell!("{killed} salvagers killed");
    assert!(killed > 5);
}

#[test]
#[ignore = "run by the other tests"]
fn salvager_that_is_killed() {
    let Some(space) = env::var_os("SALVAGE_SPACE") else { return };
    let pools = env::var_os("SALVAGE_POOLS").unwrap();
    mainstay_engine::tend::salvage(Path::new(&pools), Some(Path::new(&space)), false).unwrap();
}
