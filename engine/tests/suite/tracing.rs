//! With `trace` each rank records the pages of its protected memory that it writes between two moments.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use mainstay_engine::{
    Capture, Config, ErrorKind, LevelPlace, Region, Session,
    group::Solo,
    predict::{Moment, Reader, Written},
};
use nix::sys::resource::{Resource, setrlimit};
use std::{
    env,
    fs::File,
    io::BufReader,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PAGE: usize = 4096;

/// Memory that begins at a page boundary.
struct Pages {
    memory: Vec<u8>,
    first: usize,
}

impl Pages {
    fn new(count: usize) -> Pages {
        let memory = vec![0; (count + 1) * PAGE];
        let first = memory.as_ptr().align_offset(PAGE);
        Pages { memory, first }
    }

    fn write(&mut self, page: usize) {
        let byte = &mut self.memory[self.first + page * PAGE + 7];
        *byte = byte.wrapping_add(1);
    }

    fn number(&self) -> u64 {
        ((self.memory.as_ptr().addr() + self.first) / PAGE) as u64
    }

    fn region(&mut self, name: &str, from: usize, bytes: usize) -> Region {
        let memory = &mut self.memory[self.first..][from..from + bytes];
        // SAFETY: the tests keep the memory for as long as it is protected.
        unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
    }
}

fn traced(folder: &Path, more: Config) -> Config {
    Config { trace: Some(folder.join("traces")), ..more }
}

fn records(folder: &Path) -> Vec<Written> {
    let path = folder.join("traces/rank-0.trace");
    Reader::new(BufReader::new(File::open(&path).unwrap()), "rank-0.trace").collect::<Result<_, _>>().unwrap()
}

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

fn needs_pages() -> bool {
    // Other kernels trace nothing, and the session reports that.
    std::fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| {
        let mut parts = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next(), parts.next()) >= (Some(6), Some(7))
    })
}

#[test]
fn each_moment_tells_what_was_written_since_the_one_before() {
    if !needs_pages() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (mut memory, mut later) = (Pages::new(40), Pages::new(3));
    for capture in [Capture::Whole, Capture::Incremental] {
        let config = traced(folder.path(), Config { capture, ..small() });
        let mut session = Session::open(Box::new(Solo), &folder.path().join(format!("{capture:?}")), config).unwrap();
        // Two regions that share a page, and a gap that is not protected.
        session.protect(memory.region("one", 0, 20 * PAGE + 10)).unwrap();
        session.protect(memory.region("two", 20 * PAGE + 100, 4 * PAGE)).unwrap();
        memory.write(3);
        session.restore().unwrap();
        memory.write(5);
        memory.write(6);
        memory.write(22);
        memory.write(30);
        session.tick().unwrap();
        session.checkpoint().unwrap();
        memory.write(5);
        session.protect(later.region("later", 0, 3 * PAGE)).unwrap();
        later.write(1);
        session.due(1).unwrap();
        later.write(2);
        session.checkpoint().unwrap();
        session.due(2).unwrap();
        session.close().unwrap();
        let (first, other) = (memory.number(), later.number());
        let told: Vec<_> = records(folder.path()).into_iter().map(|one| (one.moment, one.stretches)).collect();
        let mut grown = vec![(first + 5, 1), (other, 3)];
        grown.sort_unstable();
        let expected = [
            (Moment::Iteration, vec![]),
            (Moment::Tick, vec![(first + 5, 2), (first + 22, 1)]),
            (Moment::Iteration, vec![]),
            (Moment::Checkpoint, vec![]),
            (Moment::Iteration, grown),
            (Moment::Checkpoint, vec![(other + 2, 1)]),
            (Moment::Iteration, vec![]),
        ];
        assert_eq!(told, expected, "{capture:?}");
    }
    let told = records(folder.path());
    assert!(told.is_sorted_by_key(|one| one.at_us) && told.iter().all(|one| one.resident > 0));
}

