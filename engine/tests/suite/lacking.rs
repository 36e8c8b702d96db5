//! A level that was busy knows the revisions that it missed by number.

use crate::support::{
    bounded,
    program::{Mark, Program},
};
use mainstay_engine::{Config, LevelPlace, MemoryAfter, Session, group::Solo, status::Status};

const BYTES: usize = 8 << 20;
const CHECKPOINTS: u64 = 20;

/// Story: several revisions in a row missed the level. Only the newest was known by number, and `mainstay status`
/// printed only their count.
#[test]
fn all_revisions_that_passed_a_level_over_are_told_until_they_come() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let (space, memory) = (home.path().join("space"), home.path().join("memory"));
    std::fs::create_dir(&memory).unwrap();
    let config = Config {
        memory: LevelPlace::At(memory.clone()),
        memory_copies: 1,
        memory_after: MemoryAfter::Kept,
        pool_directory: memory,
        pfs_every: 1,
        io_threads: 1,
        ..Config::default()
    };
    bounded("a job with a level that is busy", || {
        let mut session = Session::open(Box::new(Solo), &space, config).unwrap();
        let mut program = Program::new(0);
        program.protect(&mut session).unwrap();
        program.fill(&mut session, Mark { run: 1, step: 1 }, BYTES).unwrap();
        // Each checkpoint comes before the last one is in the space.
        (1..=CHECKPOINTS).for_each(|number| assert_eq!(session.checkpoint().unwrap(), number));
        session.wait().unwrap();
        session.close().unwrap();
    });
    let Status { progress, .. } = Status::read(&space).unwrap().unwrap();
    let pfs = &progress.levels[1];
    assert!(pfs.passed_over > 1, "{progress:?}");
    assert_eq!(pfs.lacks.len() as u64, pfs.passed_over, "{progress:?}");
    assert!(
        pfs.lacks.is_sorted_by(|a, b| a < b) && pfs.lacks.iter().all(|number| (2..=CHECKPOINTS).contains(number)),
        "{progress:?}"
    );
    assert!(pfs.complete.iter().all(|saved| !pfs.lacks.contains(&saved.revision)), "{progress:?}");
}
