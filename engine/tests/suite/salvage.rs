//! Jobs killed between t2 and t3: the next process completes their staged data.

use crate::support::{
    State, bounded, filled, often,
    processes::{Meeting, hear, say},
    stuck::stuck,
    ways::{ONE_FILE, WAYS, Way, on_one_node},
};
use mainstay_engine::{
    Config, Error, ErrorKind, Session, SpaceSurvey, Stage,
    device::Disk,
    group::ThreadGroup,
    space::Per,
    tend::{self, GoneOver, SalvageFate, Salvaged, SalvagedShard, Unseen},
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const RANKS: usize = 3;
const MEMORY: &str = "/dev/shm";

/// A space, and a folder in memory for the pools of its nodes.
struct Place {
    way: Way,
    space: TempDir,
    pools: TempDir,
    /// The output file of the job.
    output: PathBuf,
}

impl Place {
    fn new(way: Way) -> Place {
        let space = TempDir::new().unwrap();
        let output = space.path().join("output");
        Place { way, space, pools: tempfile::tempdir_in(MEMORY).unwrap(), output }
    }

    fn config(&self, rank: usize, pool_bytes: u64) -> Config {
        config(self.way, rank, self.pools.path(), pool_bytes)
    }

    /// A job that only opens the space.
    fn opens(&self, ranks: usize, stage: Stage) {
        run(ranks, |rank, group| {
            let config = Config { stage, ..self.config(rank, POOL) };
            Session::open(Box::new(group), &self.space(), config).unwrap().close().unwrap();
        });
    }

    /// Runs a job that saves steps 1 and 2 and is killed as a whole just after t2 of the second. Its device takes only
    /// `writes` writes of the second step, from all ranks together.
    fn kill_job(&self, pool_bytes: u64, cells: usize, writes: u64) {
        for _ in 0..10 {
            self.run_killed(pool_bytes, cells, writes);
            // On a very fast disk that takes all writes, the revision may have been complete.
            if self.newest() == Some(1) && !self.files().is_empty() {
                return;
            }
            fs::remove_dir_all(self.space()).unwrap();
            self.files().iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        panic!("each revision was complete at once");
    }

    fn run_killed(&self, pool_bytes: u64, cells: usize, writes: u64) {
        let job = Command::new(env::current_exe().unwrap())
            .args(["--exact", "salvage::job_that_is_killed", "--ignored", "--nocapture"])
            .env("SALVAGE_SPACE", self.space())
            .env("SALVAGE_POOLS", self.pools.path())
            .env("SALVAGE_WAY", self.number())
            .env("SALVAGE_OUTPUT", self.output())
            .env("SALVAGE_POOL_BYTES", pool_bytes.to_string())
            .env("SALVAGE_CELLS", cells.to_string())
            .env("SALVAGE_WRITES", writes.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(job.signal(), Some(9), "{job}");
    }

    fn space(&self) -> PathBuf {
        self.space.path().join("space")
    }

    fn output(&self) -> PathBuf {
        self.output.clone()
    }

    fn newest(&self) -> Option<u64> {
        newest(&self.space())
    }

    /// The files in the memory of all nodes.
    fn files(&self) -> Vec<PathBuf> {
        let nodes = self.way.all_pools(self.pools.path());
        let entries = nodes.iter().flat_map(|node| fs::read_dir(node).unwrap());
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    /// The number of the way, for a process of the job.
    fn number(&self) -> String {
        WAYS.iter().position(|way| *way == self.way).unwrap().to_string()
    }

    /// The layout file with the portion of `rank`, if each node or each rank has one.
    fn layout_of(&self, rank: usize) -> PathBuf {
        let start = format!("layout-000001-{rank:06}-");
        let mut paths = fs::read_dir(self.space()).unwrap().map(|entry| entry.unwrap().path());
        paths.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&start)).unwrap()
    }

    /// The lines on standard error of a job that only opens the space.
    fn told_by_start(&self) -> Vec<String> {
        let ran = Command::new(env::current_exe().unwrap())
            .args(["--exact", "salvage::job_that_opens", "--ignored", "--nocapture"])
            .env("SALVAGE_SPACE", self.space())
            .env("SALVAGE_POOLS", self.pools.path())
            .env("SALVAGE_WAY", self.number())
            .output()
            .unwrap();
        let text = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{text}");
        text.lines().map(str::to_owned).collect()
    }

    /// The revisions that a restore skips, by rank.
    fn skipped(&self) -> Vec<Vec<String>> {
        run(RANKS, |rank, group| {
            let mut session = Session::open(Box::new(group), &self.space(), self.config(rank, POOL)).unwrap();
            let mut state = State::new();
            state.field = vec![0.0; CELLS];
            state.protect(&mut session);
            let restored = session.restore().unwrap().unwrap();
            session.close().unwrap();
            restored.skipped
        })
    }

    /// Each rank's error at the opening.
    fn told_at_opening(&self) -> Vec<Error> {
        run(RANKS, |rank, group| {
            let opened = Session::open(Box::new(group), &self.space(), self.config(rank, POOL));
            opened.err().expect("it opened")
        })
    }

    /// The step that the next job restores; all ranks have that step, whole.
    fn restore(&self, space: &Path, ranks: usize, pool_bytes: u64, cells: usize) -> Option<u64> {
        let found = run(ranks, |rank, group| {
            let mut session = Session::open(Box::new(group), space, self.config(rank, pool_bytes)).unwrap();
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

/// As `writes`: the job is killed once its second revision is complete.
const UNTIL_COMPLETE: u64 = ALL - 1;
/// As `pool_bytes`: the pool sizes itself, and has grown before the job is killed.
const AUTO: u64 = 0;

fn config(way: Way, rank: usize, pools: &Path, pool_bytes: u64) -> Config {
    way.all_pools(pools);
    let config = Config { pool_directory: way.pools_of(rank, pools), per: way.per, ..Config::default() };
    if pool_bytes == AUTO {
        // The first revision is small.
        return Config { shard_bytes: 64 << 20, ..config };
    }
    // The smaller pools have as many chunks as the larger ones.
    let chunk_bytes = Some((pool_bytes / 64).clamp(4 << 10, 256 << 10));
    Config { pool_bytes: Some(pool_bytes), chunk_bytes, ..config }
}

/// The way, as given to a process of its own.
fn told_way() -> Way {
    Way::of(env::var("SALVAGE_WAY").unwrap().parse().unwrap())
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
    let pools = PathBuf::from(env::var_os("SALVAGE_POOLS").unwrap());
    let config = |rank| config(told_way(), rank, &pools, number("SALVAGE_POOL_BYTES"));
    let device = stuck(Disk::make(Path::new(&space)).unwrap());
    let staged = Barrier::new(RANKS);
    run(RANKS, |rank, group| {
        let mut session = Session::open_on(Box::new(group), Arc::new(device.clone()), config(rank)).unwrap();
        let mut state = State::new();
        state.field = vec![0.0; number("SALVAGE_CELLS") as usize];
        state.protect(&mut session);
        filled(&mut state, rank, 1);
        let grows = number("SALVAGE_POOL_BYTES") == AUTO;
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
        if number("SALVAGE_WRITES") == UNTIL_COMPLETE {
            session.wait().unwrap();
        }
        staged.wait();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    });
}

/// A job that opens the space, in a process of its own.
#[test]
#[ignore = "run by the other tests"]
fn job_that_opens() {
    let Some(space) = env::var_os("SALVAGE_SPACE") else { return };
    let pools = PathBuf::from(env::var_os("SALVAGE_POOLS").unwrap());
    run(RANKS, |rank, group| {
        let config = config(told_way(), rank, &pools, POOL);
        Session::open(Box::new(group), Path::new(&space), config).unwrap().close().unwrap();
    });
}

#[test]
fn the_next_start_completes_what_was_staged() {
    // A pool with room for the whole shard, one with room for a part, and one that was made for a few bytes.
    let sizes = [(64 << 20, 2 << 20, ALL), (4 << 20, 3_000_001, ALL), (AUTO, 2 << 20, ALL), (AUTO, 100_001, ALL)];
    let few = |way| (way, (POOL, CELLS, SOME));
    for (way, (pool_bytes, cells, writes)) in sizes.map(|size| (ONE_FILE, size)).into_iter().chain(WAYS.map(few)) {
        let place = Place::new(way);
        place.kill_job(pool_bytes, cells, writes);
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2), "{way}");
        assert_eq!(place.newest(), Some(2));
        assert!(place.is_empty(), "nothing is left in memory");
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2), "and again");
    }
}

/// A process that another test starts keeps this process's descriptors, and with them its locks, until it has become
/// another program.
fn salvage_alone(node: &Path, space: Option<&Path>) -> Salvaged {
    let begun = Instant::now();
    loop {
        let salvaged = tend::salvage(node, space, false).unwrap();
        let is_kept = salvaged.left.iter().any(|left| left.why.contains("a process is in it"));
        if !is_kept || begun.elapsed() > Duration::from_secs(20) {
            return salvaged;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The same by hand, on each node. Commands that look at the space report the staged revision before.
#[test]
fn the_command_completes_what_was_staged() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let nodes = way.all_pools(place.pools.path());
        let staged = |node: &PathBuf| tend::staged(node, &place.space()).unwrap();
        let shards: Vec<u32> = nodes.iter().flat_map(staged).flat_map(|staged| staged.shards).collect();
        assert_eq!(shards, [0, 1, 2], "{way}");
        for (node, space) in nodes.iter().zip([None, Some(&*place.space())]) {
            let salvaged = salvage_alone(node, space);
            let completed = salvaged.shards.iter().all(|shard| shard.fate == SalvageFate::Completed);
            assert!(completed && salvaged.removed == 1 && salvaged.left.is_empty(), "{way}: {salvaged:?}");
        }
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2), "{way}");
    }
}

/// The pool has room for all data.
const POOL: u64 = 256 << 10;
const CELLS: usize = 5_001;
/// The writes of the second step that the device takes: a part of the chunks, or all of a plain disk's.
const SOME: u64 = 11;
const ALL: u64 = u64::MAX;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copied = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &copied);
        } else {
            fs::copy(entry.path(), copied).unwrap();
        }
    }
}

