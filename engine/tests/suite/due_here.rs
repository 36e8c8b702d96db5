//! Rank 0 decides alone that a checkpoint is due, for programs whose ranks do not meet at steps.

use crate::support::{Job, State, between::Watched, bounded, filled, gate::Gate, run};
use mainstay_engine::{Config, Error, ErrorKind, Region, Session, Signal, WhenBusy, device::Disk, tend::Request};
use std::{
    path::PathBuf,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};
use tempfile::TempDir;

fn job(ranks: usize, config: Config) -> Job {
    Job::new(ranks, Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..config })
}

fn space(job: &Job) -> PathBuf {
    job.directory.path().join("space")
}

fn is_due_here(session: &mut Session) -> bool {
    session.is_due_here().unwrap()
}

/// Waits until this rank knows a reason.
fn until_due_here(session: &mut Session) {
    while !is_due_here(session) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn save(session: &mut Session, state: &mut State, rank: usize, mark: u64) {
    filled(state, rank, mark);
    session.checkpoint().unwrap();
    session.wait().unwrap();
}

/// `schedule.rs` tests the lengths of intervals, with times that it chooses. Here a busy machine may be late, so one interval
/// is never over, and the other one soon is.
#[test]
fn before_the_time_is_up_no_rank_decides() {
    let every = Duration::from_secs(3600);
    let job = job(3, Config { every, agree_every: Duration::from_secs(1000), ..Config::default() });
    bounded("a job that asks", || {
        job.run(|_, session, _| {
            assert!(!is_due_here(session));
            assert!(!session.due_now().unwrap(), "it is too early");
        })
    });
}

#[test]
fn time_is_up_on_rank_0_alone() {
    let every = Duration::from_millis(1);
    let job = job(3, Config { every, agree_every: Duration::from_secs(1000), ..Config::default() });
    let barrier = Barrier::new(3);
    bounded("a job that asks", || {
        job.run(|rank, session, state| {
            for mark in 1..=3 {
                if rank == 0 {
                    until_due_here(session);
                    assert!(is_due_here(session));
                }
                // Rank 0 tells the others.
                barrier.wait();
                assert!(rank == 0 || !is_due_here(session), "rank {rank} decides");
                assert!(session.due_now().unwrap());
                save(session, state, rank, mark);
            }
        })
    });
}

/// Without a known cost the first checkpoint is due at once, and then Daly's interval counts.
#[test]
fn the_interval_follows_from_the_cost_on_all_ranks() {
    let job = job(2, Config { mtbf: Duration::from_secs(3600), ..Config::default() });
    let barrier = Barrier::new(2);
    bounded("a job that asks", || {
        job.run(|rank, session, state| {
            assert_eq!(is_due_here(session), rank == 0);
            barrier.wait();
            assert!(session.due_now().unwrap());
            save(session, state, rank, 1);
            assert!(!is_due_here(session));
            assert!(!session.due_now().unwrap());
        })
    });
}

#[test]
fn a_request_is_known_to_rank_0_and_goes_to_all_levels() {
    let job = job(2, Config { agree_every: Duration::ZERO, ..Config::default() });
    let barrier = Barrier::new(2);
    bounded("a job that asks", || {
        job.run(|rank, session, state| {
            assert!(!is_due_here(session));
            barrier.wait();
            let request = (rank == 0).then(|| Request::send(&space(&job)).unwrap());
            if rank == 0 {
                until_due_here(session);
            }
            barrier.wait();
            assert!(session.due_now().unwrap());
            save(session, state, rank, 1);
            if let Some(request) = request {
                assert_eq!(request.answer().map(|answer| answer.number), Some(1));
                assert!(!is_due_here(session));
                // A request that is withdrawn is none.
                Request::send(&space(&job)).unwrap().withdraw().unwrap();
                assert!(!is_due_here(session));
            }
        })
    });
}

/// Rank 0 looks at the space seldom, however often it asks.
#[test]
fn requests_are_looked_for_now_and_then() {
    let job = job(1, Config { agree_every: Duration::from_secs(3600), ..Config::default() });
    bounded("a job that asks", || {
        job.run(|_, session, state| {
            assert!(!is_due_here(session));
            Request::send(&space(&job)).unwrap();
            assert!((0..1000).all(|_| !is_due_here(session)));
            assert!(session.due_now().unwrap(), "the meeting looks");
            assert!(is_due_here(session));
            save(session, state, 0, 1);
            assert!(!is_due_here(session));
        })
    });
}

#[test]
fn a_signal_is_known_where_it_arrived() {
    let signal = Signal::named("USR1").unwrap();
    let job = job(2, Config { checkpoint_signal: Some(signal), ..Config::default() });
    let barrier = Barrier::new(2);
    bounded("a job that asks", || {
        job.run(|rank, session, state| {
            assert!(!is_due_here(session));
            barrier.wait();
            if rank == 1 {
                // Both ranks are threads of one process.
                signal_hook::low_level::raise(signal.number()).unwrap();
            }
            barrier.wait();
            assert!(is_due_here(session), "rank {rank}");
            assert!(session.due_now().unwrap());
            save(session, state, rank, 1);
            assert!(!is_due_here(session));
        })
    });
}

#[test]
fn a_checkpoint_is_put_off_while_the_last_one_is_not_durable() {
    let folder = TempDir::new().unwrap();
    let config = Config {
        pool_bytes: Some(256 << 10),
        chunk_bytes: Some(64 << 10),
        every: Duration::from_millis(50),
        agree_every: Duration::from_millis(100),
        when_busy: WhenBusy::Later,
        ..Config::default()
    };
    let barrier = Barrier::new(3);
    run(3, |rank, group| {
        // Only the disk of rank 1 is slow, so rank 0 does not know.
        let disk = Watched::new(Disk::make(folder.path()).unwrap(), Gate::new(1));
        let gate = disk.between.clone();
        let mut session = Session::open_on(group, Arc::new(disk), config.clone()).unwrap();
        let mut state = vec![0_u8; 20_000];
        // SAFETY: the session is closed before the state goes.
        #[allow(unsafe_code)]
        let region = unsafe { Region::new("state", state.as_mut_ptr(), state.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        // It makes the layout, to which each rank writes.
        session.checkpoint().unwrap();
        session.wait().unwrap();
        if rank == 1 {
            gate.shut();
        }
        session.checkpoint().unwrap();
        if rank == 0 {
            until_due_here(&mut session);
        }
        barrier.wait();
        assert!(!session.due_now().unwrap());
        if rank == 1 {
            gate.come();
        }
        while !session.poll().unwrap() {
            thread::sleep(Duration::from_millis(1));
        }
        if rank == 1 {
            gate.nobody_waited();
        }
        barrier.wait();
        if rank == 0 {
            until_due_here(&mut session);
        }
        barrier.wait();
        assert!(session.due_now().unwrap());
        session.checkpoint().unwrap();
        session.close().unwrap();
    });
}

#[test]
fn steps_and_moments_between_them_are_different_calls() {
    let job = job(2, Config { every_steps: 1, ..Config::default() });
    bounded("a job that asks", || {
        job.run(|rank, session, _| {
            let told: Result<bool, Error> = if rank == 0 { session.due_now() } else { session.due(1) };
            let error = told.unwrap_err();
            assert!(error.kind() == ErrorKind::CallMismatch && error.to_string().contains("due_now"), "{error}");
            assert!(session.due(2).unwrap(), "the ranks go on");
            assert!(!session.due_now().unwrap(), "steps do not count");
        })
    });
}
