//! Looking at a space while a job overwrites it: at every single read of the looking, the job saves
//! so often that all that was there before is gone. Nothing of that is damage.

mod support;

use mainstay_engine::{
    Config, Session, SpaceSurvey, Verified,
    device::{Access, Device, Disk, File, LockFile, Room},
    group::Solo,
};
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};
use support::{State, filled};

/// A disk that lets a job go on before one of the reads.
#[derive(Debug)]
struct Watched {
    disk: Disk,
    job: Arc<Job>,
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    job: Arc<Job>,
}

struct Job {
    /// Reads until it goes on.
    reads: AtomicI64,
    work: Mutex<(Session, State)>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Job {
    fn go_on(&self) {
        let mut work = self.work.lock().unwrap();
        let (session, state) = &mut *work;
        for _ in 0..4 {
            let step = state.step[0] + 1;
            filled(state, 0, step);
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.job.reads.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.job.go_on();
        }
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        panic!("who looks writes nothing")
    }

    fn sync(&self) -> io::Result<()> {
        panic!("who looks syncs nothing")
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}

impl Device for Watched {
    fn path(&self) -> String {
        self.disk.path()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, _: &str, _: &Room) -> io::Result<Arc<dyn File>> {
        panic!("who looks makes nothing")
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        assert_eq!(access, Access::Read);
        Ok(Arc::new(WatchedFile { file: self.disk.open(name, access)?, job: self.job.clone() }))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        panic!("who looks renames nothing")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        panic!("who looks removes nothing")
    }

    fn sync_directory(&self) -> io::Result<()> {
        panic!("who looks syncs nothing")
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn LockFile>> {
        self.disk.lock_file(name)
    }
}

#[test]
fn what_is_let_go_while_it_is_read_is_not_damage() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = Config { pool_bytes: 256 << 10, chunk_bytes: 64 << 10, ..Config::default() };
    let session = Session::open(Box::new(Solo), directory.path(), config).unwrap();
    let job = Arc::new(Job { reads: AtomicI64::new(-1), work: Mutex::new((session, State::new())) });
    {
        let mut work = job.work.lock().unwrap();
        let (session, state) = &mut *work;
        state.protect(session);
    }
    job.go_on();
    let device = Watched { disk: Disk::existing(directory.path()), job: job.clone() };
    let never = || job.reads.store(-1, Ordering::Relaxed);

    let mut survey_reads = 0;
    loop {
        job.reads.store(survey_reads, Ordering::Relaxed);
        let survey = SpaceSurvey::open_on(&device).unwrap();
        assert_eq!(survey.damage, [""; 0], "the job went on before read {survey_reads}");
        assert!(survey.newest().is_some(), "the job went on before read {survey_reads}");
        if job.reads.load(Ordering::Relaxed) >= 0 {
            break; // not so many
        }
        survey_reads += 1;
    }

    let (mut verify_reads, mut let_go) = (0, 0);
    loop {
        never();
        let survey = SpaceSurvey::open_on(&device).unwrap();
        job.reads.store(verify_reads, Ordering::Relaxed);
        match survey.newest().unwrap().verify(&|_| ()).unwrap() {
            Verified::Whole => {}
            Verified::LetGo => let_go += 1,
            Verified::Damaged { what } => panic!("the job went on before read {verify_reads}: {what:?}"),
        }
        if job.reads.load(Ordering::Relaxed) >= 0 {
            break;
        }
        verify_reads += 1;
    }
    never();
    println!("{survey_reads} points while looking, {verify_reads} while verifying, {let_go} of them let go");
    assert!(survey_reads > 5 && let_go > 2);
}