#[test]
fn a_job_that_went_on_elsewhere_is_not_overtaken() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        // On other nodes, which do not see that memory: two steps further.
        let elsewhere = Place::new(way);
        run(RANKS, |rank, group| {
            let mut session = Session::open(Box::new(group), &place.space(), elsewhere.config(rank, POOL)).unwrap();
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
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(8), "{way}");
        assert!(place.is_empty());
    }
}

#[test]
fn a_pool_waits_for_its_own_space() {
    WAYS.into_iter().for_each(waits_for_its_own_space);
}

fn waits_for_its_own_space(way: Way) {
    let place = Place::new(way);
    place.kill_job(POOL, CELLS, SOME);
    let left = place.files();
    assert_eq!(left.len(), way.nodes + RANKS);
    let another = place.space.path().join("another");
    assert_eq!(place.restore(&another, RANKS, POOL, CELLS), None);
    assert_eq!(place.files().len(), left.len(), "its space is there still");
    // A copy of the space that is opened first does not get the revision of the original.
    let copied = place.space.path().join("copied");
    copy(&place.space(), &copied);
    assert_eq!(place.restore(&copied, RANKS, POOL, CELLS), Some(1));
    // The space may have been moved.
    let moved = place.space.path().join("moved");
    fs::rename(place.space(), &moved).unwrap();
    assert_eq!(place.restore(&moved, RANKS, POOL, CELLS), Some(2), "{way}");
    assert!(place.is_empty());
}

