//! Save, end, come back: the path as a whole, with threads as ranks on a real directory.

use crate::support::{Job, State, filled};
use mainstay_engine::{
    Config, ErrorKind, Result, Session, SpaceSurvey, Stage,
    group::{Group, Solo},
    tend::hold,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

#[test]
fn a_job_comes_back_to_its_newest_revision() {
    for stage in [Stage::Pool, Stage::Direct] {
        let job = Job::new(4, Config { stage, ..small() });
        job.run(|rank, session, state| {
            for step in 1..=7 {
                filled(state, rank, step);
                assert_eq!(session.checkpoint().unwrap(), step);
            }
            session.wait().unwrap();
        });
        job.run(|rank, session, state| {
            assert_eq!(session.restore().unwrap().unwrap().revision, 7);
            let mut expected = state.clone();
            filled(&mut expected, rank, 7);
            assert!(*state == expected, "{stage:?}: rank {rank} got other bytes");
            filled(state, rank, 8);
            assert_eq!(session.checkpoint().unwrap(), 8);
        });
        job.run(|_, session, _| assert_eq!(session.restore().unwrap().unwrap().revision, 8));
    }
}

#[test]
fn nothing_to_restore_is_no_error() {
    Job::new(2, small()).run(|_, session, _| assert_eq!(session.restore().unwrap(), None));
}

#[test]
fn a_running_job_can_go_back() {
    Job::new(3, small()).run(|rank, session, state| {
        filled(state, rank, 1);
        session.checkpoint().unwrap();
        let saved = state.clone();
        filled(state, rank, 2);
        assert_eq!(session.restore().unwrap().unwrap().revision, 1);
        assert!(*state == saved);
        assert_eq!(session.checkpoint().unwrap(), 2);
    });
}

#[test]
fn another_number_of_ranks_is_told_both_numbers() {
    let job = Job::new(4, small());
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        session.checkpoint().map(drop).unwrap();
    });
    let fewer = Job { ranks: 3, ..job };
    fewer.run(|_, session, _| {
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RankCount);
        assert!(error.to_string().contains('4') && error.to_string().contains('3'), "{error}");
    });
}

/// Counts the calls of a session to its group.
struct Counting(Arc<AtomicU64>);

impl Group for Counting {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn ranks_here(&self) -> usize {
        1
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Solo.all_max(values)
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        // More expensive than an all-reduce, and so counted as more than one.
        self.0.fetch_add(100, Ordering::Relaxed);
        Solo.all_gather(mine)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.fetch_add(100, Ordering::Relaxed);
        Solo.broadcast(root, bytes)
    }
}

#[test]
fn a_checkpoint_costs_one_all_reduce() {
    let (job, asked) = (Job::new(1, small()), Arc::new(AtomicU64::new(0)));
    let path = job.directory.path().join("space");
    let mut session = Session::open(Box::new(Counting(asked.clone())), &path, small()).unwrap();
    let mut state = State::new();
    state.protect(&mut session);
    // The first checkpoint makes the layout.
    session.checkpoint().unwrap();
    let before = asked.load(Ordering::Relaxed);
    for step in 1..=10 {
        session.checkpoint().unwrap();
        assert_eq!(asked.load(Ordering::Relaxed) - before, step);
    }
    // A new hold costs more once.
    let key = SpaceSurvey::open(&path).unwrap().newest().unwrap().key;
    hold(&path, key, "", 0, Duration::ZERO).unwrap();
    session.checkpoint().unwrap();
    let before = asked.load(Ordering::Relaxed);
    for step in 1..=5 {
        session.checkpoint().unwrap();
        assert_eq!(asked.load(Ordering::Relaxed) - before, step);
    }
    session.close().unwrap();
}

#[test]
fn a_checkpoint_of_nothing_is_refused_and_makes_no_layout() {
    Job::new(2, small()).run(|rank, session, state| {
        for name in ["field", "step", "empty"] {
            session.unprotect(name).unwrap();
        }
        assert_eq!(session.checkpoint().unwrap_err().kind(), ErrorKind::InvalidArgument);
        // The regions of one rank are enough, and get the room that they need.
        if rank == 1 {
            state.protect(session);
        }
        assert_eq!(session.checkpoint().unwrap(), 1);
    });
}
