//! Jobs go on in a space with ever other numbers of ranks: the number of layouts after each.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{
    between::{Between, Watched},
    run,
};
use mainstay_engine::{
    Config, ErrorKind, Region, Session, SpaceSurvey,
    device::{Disk, File},
    group::Solo,
    space::Per,
    tend::{Holding, hold, release},
};
use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

fn bytes_region(name: &str, memory: &mut [u8]) -> Region {
    // SAFETY: the tests keep `memory` for as long as the session.
    unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
}

/// Runs a job with one checkpoint on each number of ranks and ends it by `end`. Returns the numbers of the layouts
/// after the last job.
fn chain(space: &Path, config: &Config, numbers: &[usize], end: impl Fn(Session) + Sync) -> BTreeSet<u64> {
    for ranks in numbers {
        run(*ranks, |_, group| {
            let mut session = Session::open(group, space, config.clone()).unwrap();
            let mut step = vec![0; 10_000];
            session.protect(bytes_region("step", &mut step)).unwrap();
            session.same_on_all_ranks("step").unwrap();
            session.restore().unwrap();
            let next = step[0] + 1;
            step.fill(next);
            session.checkpoint().unwrap();
            end(session);
        });
    }
    layouts(space)
}

fn layouts(space: &Path) -> BTreeSet<u64> {
    SpaceSurvey::open(space).unwrap().layouts.iter().map(|layout| layout.header.layout_number).collect()
}

/// Story: only the second checkpoint in a new layout removed the old ones, so jobs of one checkpoint each left all
/// their layouts.
#[test]
fn jobs_of_one_checkpoint_leave_the_layouts_that_are_kept() {
    let by_close = |session: Session| session.close().unwrap();
    let by_wait = |mut session: Session| session.wait().unwrap();
    for per in [Per::App, Per::Rank] {
        for (keep, left) in [(1, vec![4]), (2, vec![3, 4])] {
            let config = Config { per, keep, ..small() };
            for end in [&by_close as &(dyn Fn(Session) + Sync), &by_wait] {
                let folder = TempDir::new_in("/dev/shm").unwrap();
                let there = chain(folder.path(), &config, &[4, 2, 3, 1], end);
                assert_eq!(there, left.iter().copied().collect(), "{per:?}, keep {keep}");
            }
        }
    }
}

#[test]
fn a_layout_that_holds_what_is_held_stays_until_it_is_released() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let (space, close) = (folder.path(), |session: Session| session.close().unwrap());
    chain(space, &small(), &[4], close);
    let key = SpaceSurvey::open(space).unwrap().newest().unwrap().key;
    let held = hold(space, key, "a test", 0, Duration::ZERO).unwrap();
    assert!(matches!(held, Holding::Counts(_)), "{held:?}");
    assert_eq!(chain(space, &small(), &[2, 3, 1], close), [1, 4].into());
    assert!(SpaceSurvey::open(space).unwrap().complete(key).unwrap().held);
    release(space, None).unwrap();
    assert_eq!(chain(space, &small(), &[1], close), [4].into());
}

/// A space has several layouts, left by a killed job or another build. The first revision of a job removes all that are
/// not kept.
#[test]
fn the_first_wait_removes_all_that_are_not_kept() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let (space, close) = (folder.path(), |session: Session| session.close().unwrap());
    chain(space, &Config { keep: 4, ..small() }, &[4, 2, 3, 1], close);
    assert_eq!(layouts(space).len(), 4);
    assert_eq!(chain(space, &small(), &[2], close), [5].into());
}

/// A disk on which syncs of files fail while the flag is set.
#[derive(Debug, Default)]
struct StepError(AtomicBool);

impl Between for StepError {
    fn sync(&self, file: &dyn File) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(libc::EIO)) } else { file.sync() }
    }
}

#[test]
fn a_checkpoint_that_fails_removes_nothing() {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let (space, close) = (folder.path(), |session: Session| session.close().unwrap());
    chain(space, &small(), &[2], close);
    let device = Arc::new(Watched::new(Disk::existing(space), StepError::default()));
    let mut session = Session::open_on(Box::new(Solo), device.clone(), small()).unwrap();
    let mut step = vec![0; 10_000];
    session.protect(bytes_region("step", &mut step)).unwrap();
    session.restore().unwrap();
    session.begin(0).unwrap();
    device.between.0.store(true, Ordering::Relaxed);
    // The first call after the device has failed reports the failure.
    let told = session.checkpoint().and_then(|_| session.wait().map(drop)).and_then(|_| session.close().map(drop));
    assert_eq!(told.unwrap_err().kind(), ErrorKind::SyncFailed);
    assert_eq!(layouts(space), [1, 2].into());
    assert_eq!(chain(space, &small(), &[3], close), [3].into());
}