/// A directory that is mounted twice is one space. The test uses a link to it.
#[test]
fn a_space_has_more_than_one_path() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let link = place.space.path().join("link");
        std::os::unix::fs::symlink(place.space(), &link).unwrap();
        run(way.nodes, |rank, group| {
            let config = Config { stage: Stage::Direct, ..place.config(rank, POOL) };
            drop(Session::open_on(Box::new(group), Arc::new(Disk::existing(&link)), config).unwrap());
        });
        assert_eq!((place.newest(), place.files().len()), (Some(2), 0), "{way}");
    }
}

/// A pool that another user could change is left alone. It does not keep the start from the other pools.
#[test]
fn a_pool_that_is_refused_keeps_nobody_from_the_others() {
    for way in on_one_node() {
        let place = Place::new(way);
        let refused = place.pools.path().join(format!("mainstay-pool-{:032x}", 0));
        place.kill_job(POOL, CELLS, SOME);
        fs::write(&refused, []).unwrap();
        let salvaged = tend::salvage(place.pools.path(), None, true).unwrap();
        assert_eq!((salvaged.shards.len(), salvaged.removed, salvaged.left.len()), (RANKS, 1, 1));
        assert_eq!((place.newest(), place.files().len()), (Some(2), 1), "{way}");
    }
}

/// The revision would name bytes that are not there.
#[test]
fn a_shard_whose_output_file_was_cut_is_lost() {
    for (way, (left, newest)) in WAYS.into_iter().zip([(100, 2), (99, 1)].into_iter().cycle()) {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        fs::File::options().write(true).open(place.output()).unwrap().set_len(left).unwrap();
        let given_up = place.told_by_start().into_iter().filter(|line| line.contains("revision 2 was staged"));
        let given_up: Vec<String> = given_up.collect();
        assert_eq!(given_up.len(), usize::from(newest == 1), "{way}: {given_up:?}");
        assert!(given_up.iter().all(|line| line.contains("output has 99 of the 100 bytes")), "{given_up:?}");
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(newest), "{way}");
        assert!(place.is_empty());
    }
}

/// The revision was dropped, although its output file still existed under another name.
#[test]
fn a_shard_whose_output_file_was_renamed_is_completed() {
    // The file was rotated, or another file has its name meanwhile.
    for (way, newer) in on_one_node().zip([None, Some(50), Some(150)].into_iter().cycle()) {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        fs::rename(place.output(), place.output().with_extension("1")).unwrap();
        newer.iter().for_each(|bytes| fs::write(place.output(), vec![1; *bytes]).unwrap());
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2), "{way}, {newer:?}");
        assert!(place.is_empty());
    }
}

