//! Save, end, come back: the path as a whole, with threads as ranks on a real directory.

mod support;

use mainstay_engine::{Config, ErrorKind, Stage};
use support::{Job, filled};

fn small() -> Config {
    Config { pool_bytes: 256 << 10, chunk_bytes: 64 << 10, ..Config::default() }
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
    job.run(|_, session, _| session.checkpoint().map(drop).unwrap());
    let fewer = Job { ranks: 3, ..job };
    fewer.run(|_, session, _| {
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RankCount);
        assert!(error.to_string().contains('4') && error.to_string().contains('3'), "{error}");
    });
}