/// The trace once used processor time: if a program waited for others, pages seemed to have no time to be saved.
#[test]
fn the_time_of_a_program_passes_while_it_sleeps() {
    if !needs_pages() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut memory = Pages::new(20);
    let mut session =
        Session::open(Box::new(Solo), &folder.path().join("space"), traced(folder.path(), small())).unwrap();
    session.protect(memory.region("one", 0, 20 * PAGE)).unwrap();
    let begun = Instant::now();
    session.restore().unwrap();
    let sleep = Duration::from_millis(20);
    for _ in 0..3 {
        thread::sleep(sleep);
        session.tick().unwrap();
        session.checkpoint().unwrap();
    }
    let all = begun.elapsed();
    session.close().unwrap();
    let told = records(folder.path());
    let took = Duration::from_micros(told.last().unwrap().at_us - told[0].at_us);
    assert!((3 * sleep..=all).contains(&took), "{took:?} of {all:?}, of which it slept {:?}", 3 * sleep);
}

#[test]
fn the_clock_names_moments_too() {
    if !needs_pages() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut memory = Pages::new(20);
    let config = traced(folder.path(), Config { tick_every: Duration::from_millis(1), ..small() });
    let mut session = Session::open(Box::new(Solo), &folder.path().join("space"), config).unwrap();
    session.protect(memory.region("one", 0, 20 * PAGE)).unwrap();
    session.restore().unwrap();
    let ticks = |at_least: usize| {
        while records(folder.path()).len() < at_least {
            thread::sleep(Duration::from_millis(1));
        }
    };
    ticks(3);
    memory.write(4);
    ticks(records(folder.path()).len() + 2);
    session.close().unwrap();
    let told = records(folder.path());
    assert!(told[1..].iter().all(|one| one.moment == Moment::Tick));
    let written: Vec<_> = told.into_iter().flat_map(|one| one.stretches).collect();
    assert_eq!(written, [(memory.number() + 4, 1)]);
}

#[test]
fn where_no_trace_can_be_made_the_program_goes_on() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("traces"), "a file").unwrap();
    let mut memory = Pages::new(20);
    let mut session =
        Session::open(Box::new(Solo), &folder.path().join("space"), traced(folder.path(), small())).unwrap();
    session.protect(memory.region("one", 0, 20 * PAGE)).unwrap();
    session.restore().unwrap();
    session.tick().unwrap();
    assert_eq!(session.checkpoint().unwrap(), 1);
    session.close().unwrap();
}

/// The largest file that the program of the next tests may write.
const LIMIT: u64 = 4 << 20;
const TASK: &str = "TRACING_FOLDER";

/// Story: SIGXFSZ ended the program when its trace, or the note of its levels, reached the limit (`ulimit -f`).
#[test]
fn a_program_outlives_the_limit_on_its_files() {
    for limit in [LIMIT, 0] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let test = ["--exact", "tracing::program_with_a_limit", "--ignored"];
        let mut command = Command::new(env::current_exe().unwrap());
        let ran = command.args(test).env(TASK, folder.path()).env("LIMIT", limit.to_string()).output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{:?}: {told}", ran.status);
        if limit > 0 && needs_pages() {
            assert!(told.contains("the trace ends here: "), "{told}");
            assert!(records(folder.path()).len() > 10);
        }
    }
}

#[test]
#[ignore = "run by the other test"]
fn program_with_a_limit() {
    let Some(folder) = env::var_os(TASK).map(std::path::PathBuf::from) else { return };
    let limit = env::var("LIMIT").unwrap().parse().unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, limit, limit).unwrap();
    let mut memory = Pages::new(2000);
    let memory_level = LevelPlace::At(folder.join("memory"));
    let more = if limit == 0 { Config { memory: memory_level, ..small() } } else { small() };
    let mut session = match Session::open(Box::new(Solo), &folder.join("space"), traced(&folder, more)) {
        Err(error) if limit == 0 => return assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}"),
        opened => opened.unwrap(),
    };
    session.protect(memory.region("one", 0, 100 * PAGE)).unwrap();
    session.restore().unwrap();
    session.checkpoint().unwrap();
    for _ in 0..8000 {
        (0..100).step_by(2).for_each(|page| memory.write(page));
        session.tick().unwrap();
    }
    session.checkpoint().unwrap();
    session.close().unwrap();
}