/// If the file was gone, the revision was dropped without a message. If its directory was gone, the message named no
/// file.
#[test]
fn a_shard_waits_for_its_output_file_to_be_put_back() {
    for (way, is_directory) in on_one_node().zip([false, true].into_iter().cycle()) {
        let place = Place::new(way);
        let elsewhere = TempDir::new().unwrap();
        let logs = if is_directory { place.space.path().join("logs") } else { place.space.path().to_owned() };
        fs::create_dir_all(&logs).unwrap();
        let away = elsewhere.path().join("away");
        let output = logs.join("output");
        let place = Place { output: output.clone(), ..place };
        place.kill_job(POOL, CELLS, SOME);
        let moved = if is_directory { &logs } else { &output };
        fs::rename(moved, &away).unwrap();
        let (path, left) = (output.display().to_string(), place.files().len());
        let is_told = |told: &str| {
            for says in [&*path, "is missing", "100 bytes", "put it back"] {
                assert!(told.contains(says), "{way}: {told}");
            }
        };
        for error in place.told_at_opening() {
            assert_eq!(error.kind(), ErrorKind::OutputShort, "{error}");
            let told = error.to_string();
            is_told(&told);
            assert!(told.contains("revision 2, shard 2") && told.contains("start again"), "{told}");
        }
        is_told(&tend::salvage(place.pools.path(), None, false).unwrap().left[0].why);
        assert_eq!((place.newest(), place.files().len()), (Some(1), left), "{way}");
        fs::rename(&away, moved).unwrap();
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2), "{way}");
        assert!(place.is_empty());
    }
}

/// A directory of runs was renamed, with the space and the log in it.
#[test]
fn a_shard_finds_its_output_file_in_a_directory_that_moved() {
    for way in on_one_node() {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let moved = TempDir::new().unwrap();
        let run = moved.path().join("run");
        fs::rename(place.space.path(), &run).unwrap();
        assert_eq!(place.restore(&run.join("space"), RANKS, POOL, CELLS), Some(2), "{way}");
        assert!(place.is_empty());
    }
}

