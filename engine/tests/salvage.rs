//! Jobs that are killed between t2 and t3: what was staged is completed by whoever comes next.

#[macro_use]
mod support;

use mainstay_engine::{Config, Session, SpaceSurvey, Stage, device::Disk, group::ThreadGroup};
use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};
use support::{
    State, filled,
    processes::{Meeting, hear, say},
    stuck::stuck,
};
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
        config(self.pools.path(), pool_bytes)
    }

    /// Runs a job that saves the steps 1 and 2 and is killed as a whole just after t2 of the second, of which
    /// its device takes only so many writes of all ranks.
    fn kill_job(&self, pool_bytes: u64, cells: usize, writes: u64) {
        self.kill_job_with(0, pool_bytes, cells, writes);
    }

    /// The same with so many ranks that write for all.
    fn kill_job_with(&self, aggregators: u32, pool_bytes: u64, cells: usize, writes: u64) {
        for _ in 0..10 {
            let job = Command::new(env::current_exe().unwrap())
                .args(["--exact", "job_that_is_killed", "--ignored", "--nocapture"])
                .env("SALVAGE_SPACE", self.space())
                .env("SALVAGE_POOLS", self.pools.path())
                .env("SALVAGE_OUTPUT", self.output())
                .env("SALVAGE_POOL_BYTES", pool_bytes.to_string())
                .env("SALVAGE_CELLS", cells.to_string())
                .env("SALVAGE_WRITES", writes.to_string())
                .env("SALVAGE_AGGREGATORS", aggregators.to_string())
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert_eq!(job.signal(), Some(9), "{job}");
            // On a very fast disk that takes all of it, it may have been complete.
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

    /// The file that the job writes besides.
    fn output(&self) -> PathBuf {
        self.space.path().join("output")
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

/// As `pool_bytes`: the pool sizes itself, and has grown before the job is killed.
const AUTO: u64 = 0;

fn config(pools: &Path, pool_bytes: u64) -> Config {
    if pool_bytes == AUTO {
        // The first revision is small.
        return Config { pool_directory: pools.into(), shard_bytes: 64 << 20, ..Config::default() };
    }
    // As many chunks of the smaller pools as of the larger ones.
    let chunk_bytes = Some((pool_bytes / 64).clamp(4 << 10, 256 << 10));
    Config { pool_directory: pools.into(), pool_bytes: Some(pool_bytes), chunk_bytes, ..Config::default() }
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
    let config = config(Path::new(&env::var_os("SALVAGE_POOLS").unwrap()), number("SALVAGE_POOL_BYTES"));
    let config = Config { aggregators: number("SALVAGE_AGGREGATORS") as u32, ..config };
    let device = stuck(Disk::make(Path::new(&space)).unwrap());
    let staged = Barrier::new(RANKS);
    run(RANKS, |rank, group| {
        let mut session = Session::open_on(Box::new(group), Arc::new(device.clone()), config.clone()).unwrap();
        let mut state = State::new();
        state.field = vec![0.0; number("SALVAGE_CELLS") as usize];
        state.protect(&mut session);
        filled(&mut state, rank, 1);
        let grows = config.pool_bytes.is_none();
        if grows {
            session.unprotect("field").unwrap();
        }
        session.checkpoint().unwrap();
        session.wait().unwrap();
        if grows {
            ["step", "empty"].into_iter().for_each(|name| session.unprotect(name).unwrap());
            state.protect(&mut session);
        }
        staged.wait();
        device.between.sticks_after(number("SALVAGE_WRITES"));
        filled(&mut state, rank, 2);
        if rank == RANKS - 1 {
            let output = env::var_os("SALVAGE_OUTPUT").unwrap();
            fs::write(&output, [0; 100]).unwrap();
            session.protect_output(Path::new(&output)).unwrap();
        }
        session.checkpoint().unwrap();
        staged.wait();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    });
}

#[test]
fn the_next_start_completes_what_was_staged() {
    // With room for all of it, for a part, and in a pool that was made for a few bytes.
    for (pool_bytes, cells) in [(64 << 20, 2 << 20), (4 << 20, 3_000_001), (AUTO, 2 << 20), (AUTO, 100_001)] {
        let place = Place::new();
        place.kill_job(pool_bytes, cells, ALL);
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2));
        assert_eq!(place.newest(), Some(2));
        assert_eq!(place.files(), [""; 0], "nothing is left in memory");
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2), "and again");
    }
}

/// What members have handed over lies in the pool as their aggregator's own does.
#[test]
fn the_next_start_completes_what_an_aggregator_had_staged() {
    for (aggregators, writes) in [(1, ALL), (1, SOME), (2, SOME)] {
        let place = Place::new();
        place.kill_job_with(aggregators, POOL, CELLS, writes);
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2), "{aggregators} aggregators");
        assert_eq!(place.files(), [""; 0], "nothing is left in memory");
    }
}

