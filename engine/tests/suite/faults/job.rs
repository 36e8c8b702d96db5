//! Jobs on the space of one row: the saved data, and the data that must come back.

use super::table::{Row, rows};
pub use crate::support::run;
use crate::support::{State, filled};
use mainstay_engine::{
    Config, Error, Region, Restored, Result, Session,
    device::{Device, Disk},
    group::Group,
};
use std::{fs, path::PathBuf, sync::Arc};
use tempfile::TempDir;

/// A space, and the row of the table that is staged on it.
pub struct Scene {
    pub row: Row,
    pub folder: TempDir,
}

/// One rank of a job that has the space open.
pub struct Rank {
    pub rank: usize,
    pub session: Session,
    /// The state does not move while the session is open.
    pub state: Box<State>,
}

pub fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

impl Scene {
    pub fn of(name: &str) -> Scene {
        let row = rows().into_iter().find(|row| row.name == name);
        let row = row.unwrap_or_else(|| panic!("{name} is no row of the table"));
        // The folder is in memory: thousands of openings would otherwise wait for the syncs of a disk.
        Scene { row, folder: TempDir::new_in("/dev/shm").unwrap() }
    }

    pub fn space(&self) -> PathBuf {
        self.folder.path().join("space")
    }

    pub fn disk(&self) -> Arc<dyn Device> {
        Arc::new(Disk::existing(&self.space()))
    }

    /// The only layout file.
    pub fn layout(&self) -> PathBuf {
        let mut files: Vec<_> = fs::read_dir(self.space()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "mainstay"));
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    #[track_caller]
    pub fn check(&self, rank: usize, call: &str, error: &Error) {
        self.row.check(&self.space().display().to_string(), rank, call, error);
    }

    /// Checks the report of a restore that passed over damage.
    #[track_caller]
    pub fn check_report(&self, restored: &Restored) {
        let report = restored.skipped.join("\n");
        assert!(!report.is_empty(), "{}: nothing was reported", self.row.name);
        self.row.check_text(&self.space().display().to_string(), &report);
    }

    pub fn open(&self, rank: usize, group: Box<dyn Group>) -> Rank {
        Rank::new(rank, Session::open(group, &self.space(), small()).unwrap())
    }

    /// Runs a job of `ranks` ranks that saves the revisions 1 and 2 and ends in order.
    pub fn save(&self, ranks: usize) {
        self.save_with(ranks, &small());
    }

    /// The same with these settings.
    pub fn save_with(&self, ranks: usize, config: &Config) {
        run(ranks, |rank, group| {
            let mut job = Rank::new(rank, Session::open(group, &self.space(), config.clone()).unwrap());
            for step in [1, 2] {
                job.save(step).unwrap();
                job.session.wait().unwrap();
            }
            job.session.close().unwrap();
        });
    }

    /// A job of `ranks` ranks restores `step`, bit for bit, and can go on.
    pub fn comes_back(&self, ranks: usize, step: u64) {
        run(ranks, |rank, group| {
            let mut job = self.open(rank, group);
            job.restores(step);
            job.save(step + 10).unwrap();
            job.session.close().unwrap();
        });
        run(ranks, |rank, group| self.open(rank, group).restores(step + 10));
    }

    /// Checks the error that each of `ranks` ranks gets when the job opens the space.
    pub fn refused(&self, ranks: usize) {
        run(ranks, |rank, group| {
            let error = Session::open(group, &self.space(), small()).err();
            self.check(rank, "open", &error.unwrap_or_else(|| panic!("{} was opened", self.row.name)));
        });
    }
}

impl Rank {
    pub fn new(rank: usize, mut session: Session) -> Rank {
        let mut state = Box::new(State::new());
        state.protect(&mut session);
        Rank { rank, session, state }
    }

    pub fn save(&mut self, step: u64) -> Result<u64> {
        filled(&mut self.state, self.rank, step);
        self.session.checkpoint()
    }

    /// The memory must be that of `step`: saving never changes it.
    #[track_caller]
    pub fn holds(&self, step: u64) {
        let mut expected = State::new();
        filled(&mut expected, self.rank, step);
        assert!(*self.state == expected, "rank {} does not hold step {step}", self.rank);
    }

    /// Restores `step`, bit for bit.
    #[track_caller]
    pub fn restores(&mut self, step: u64) -> Restored {
        filled(&mut self.state, self.rank, 99);
        let restored = self.session.restore().unwrap().expect("there is something to restore");
        self.holds(step);
        restored
    }

    pub fn protect(&mut self, region: Result<Region>) -> Result<()> {
        self.session.protect(region?)
    }
}