/// A change to a file, and the text that must report it.
type Harm = (fn(&Path), &'static str);

/// The kinds of damage to a record of rank 1, and the report of each.
fn harms() -> Vec<Harm> {
    fn changed(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
    vec![
        (|path| changed(path, |bytes| bytes[1024 + 33] ^= 1), "its seal does not match"),
        (|path| changed(path, |bytes| bytes[8] ^= 1), "it does not begin as a record"),
        (|path| changed(path, |bytes| bytes.truncate(5000)), "its numbers contradict each other"),
        (|path| fs::remove_file(path).unwrap(), "a record beside it is gone"),
    ]
}

/// The shard was lost without a message, and its pool was removed. A start of another space leaves the pool to its own
/// space.
#[test]
fn a_record_that_is_damaged_or_gone_is_told() {
    for (way, (harm, says)) in WAYS.into_iter().zip(harms()) {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let record = place.files().into_iter().find(|path| path.extension().is_some_and(|rank| rank == "1")).unwrap();
        harm(&record);
        let left = place.files().len();
        let node = way.pools_of(1, place.pools.path());
        let looked = tend::salvage(&node, Some(&place.space.path().join("another")), false);
        assert!(looked.is_err() || !looked.unwrap().left.is_empty());
        assert_eq!(place.restore(&place.space.path().join("another"), RANKS, POOL, CELLS), None);
        assert_eq!(place.files().len(), left, "{way}: {says}");

        // The command reports it at every call, and completes the other shards.
        for _ in 0..2 {
            let salvaged = tend::salvage(&node, None, false).unwrap();
            let why = &salvaged.left[0].why;
            assert!(why.contains(says) && salvaged.left[0].damaged, "{way}: {salvaged:?}");
            assert!(salvaged.shards.iter().all(|shard| shard.shard != 1));
        }
        let told = place.skipped();
        assert!(told.iter().all(|told| *told == told[..1]), "each rank is told, once: {told:?}");
        let told = &told[0][0];
        assert!(told.starts_with("revision 2, ") && told.contains("lost") && told.contains(says), "{way}: {told}");
        assert_eq!((place.newest(), place.files().len()), (Some(1), 0), "{way}");
        assert_eq!(place.skipped(), vec![vec![""; 0]; RANKS], "told once");
    }
}

/// A record that is alone in its pool no longer names a space: the pool does.
#[test]
fn the_only_record_that_is_damaged_or_gone_is_told() {
    for (harm, says) in harms() {
        let place = Place::new(Way { per: Per::Rank, nodes: 2 });
        place.kill_job(POOL, CELLS, SOME);
        let of_rank_0 = |path: &PathBuf| path.extension().is_some_and(|rank| rank == "0");
        harm(&place.files().into_iter().find(of_rank_0).unwrap());
        let left = place.files().len();
        assert_eq!(place.restore(&place.space.path().join("another"), RANKS, POOL, CELLS), None);
        assert_eq!(place.files().len(), left, "{says}");
        let told = place.skipped();
        assert!(told.iter().all(|told| told.len() == 1 && told[0].contains(says)), "{told:?}");
    }
}

/// The start of another space removed the pool, and its own space got no report. The same happened if the pool was
/// gone.
#[test]
fn a_pool_that_is_damaged_or_gone_is_told_by_its_own_space() {
    let harms: [Harm; 2] = [
        (|path| fs::write(path, [0; 4096]).unwrap(), "it does not begin as a pool"),
        (|path| fs::remove_file(path).unwrap(), "its pool is gone"),
    ];
    for (way, (harm, says)) in on_one_node().zip(harms) {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        harm(&place.files().into_iter().find(|path| path.extension().is_none()).unwrap());
        let left = place.files().len();
        assert_eq!(place.restore(&place.space.path().join("another"), RANKS, POOL, CELLS), None);
        assert_eq!(place.files().len(), left, "{says}");
        let told = place.skipped();
        assert!(told.iter().all(|told| told.len() == 1 && told[0].contains(says)), "{told:?}");
    }
}

/// A start removed the files, and the staged revision was lost, although a chmod would have been enough. Starts are
/// refused until the mode is corrected. The command reports the same, with any characters in the path.
#[test]
fn what_has_another_mode_waits_until_that_is_mended() {
    for (way, of) in WAYS.into_iter().flat_map(|way| ["record", "pool", "all"].map(|of| (way, of))) {
        let place = Place {
            pools: tempfile::Builder::new().prefix("es\x1bcape").tempdir_in(MEMORY).unwrap(),
            ..Place::new(way)
        };
        place.kill_job(POOL, CELLS, SOME);
        let is_here = |path: &Path| path.parent() == Some(&*way.pools_of(1, place.pools.path()));
        let is_it = |path: &PathBuf| match of {
            "pool" => path.extension().is_none() && is_here(path),
            "record" => path.extension().is_some_and(|rank| rank == "1"),
            _ => is_here(path),
        };
        let changed: Vec<PathBuf> = place.files().into_iter().filter(is_it).collect();
        let set = |mode| {
            let set = |path| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            changed.iter().for_each(set);
        };
        set(0o640);
        for _ in 0..2 {
            let told = place.told_at_opening();
            let says = match of {
                // No readable file names the revision.
                "all" => vec!["its mode is 640, not 600"],
                _ => vec!["revision 2", "its mode is 640, not 600", "chmod 600", "stays in memory"],
            };
            assert!(told.iter().all(|told| says.iter().all(|says| told.to_string().contains(says))), "{way}: {told:?}");
            let salvaged = tend::salvage(&way.pools_of(1, place.pools.path()), Some(&place.space()), false).unwrap();
            let [left] = &salvaged.left[..] else { panic!("{salvaged:?}") };
            assert!(left.damaged && left.why.contains("correct that (a mode by chmod 600)"), "{way}: {left:?}");
            assert!(!left.why.contains('\x1b'), "{left:?}");
        }
        set(0o600);
        assert_eq!((place.restore(&place.space(), RANKS, POOL, CELLS), place.is_empty()), (Some(2), true), "{way}");
    }
}

/// A pool of an older build was reported lost and removed, although that build could complete its staged revision.
#[test]
fn what_another_version_staged_is_left_to_it() {
    for way in on_one_node() {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let pool = place.files().into_iter().find(|path| path.extension().is_none()).unwrap();
        let ours = fs::read(&pool).unwrap();
        let mut older = ours.clone();
        older[8] = 1;
        // Its header ends at another place.
        older[16..100].iter_mut().for_each(|byte| *byte ^= 1);
        fs::write(&pool, &older).unwrap();
        let left = place.files().len();
        for _ in 0..2 {
            let told = place.told_at_opening();
            let says = ["revision 2", "made by another version of Mainstay (version 1)", "stays in memory"];
            assert!(told.iter().all(|told| says.iter().all(|says| told.to_string().contains(says))), "{told:?}");
            let salvaged = tend::salvage(place.pools.path(), Some(&place.space()), false).unwrap();
            assert!(salvaged.left[0].why.contains("made by another version"), "{salvaged:?}");
        }
        assert_eq!(place.restore(&place.space.path().join("another"), RANKS, POOL, CELLS), None);
        assert_eq!(place.files().len(), left);
        fs::write(&pool, &ours).unwrap();
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2));
    }
}

/// A prune between the kill and the next start ended the claims of nodes whose memory it does not see.
#[test]
fn claims_that_are_out_of_sight_are_known_of() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let check = |seen: &GoneOver| {
            Unseen::Waits(seen).check(&SpaceSurvey::open(&place.space()).unwrap()).map_err(|told| told.to_string())
        };
        let told = check(&GoneOver::default()).unwrap_err();
        assert!(told.contains("staged by ranks 0 to 2") && told.contains("--give-up-staged"), "{told}");
        // No visible revision would be removed, but the revision that is staged elsewhere would come back.
        let (space, nothing) = (place.space(), GoneOver::default());
        let newest = SpaceSurvey::open(&space).unwrap().newest().unwrap().key;
        let refused = tend::rollback(&[(&space, Unseen::Waits(&nothing))], newest, &|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfSight, "{way}");
        let seen = tend::salvage(&way.pools_of(0, place.pools.path()), Some(&place.space()), false).unwrap().gone_over;
        match way.nodes {
            1 => check(&seen).unwrap(),
            _ => assert!(check(&seen).unwrap_err().contains("staged by ranks 1 to 2"), "{way}"),
        }
        Unseen::GivenUp.check(&SpaceSurvey::open(&place.space()).unwrap()).unwrap();
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2), "{way}");
        check(&GoneOver::default()).unwrap();
    }
}