/// The pool has room for all of it.
const POOL: u64 = 256 << 10;
const CELLS: usize = 5_001;
/// Writes that the device takes of the second step: a part of the chunks, or all of a plain disk's.
const SOME: u64 = 11;
const ALL: u64 = u64::MAX;

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
    place.kill_job(POOL, CELLS, SOME);
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
    place.kill_job(POOL, CELLS, SOME);
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

/// A directory that is mounted twice, as here one with a link to it, is one space.
#[test]
fn a_space_has_more_than_one_path() {
    let place = Place::new();
    place.kill_job(POOL, CELLS, SOME);
    let link = place.space.path().join("link");
    std::os::unix::fs::symlink(place.space(), &link).unwrap();
    let config = Config { stage: Stage::Direct, ..place.config(POOL) };
    run(1, |_, group| {
        drop(Session::open_on(Box::new(group), Arc::new(Disk::existing(&link)), config.clone()).unwrap());
    });
    assert_eq!((place.newest(), place.files().len()), (Some(2), 0));
}

/// What somebody else can get at is left alone, and keeps nobody from the rest.
#[test]
fn a_pool_that_is_refused_keeps_nobody_from_the_others() {
    let place = Place::new();
    let refused = place.pools.path().join(format!("mainstay-pool-{:032x}", 0));
    place.kill_job(POOL, CELLS, SOME);
    fs::write(&refused, []).unwrap();
    let salvaged = mainstay_engine::tend::salvage(place.pools.path(), None, true).unwrap();
    assert_eq!((salvaged.shards.len(), salvaged.removed, salvaged.left.len()), (RANKS, 1, 1));
    assert_eq!((place.newest(), place.files().len()), (Some(2), 1));
}

/// The revision would tell of bytes that are not there.
#[test]
fn a_shard_whose_output_file_was_cut_is_lost() {
    for (left, newest) in [(Some(100), 2), (Some(99), 1), (None, 1)] {
        let place = Place::new();
        place.kill_job(POOL, CELLS, SOME);
        let cut = |left| fs::File::options().write(true).open(place.output()).unwrap().set_len(left);
        left.map_or_else(|| fs::remove_file(place.output()), cut).unwrap();
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(newest));
        assert_eq!(place.files(), [""; 0]);
    }
}

#[test]
fn a_pool_whose_space_is_gone_is_removed_by_any_start() {
    let place = Place::new();
    place.kill_job(POOL, CELLS, SOME);
    fs::remove_dir_all(place.space()).unwrap();
    assert_eq!(place.restore(&place.space.path().join("another"), 1, POOL, CELLS), None);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn other_ranks_than_before_complete_it_too() {
    let place = Place::new();
    place.kill_job(POOL, CELLS, SOME);
    let config = place.config(POOL);
    run(1, |_, group| Session::open(Box::new(group), &place.space(), config.clone()).unwrap().close().unwrap());
    assert_eq!(place.newest(), Some(2));
    assert_eq!(place.files(), [""; 0]);
    assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2));
}

#[test]
fn a_stage_without_a_pool_completes_what_another_left() {
    let place = Place::new();
    place.kill_job(POOL, CELLS, SOME);
    let config = Config { stage: Stage::Direct, ..place.config(POOL) };
    run(RANKS, |_, group| Session::open(Box::new(group), &place.space(), config.clone()).unwrap().close().unwrap());
    assert_eq!((place.newest(), place.files().len()), (Some(2), 0));
}

/// Whatever a byte of pool and records was changed to: the old revision or the new one, whole.
#[test]
fn what_was_damaged_in_memory_is_never_published_for_whole() {
    let place = Place::new();
    place.kill_job(POOL, CELLS, SOME);
    let (space, pools) = (place.space.path().join("kept"), TempDir::new().unwrap());
    copy(&place.space(), &space);
    copy(place.pools.path(), pools.path());
    let mut random = fastrand::Rng::with_seed(11);
    let mut restored = [0; 2];
    for round in 0..160 {
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
    assert!(restored.iter().all(|count| *count > 20), "{restored:?}");
}

/// Killed again and again while it completes what was left, the salvager comes to an end all the same.
#[test]
fn a_salvager_that_is_killed_is_followed_by_another() {
    let place = Place::new();
    // So large that it takes a while.
    let (pool_bytes, cells) = (16 << 20, 2_500_000);
    place.kill_job(pool_bytes, cells, ALL);
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
            thread::sleep(Duration::from_millis(random.u64(0..60 + 10 * u64::from(killed))));
            salvager.kill().unwrap();
            killed += u32::from(salvager.wait().unwrap().signal() == Some(9));
        }
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2));
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

/// Has room for the shard of one rank.
const CHUNKS_OF_ONE: u64 = 40 << 10;

