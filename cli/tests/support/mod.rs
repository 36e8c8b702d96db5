//! Spaces written by jobs with threads as ranks, and the command run on them.
#![allow(dead_code, reason = "each test uses its part of this")]

use mainstay_engine::{
    Config, LevelPlace, Region, Session, SpaceSurvey, Start, group::ThreadGroup, space::format::ElementType,
};
use serde_json::Value;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

pub const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");
pub const RANKS: usize = 3;
pub const CELLS: usize = 40_000;

pub struct Space {
    pub directory: TempDir,
    pub config: Config,
    /// The name of the space's folder.
    pub name: OsString,
    /// The directory of each node's memory. The ranks are on these nodes in turn. Without nodes, all ranks are on one
    /// node.
    pub nodes: Vec<PathBuf>,
}

/// The field that rank `rank` saves at `step`.
pub fn field(rank: usize, step: u64) -> Vec<f64> {
    (0..CELLS).map(|cell| (cell as f64) + 1e6 * rank as f64 + 1e-3 * step as f64).collect()
}

impl Space {
    pub fn new(keep: u32) -> Space {
        // The tests look at the command's treatment of saved data, and not at a restore of the job.
        let (pool_bytes, chunk_bytes) = (Some(256 << 10), Some(64 << 10));
        // Levels alone; suite/copies.rs adds copies.
        let config =
            Config { keep, pool_bytes, chunk_bytes, memory_copies: 1, start: Start::Fresh, ..Config::default() };
        Space { directory: TempDir::new().unwrap(), config, name: "space".into(), nodes: Vec::new() }
    }

    /// A space with `revisions` revisions.
    pub fn with(keep: u32, revisions: u64) -> Space {
        let space = Space::new(keep);
        space.run(|rank, session, state| {
            for step in 1..=revisions {
                state.copy_from_slice(&field(rank, step));
                session.checkpoint().unwrap();
            }
        });
        space
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    fn config_of(&self, rank: usize) -> Config {
        match self.nodes.get(rank % self.nodes.len().max(1)) {
            Some(node) => Config { memory: LevelPlace::At(node.clone()), ..self.config.clone() },
            None => self.config.clone(),
        }
    }

    /// Runs one job: every rank opens the space, protects its field, does `work` and closes.
    pub fn run(&self, work: impl Fn(usize, &mut Session, &mut [f64]) + Sync) {
        self.run_on(RANKS, work);
    }

    /// The same as `run`, on `ranks` ranks.
    pub fn run_on(&self, ranks: usize, work: impl Fn(usize, &mut Session, &mut [f64]) + Sync) {
        thread::scope(|scope| {
            for (rank, group) in ThreadGroup::new(ranks).into_iter().enumerate() {
                let work = &work;
                scope.spawn(move || {
                    let mut session = Session::open(Box::new(group), &self.path(), self.config_of(rank)).unwrap();
                    let mut state = vec![0.0; CELLS];
                    session.protect(region(&mut state)).unwrap();
                    work(rank, &mut session, &mut state);
                    session.close().unwrap();
                });
            }
        });
        // A process that another test starts has the locks of all tests until it becomes the program.
        let since = Instant::now();
        while SpaceSurvey::is_in_use(&self.path()).unwrap() == Some(true) {
            assert!(since.elapsed() < Duration::from_secs(60), "the space stays in use");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs `look` beside a job that saves one revision after another, from the second on.
    pub fn beside_a_job(&self, look: impl FnOnce() + Send) {
        let (stop, over, meeting) = (AtomicBool::new(false), AtomicBool::new(false), Barrier::new(RANKS));
        let stop = &stop;
        thread::scope(|scope| {
            scope.spawn(move || {
                let _stop = StopAtEnd(stop);
                look();
            });
            self.run(|rank, session, state| {
                for step in 2.. {
                    state.copy_from_slice(&field(rank, step));
                    assert_eq!(session.checkpoint().unwrap(), step);
                    if rank == 0 {
                        over.store(stop.load(Ordering::Acquire), Ordering::Release);
                    }
                    // Otherwise a revision is gone again before a process can find it and hold it.
                    thread::sleep(Duration::from_millis(3));
                    meeting.wait();
                    if over.load(Ordering::Acquire) {
                        break;
                    }
                }
            });
        });
    }

    /// The only layout file.
    pub fn layout(&self) -> PathBuf {
        let mut files = std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|e| e == "mainstay")).unwrap()
    }

    /// The offset of the holds in the layout file.
    pub fn holds_at(&self) -> u64 {
        let header = std::fs::read(self.layout()).unwrap();
        u64::from_le_bytes(header[80..88].try_into().unwrap())
    }

    /// Runs `mainstay ARGUMENTS SPACE`.
    pub fn mainstay(&self, arguments: &[&str]) -> Ran {
        mainstay(arguments, &self.path())
    }
}

/// The job ends even if the looking fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[allow(unsafe_code)]
pub fn region(state: &mut [f64]) -> Region {
    let shape = [4, state.len() as u64 / 4];
    // SAFETY: the state lives longer than the session. Only the session uses it meanwhile.
    unsafe { Region::array("field", state.as_mut_ptr().cast(), ElementType::F64, &shape) }.unwrap()
}

/// The output of the command, and its exit code.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn mainstay(arguments: &[&str], space: &Path) -> Ran {
    Command::new(MAINSTAY).args(arguments).arg(space).output().map(Ran::of).unwrap()
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn refused_usage(&self) {
        assert_eq!(self.code, 2, "{self:?}");
    }

    /// Checks that the command ended with `code`, and that a few lines of reasons hold all of `words`.
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.lines().count() <= 3 && self.err.starts_with("mainstay: "), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
    }
}