/// The start of another space removed the pool of a killed job, in which nothing waited. After that, no command wrote
/// to the space of that job, because its memory was gone, and no salvage found it.
#[test]
fn a_pool_that_another_space_has_removed_claims_nothing() {
    let place = Place::new(ONE_FILE);
    place.run_killed(POOL, CELLS, UNTIL_COMPLETE);
    assert!(place.newest() == Some(2) && !place.is_empty());
    assert_eq!(place.restore(&place.space.path().join("another"), RANKS, POOL, CELLS), None);
    assert!(place.is_empty());
    let seen = tend::salvage(place.pools.path(), Some(&place.space()), false).unwrap().gone_over;
    Unseen::Waits(&seen).check(&SpaceSurvey::open(&place.space()).unwrap()).unwrap();
}

/// No rank sees the file of the portion for now. The revision is not given up, and is complete when the file is back.
#[test]
fn what_belongs_to_a_file_out_of_sight_waits_for_it() {
    for (missing, way) in
        WAYS.into_iter().filter(|way| way.per != Per::App && (way.per, way.nodes) != (Per::Node, 1)).enumerate()
    {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        let left = place.files().len();
        let (layout, aside) = (place.layout_of(missing % 2), place.space.path().join("aside"));
        fs::rename(&layout, &aside).unwrap();
        for _ in 0..2 {
            for (rank, told) in place.told_at_opening().into_iter().enumerate() {
                let text = told.to_string();
                assert_eq!(told.kind(), ErrorKind::OutOfSight, "{way}, rank {rank}: {text}");
                let says = [
                    "revision 2",
                    "could not be completed",
                    "layout-*-",
                    "has the portion of rank",
                    "back",
                    "remove /dev/shm/",
                ];
                assert!(says.iter().all(|what| text.contains(what)), "{text}");
            }
            for node in way.all_pools(place.pools.path()) {
                // A child that another test starts has the locks of this process until it runs its program.
                let is_in_use =
                    |salvaged: &Salvaged| salvaged.shards.iter().any(|shard| matches!(shard.fate, SalvageFate::InUse));
                let salvaged = bounded("children that start", || {
                    loop {
                        let salvaged = tend::salvage(&node, Some(&place.space()), false).unwrap();
                        if !is_in_use(&salvaged) {
                            return salvaged;
                        }
                    }
                });
                let fits = |shard: &SalvagedShard| match &shard.fate {
                    SalvageFate::Failed(why) => why.contains("has the portion of rank"),
                    fate => matches!(fate, SalvageFate::Completed | SalvageFate::WasComplete),
                };
                assert!(salvaged.shards.iter().all(fits), "{salvaged:?}");
            }
        }
        // The start of another space checks whether the pool is still needed.
        assert_eq!(place.restore(&place.space.path().join("another"), RANKS, POOL, CELLS), None);
        assert!(place.files().len() >= 2 && place.files().len() <= left, "{way}");
        fs::rename(&aside, &layout).unwrap();
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2), "{way}");
        assert!(place.is_empty());
    }
}

/// A newer job on other nodes has gone on without the staged revision. A file of its layout is missing, and the salvage
/// does not wait for it.
#[test]
fn what_a_newer_job_has_gone_on_without_waits_for_no_file() {
    let place = Place::new(Way { per: Per::Rank, nodes: 1 });
    place.kill_job(POOL, CELLS, SOME);
    let elsewhere = Place::new(place.way);
    run(RANKS, |rank, group| {
        Session::open(Box::new(group), &place.space(), elsewhere.config(rank, POOL)).unwrap().close().unwrap();
    });
    let layout = place.layout_of(1);
    let aside = place.space.path().join("aside");
    fs::rename(&layout, &aside).unwrap();
    let salvaged = tend::salvage(place.pools.path(), Some(&place.space()), false).unwrap();
    assert!(salvaged.shards.iter().all(|shard| matches!(shard.fate, SalvageFate::Lost(_))), "{salvaged:?}");
    assert_eq!((salvaged.shards.len(), place.files().len()), (RANKS, 0));
}