/// The ranks from `first` on, which have all chunks, are killed when the others wait for those: they go on, and finish
/// their part. So many ranks write for all.
fn kill_ranks(place: &Place, when: &str, first: usize, aggregators: u32) {
    let pool_bytes = (RANKS - first) as u64 * CHUNKS_OF_ONE;
    let meeting = TempDir::new().unwrap();
    let rank = |rank: usize| {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "rank_in_a_process_of_its_own", "--ignored", "--nocapture"])
            .env("SALVAGE_SPACE", place.space())
            .env("SALVAGE_POOLS", place.pools.path())
            .env("SALVAGE_MEETING", meeting.path())
            .env("SALVAGE_RANK", rank.to_string())
            .env("SALVAGE_WHEN", when)
            .env("SALVAGE_FIRST", first.to_string())
            .env("SALVAGE_AGGREGATORS", aggregators.to_string())
            .env("SALVAGE_POOL_BYTES", pool_bytes.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut ranks: Vec<_> = (0..RANKS).map(rank).collect();
    let come = (0..RANKS).try_for_each(|rank| hear(meeting.path(), &format!("come-{rank}")).map(drop));
    // Until they have taken what chunks there are.
    thread::sleep(Duration::from_millis(100));
    ranks[first..].iter_mut().for_each(|rank| rank.kill().unwrap());
    let since = Instant::now();
    let mut ended = Vec::new();
    for rank in &mut ranks {
        while rank.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = rank.kill();
        ended.push(rank.wait().unwrap());
    }
    come.unwrap();
    assert!(ended[first..].iter().all(|status| status.signal() == Some(9)), "{ended:?}");
    assert!(ended[..first].iter().all(|status| status.success()), "{ended:?}");
}

#[test]
#[ignore = "run by the other tests"]
fn rank_in_a_process_of_its_own() {
    let Some(space) = env::var_os("SALVAGE_SPACE") else { return };
    let meeting = PathBuf::from(env::var_os("SALVAGE_MEETING").unwrap());
    let number = |name: &str| env::var(name).unwrap().parse::<u64>().unwrap();
    let (rank, first) = (number("SALVAGE_RANK") as usize, number("SALVAGE_FIRST") as usize);
    let config = config(Path::new(&env::var_os("SALVAGE_POOLS").unwrap()), number("SALVAGE_POOL_BYTES"));
    let config = Config { aggregators: number("SALVAGE_AGGREGATORS") as u32, ..config };
    let device = stuck(Disk::make(Path::new(&space)).unwrap());
    let group = Meeting::new(rank, RANKS, &meeting);
    let mut session = Session::open_on(Box::new(group), Arc::new(device.clone()), config).unwrap();
    let mut state = State::new();
    state.field = vec![0.0; CELLS];
    state.protect(&mut session);
    filled(&mut state, rank, 1);
    // The space is made for what comes next, too.
    session.begin(40_000).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    filled(&mut state, rank, 2);
    session.begin(40_000).unwrap();
    let come = || say(&meeting, &format!("come-{rank}"), &[]);
    if rank >= first {
        device.between.sticks_after(0);
        match env::var("SALVAGE_WHEN").unwrap().as_str() {
            "filling" => session.write("stream", 0, &[7; 40_000]).unwrap(),
            _ => drop(session.checkpoint().unwrap()),
        }
        come();
        thread::sleep(Duration::from_secs(120));
        return;
    }
    (first..RANKS).for_each(|rank| drop(hear(&meeting, &format!("come-{rank}")).unwrap()));
    come();
    session.checkpoint().unwrap();
    while !session.poll().unwrap() {
        thread::sleep(Duration::from_millis(1));
    }
    // As the runtime ends ranks when one is lost.
    std::process::exit(0);
}

#[test]
fn what_a_killed_rank_was_filling_is_given_to_the_others() {
    let place = Place::new();
    kill_ranks(&place, "filling", RANKS - 1, 0);
    assert_eq!(place.newest(), Some(1));
    assert_eq!(place.restore(&place.space(), RANKS, CHUNKS_OF_ONE, CELLS), Some(1));
    assert_eq!(place.files(), [""; 0]);
}

/// They need its chunks, so that they complete its shard themselves; and what it had of another rank that was killed
/// with it: of three ranks with two aggregators, rank 1 writes for rank 2.
#[test]
fn what_a_killed_rank_had_staged_is_completed_by_the_others() {
    for (first, aggregators) in [(2, 0), (1, 2)] {
        let place = Place::new();
        kill_ranks(&place, "staged", first, aggregators);
        assert_eq!(place.newest(), Some(2), "{aggregators} aggregators");
        assert_eq!(place.restore(&place.space(), RANKS, CHUNKS_OF_ONE, CELLS), Some(2));
        assert_eq!(place.files(), [""; 0]);
    }
}
