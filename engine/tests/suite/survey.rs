//! Looks at a space while a job overwrites it: at every single read, the job saves so often that all older data is
//! gone. None of that is damage.

use crate::support::{
    State,
    between::{Between, Watched},
    filled,
};
use mainstay_engine::{
    Config, Session, SpaceSurvey, Verified,
    device::{Access, Device, Disk, File, NewFile},
    group::Solo,
};
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

/// Lets a job go on before one of the reads.
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

/// A reader that writes nothing.
#[derive(Debug)]
struct Looking(Arc<Job>);

impl Between for Looking {
    fn create(&self, _: &Disk, name: &str, _: &NewFile) -> io::Result<Arc<dyn File>> {
        panic!("who looks made {name}")
    }
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        assert_eq!(access, Access::Read);
        disk.open(name, access, None)
    }
    fn rename(&self, _: &Disk, from: &str, _: &str) -> io::Result<()> {
        panic!("who looks renamed {from}")
    }
    fn remove(&self, _: &Disk, name: &str) -> io::Result<()> {
        panic!("who looks removed {name}")
    }
    fn sync_directory(&self, _: &Disk) -> io::Result<()> {
        panic!("who looks synced the directory")
    }
    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.0.reads.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.0.go_on();
        }
        file.read_at(buffer, offset)
    }
    fn write_at(&self, _: &dyn File, _: &[u8], offset: u64) -> io::Result<usize> {
        panic!("who looks wrote at {offset}")
    }
    fn sync(&self, _: &dyn File) -> io::Result<()> {
        panic!("who looks synced a file")
    }
}

#[test]
fn what_is_let_go_while_it_is_read_is_not_damage() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() };
    let session = Session::open(Box::new(Solo), directory.path(), config).unwrap();
    let job = Arc::new(Job { reads: AtomicI64::new(-1), work: Mutex::new((session, State::new())) });
    {
        let mut work = job.work.lock().unwrap();
        let (session, state) = &mut *work;
        state.protect(session);
    }
    job.go_on();
    let device = Watched::new(Disk::existing(directory.path()), Looking(job.clone()));
    let never = || job.reads.store(-1, Ordering::Relaxed);

    let mut survey_reads = 0;
    loop {
        job.reads.store(survey_reads, Ordering::Relaxed);
        let survey = SpaceSurvey::open_on(&device).unwrap();
        assert_eq!(survey.damage, [""; 0], "the job went on before read {survey_reads}");
        assert!(survey.newest().is_some(), "the job went on before read {survey_reads}");
        if job.reads.load(Ordering::Relaxed) >= 0 {
            break; // fewer reads than that
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