/// A start that sees nothing of the layout may be refused because of the files that other ranks see. Then the staged
/// revision waits as well.
#[test]
fn what_waits_for_a_layout_out_of_sight_outlives_a_refused_start() {
    let place = Place::new(Way { per: Per::Node, nodes: 2 });
    place.kill_job(POOL, CELLS, SOME);
    // Rank 0 sees only its file, the others nothing, as on nodes with disks of their own.
    let disk = |rank: usize| if rank == 0 { place.space() } else { place.space.path().join("other disk") };
    fs::rename(place.layout_of(1), place.space.path().join("aside")).unwrap();
    let left = place.files().len();
    let errors = run(RANKS, |rank, group| {
        Session::open(Box::new(group), &disk(rank), place.config(rank, POOL)).err().expect("it opened").kind()
    });
    assert_eq!(errors, [ErrorKind::OutOfSight; RANKS]);
    assert!(place.files().len() >= left - 2, "{:?}", place.files());
}

#[test]
fn a_pool_whose_space_is_gone_is_removed_by_any_start() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        fs::remove_dir_all(place.space()).unwrap();
        assert_eq!(place.restore(&place.space.path().join("another"), way.nodes, POOL, CELLS), None);
        assert!(place.is_empty(), "{way}");
    }
}

#[test]
fn other_ranks_than_before_complete_it_too() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        place.opens(way.nodes, Stage::Pool);
        assert_eq!(place.newest(), Some(2), "{way}");
        assert!(place.is_empty());
        assert_eq!(place.restore(&place.space(), RANKS, POOL, CELLS), Some(2));
    }
}

#[test]
fn a_stage_without_a_pool_completes_what_another_left() {
    for way in WAYS {
        let place = Place::new(way);
        place.kill_job(POOL, CELLS, SOME);
        place.opens(RANKS, Stage::Direct);
        assert_eq!((place.newest(), place.files().len()), (Some(2), 0), "{way}");
    }
}

/// A byte of the pool or the records changes to any value: the restore gives the old revision or the new one, whole.
#[test]
fn what_was_damaged_in_memory_is_never_published_for_whole() {
    let mut restored = [0; 2];
    for (seed, way) in WAYS.into_iter().enumerate() {
        restored = damaged_in_memory(way, 11 + seed as u64, often(9, 27), restored);
    }
    assert!(restored.iter().all(|count| *count > often(5, 20)), "{restored:?}");
}

/// Does this `rounds` times. Returns the number of restores of the old and the new revision, added to `restored`.
fn damaged_in_memory(way: Way, seed: u64, rounds: u64, mut restored: [u64; 2]) -> [u64; 2] {
    let place = Place::new(way);
    place.kill_job(POOL, CELLS, SOME);
    let (space, pools) = (place.space.path().join("kept"), TempDir::new().unwrap());
    copy(&place.space(), &space);
    copy(place.pools.path(), pools.path());
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds {
        fs::remove_dir_all(place.space()).unwrap();
        copy(&space, &place.space());
        copy(pools.path(), place.pools.path());
        let files = place.files();
        // The chunks have no checksum until they are written, so only bytes before them change.
        let path = &files[random.usize(0..files.len())];
        let mut bytes = fs::read(path).unwrap();
        let end = if path.extension().is_some() { bytes.len() } else { 8192.min(bytes.len()) };
        match round % 4 {
            0 => bytes.truncate(random.usize(0..end)),
            _ => (0..random.usize(1..4)).for_each(|_| bytes[random.usize(0..end)] ^= 1 << random.u8(0..8)),
        }
        fs::write(path, bytes).unwrap();
        let step = place.restore(&place.space(), RANKS, POOL, CELLS).unwrap();
        restored[step as usize - 1] += 1;
        assert!(place.is_empty(), "{way}, round {round}");
    }
    restored
}

/// A salvager that is killed again and again still finishes.
#[test]
fn a_salvager_that_is_killed_is_followed_by_another() {
    // The data is so large that a salvage takes a while.
    let (pool_bytes, cells) = (16 << 20, 2_500_000);
    let mut random = fastrand::Rng::with_seed(5);
    let mut killed = 0;
    for way in &WAYS[..4] {
        let place = Place::new(*way);
        place.kill_job(pool_bytes, cells, ALL);
        let mut tries = 0;
        while place.newest() == Some(1) {
            tries += 1;
            assert!(tries < 100, "no salvager comes to an end: {way}");
            let mut salvager = Command::new(env::current_exe().unwrap())
                .args(["--exact", "salvage::salvager_that_is_killed", "--ignored", "--nocapture"])
                .env("SALVAGE_SPACE", place.space())
                .env("SALVAGE_POOLS", place.pools.path())
                .env("SALVAGE_WAY", place.number())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(Duration::from_millis(random.u64(0..10 + 10 * u64::from(killed))));
            salvager.kill().unwrap();
            killed += u32::from(salvager.wait().unwrap().signal() == Some(9));
        }
        assert_eq!(place.restore(&place.space(), RANKS, pool_bytes, cells), Some(2), "{way}");
        assert!(place.is_empty());
    }
    tell!("{killed} salvagers killed");
    assert!(killed > 3);
}

#[test]
#[ignore = "run by the other tests"]
fn salvager_that_is_killed() {
    let Some(space) = env::var_os("SALVAGE_SPACE") else { return };
    let pools = env::var_os("SALVAGE_POOLS").unwrap();
    for node in told_way().all_pools(Path::new(&pools)) {
        tend::salvage(&node, Some(Path::new(&space)), false).unwrap();
    }
}

/// Room for the shard of one rank.
const CHUNKS_OF_ONE: u64 = 40 << 10;

/// The ranks from `first` on have all chunks. They are killed when the others wait for those chunks. The others go on,
/// and finish their part.
fn kill_ranks(place: &Place, when: &str, first: usize) {
    let pool_bytes = (RANKS - first) as u64 * CHUNKS_OF_ONE;
    let meeting = TempDir::new().unwrap();
    let rank = |rank: usize| {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "salvage::rank_in_a_process_of_its_own", "--ignored", "--nocapture"])
            .env("SALVAGE_SPACE", place.space())
            .env("SALVAGE_POOLS", place.pools.path())
            .env("SALVAGE_WAY", place.number())
            .env("SALVAGE_MEETING", meeting.path())
            .env("SALVAGE_RANK", rank.to_string())
            .env("SALVAGE_WHEN", when)
            .env("SALVAGE_FIRST", first.to_string())
            .env("SALVAGE_POOL_BYTES", pool_bytes.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut ranks: Vec<_> = (0..RANKS).map(rank).collect();
    let come = (0..RANKS).try_for_each(|rank| hear(meeting.path(), &format!("come-{rank}")).map(drop));
    // Until they have taken all free chunks.
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
    let pools = PathBuf::from(env::var_os("SALVAGE_POOLS").unwrap());
    let config = config(told_way(), rank, &pools, number("SALVAGE_POOL_BYTES"));
    let device = stuck(Disk::make(Path::new(&space)).unwrap());
    let group = Meeting::new(rank, RANKS, &meeting);
    let mut session = Session::open_on(Box::new(group), Arc::new(device.clone()), config).unwrap();
    let mut state = State::new();
    state.field = vec![0.0; CELLS];
    state.protect(&mut session);
    filled(&mut state, rank, 1);
    // The space gets the size for the next checkpoint, too.
    session.begin(40_000).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    filled(&mut state, rank, 2);
    session.begin(40_000).unwrap();
    let come = || say(&meeting, &format!("come-{rank}"), &[]);
    if rank >= first {
        device.between.sticks_after(0);
        let when = env::var("SALVAGE_WHEN").unwrap();
        match when.as_str() {
            "filling" => session.write("stream", 0, &[7; 40_000]).unwrap(),
            _ => drop(session.checkpoint().unwrap()),
        }
        if when == "locked" {
            outlive_locks_of(Path::new(&space));
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
    // The runtime ends ranks like this when one is lost.
    std::process::exit(0);
}

/// Another process holds this process's locks in the space for some moments after its end. The kernel does so when it
/// ends a process on a busy machine.
#[expect(clippy::zombie_processes, reason = "it outlives this process")]
fn outlive_locks_of(space: &Path) {
    let is_lock = |fd: &i32| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|path| path == space.join("lock"));
    let all = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let all = all.map(|name| name.to_str().unwrap().parse().unwrap());
    let itself = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for fd in all.filter(is_lock) {
        let held = pidfd_getfd(&itself, fd, PidfdGetfdFlags::empty()).unwrap();
        Command::new("sleep").arg("0.3").stdin(held).stdout(Stdio::null()).spawn().unwrap();
    }
}

#[test]
fn what_a_killed_rank_was_filling_is_given_to_the_others() {
    for way in WAYS {
        let place = Place::new(way);
        kill_ranks(&place, "filling", RANKS - 1);
        assert_eq!(place.newest(), Some(1));
        assert_eq!(place.restore(&place.space(), RANKS, CHUNKS_OF_ONE, CELLS), Some(1), "{way}");
        assert!(place.is_empty());
    }
}

/// A revision was lost: the lock of the portion was still held when the lock of the member was free.
#[test]
fn what_a_killed_rank_had_staged_is_completed_also_if_its_locks_go_late() {
    for way in WAYS {
        let place = Place::new(way);
        kill_ranks(&place, "locked", 2);
        assert_eq!(place.newest(), Some(2), "{way}");
        assert_eq!(place.restore(&place.space(), RANKS, CHUNKS_OF_ONE, CELLS), Some(2));
        assert!(place.is_empty());
    }
}

/// The other ranks need the chunks, so they complete the shard themselves.
#[test]
fn what_a_killed_rank_had_staged_is_completed_by_the_others() {
    for way in WAYS {
        let place = Place::new(way);
        kill_ranks(&place, "staged", RANKS - 1);
        assert_eq!(place.newest(), Some(2), "{way}");
        assert_eq!(place.restore(&place.space(), RANKS, CHUNKS_OF_ONE, CELLS), Some(2));
        assert!(place.is_empty());
    }
}
