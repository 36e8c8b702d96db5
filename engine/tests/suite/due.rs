//! All ranks get the same answer from `due` at the same step, even if only one of them knows the reason.

use crate::support::{Job, State, between::Watched, filled, gate::Gate, run};
use mainstay_engine::{
    Config, Region, Session, Signal, SpaceSurvey, WhenBusy,
    device::Disk,
    space::format::Lineage,
    status::{Event, Journal},
    tend::Request,
};
use std::{
    path::PathBuf,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// A job that saves whenever a checkpoint is due, even if the last one is under way.
fn job(ranks: usize, config: Config) -> Job {
    job_that_waits(ranks, Config { when_busy: WhenBusy::Now, ..config })
}

fn job_that_waits(ranks: usize, config: Config) -> Job {
    Job::new(ranks, Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..config })
}

fn space(job: &Job) -> PathBuf {
    job.directory.path().join("space")
}

/// Takes steps until `done`, and saves when due. Returns the steps at which this rank saved.
fn steps(session: &mut Session, state: &mut State, rank: usize, mut done: impl FnMut(u64) -> bool) -> Vec<u64> {
    let (mut saved, mut step) = (Vec::new(), 0);
    while !done(step) {
        step += 1;
        filled(state, rank, step);
        if session.due(step).unwrap() {
            session.checkpoint().unwrap();
            saved.push(step);
        }
    }
    saved
}

#[test]
fn every_so_many_steps() {
    let job = job(3, Config { every_steps: 4, ..Config::default() });
    job.run(|rank, session, state| assert_eq!(steps(session, state, rank, |step| step == 13), [4, 8, 12]));
}

/// Story: a program called `due` only at every 20th step, with `every_steps = 33`. It saved nothing in 600 steps,
/// without a message.
#[test]
fn the_first_step_that_is_asked_at_or_after_each_multiple_is_due() {
    let job = job(2, Config { every_steps: 33, agree_every: Duration::from_secs(1000), ..Config::default() });
    let asked = |from: u64, to: u64| (from..=to).step_by(20);
    let saves = |session: &mut Session, step| {
        let is_due = session.due(step).unwrap();
        assert_eq!(session.due(step).unwrap(), is_due, "the same answer until a checkpoint begins");
        if is_due {
            session.checkpoint().unwrap();
            assert!(!session.due(step).unwrap(), "step {step} has been saved");
        }
        is_due
    };
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        let saved: Vec<u64> = asked(20, 300).filter(|step| saves(session, *step)).collect();
        assert_eq!(saved, [40, 80, 100, 140, 180, 200, 240, 280, 300]);
        // The restore goes back to step 300. The multiple 297 has had its turn; 330 has not.
        session.restore().unwrap().unwrap();
        assert_eq!(asked(320, 400).find(|step| saves(session, *step)), Some(340));
        // If the program counts its steps anew, the multiples begin anew.
        assert_eq!((1..=40).find(|step| saves(session, *step)), Some(33));
        assert_eq!((37..=70).find(|step| saves(session, *step)), Some(66));
    });
    // A restart goes on at step 66, where the revision was saved, and asks at the top of its loop.
    job.run(|_, session, _| {
        session.restore().unwrap().unwrap();
        assert_eq!((66..=200).find(|step| saves(session, *step)), Some(99));
    });
}

/// Story: a checkpoint waited for the last one, and the program stood still meanwhile.
#[test]
fn what_is_due_while_the_last_is_under_way_on_any_rank_is_due_at_the_next_step_after_that() {
    for (asked, when_busy) in [(false, WhenBusy::Later), (true, WhenBusy::Later), (false, WhenBusy::Now)] {
        let folder = TempDir::new_in("/dev/shm").unwrap();
        let config = Config {
            pool_bytes: Some(256 << 10),
            chunk_bytes: Some(64 << 10),
            every_steps: 4,
            agree_every: Duration::ZERO,
            when_busy,
            ..Config::default()
        };
        let barrier = Barrier::new(3);
        run(3, |rank, group| {
            // Only the disk of rank 1 is slow.
            let disk = Watched::new(Disk::make(folder.path()).unwrap(), Gate::new(1));
            let gate = disk.between.clone();
            let mut session = Session::open_on(group, Arc::new(disk), config.clone()).unwrap();
            let mut state = vec![0_u8; 20_000];
            // SAFETY: the session is closed before the state goes.
            #[allow(unsafe_code)]
            let region = unsafe { Region::new("state", state.as_mut_ptr(), state.len() as u64) };
            session.protect(region.unwrap()).unwrap();
            let due = |session: &mut Session, step| session.due(step).unwrap();
            // It makes the layout, to which each rank writes.
            session.checkpoint().unwrap();
            session.wait().unwrap();
            assert_eq!([1, 2, 3, 4].map(|step| due(&mut session, step)), [false, false, false, true]);
            if rank == 1 {
                gate.shut();
            }
            assert_eq!(session.checkpoint().unwrap(), 2);
            assert_eq!([5, 6, 7].map(|step| due(&mut session, step)), [false; 3]);
            let is_now = when_busy == WhenBusy::Now;
            assert_eq!([8, 9].map(|step| due(&mut session, step)), [is_now, false], "{when_busy:?}");
            if asked && rank == 0 {
                Request::send(folder.path()).unwrap();
            }
            barrier.wait();
            assert_eq!(due(&mut session, 10), asked, "whoever asks is not put off");
            if rank == 1 {
                gate.come();
            }
            // On a busy machine the part of any rank may take long.
            while !session.poll().unwrap() {
                thread::sleep(Duration::from_millis(1));
            }
            if rank == 1 {
                gate.nobody_waited();
            }
            barrier.wait();
            assert_eq!(due(&mut session, 11), !is_now, "{asked}, {when_busy:?}");
            assert_eq!(session.checkpoint().unwrap(), 3);
            assert!(!due(&mut session, 11));
            session.wait().unwrap();
            assert!(due(&mut session, 16));
            session.close().unwrap();
        });
    }
}

/// The journal has the same numbers as the answers to the program, however fast the disk is.
#[test]
fn how_often_a_checkpoint_was_put_off_is_in_the_journal() {
    let job = job_that_waits(2, Config { every_steps: 1, agree_every: Duration::ZERO, keep: 20, ..Config::default() });
    let times = Mutex::new(Vec::new());
    job.run(|rank, session, state| {
        let (mut put_off, mut step) = (vec![0], 0);
        while put_off.len() <= 10 {
            step += 1;
            filled(state, rank, step);
            match session.due(step).unwrap() {
                true => {
                    session.checkpoint().unwrap();
                    put_off.push(0);
                }
                false => *put_off.last_mut().unwrap() += 1,
            }
        }
        times.lock().unwrap().push(put_off);
    });
    let mut times = times.into_inner().unwrap();
    assert_eq!(times[0], times[1]);
    let journal = Journal::read(&space(&job)).unwrap().unwrap().entries.into_iter();
    let told = journal.filter_map(|entry| match entry.event {
        Event::Complete(complete) => Some(complete.put_off),
        _ => None,
    });
    // No checkpoint followed these last answers.
    times[0].pop();
    assert_eq!(told.collect::<Vec<u64>>(), times[0]);
}

/// The clocks and speeds of the ranks differ.
#[test]
fn by_time_all_ranks_save_at_the_same_steps() {
    let every = Duration::from_millis(20);
    let job = job(3, Config { every, agree_every: Duration::from_millis(5), ..Config::default() });
    let saved = Mutex::new(Vec::new());
    job.run(|rank, session, state| {
        let steps = steps(session, state, rank, |step| {
            thread::sleep(Duration::from_micros(300 * (rank as u64 + step % 3)));
            step == 300
        });
        saved.lock().unwrap().push(steps);
    });
    let saved = saved.into_inner().unwrap();
    assert!(!saved[0].is_empty() && saved.iter().all(|steps| *steps == saved[0]), "{saved:?}");
}

/// Story: the second checkpoint was also due at once, because the cost of the first was known only when it was durable.
#[test]
fn the_first_is_there_to_be_measured_and_only_that() {
    let config = Config { mtbf: Duration::from_secs(3600), agree_every: Duration::ZERO, ..Config::default() };
    let job = job(2, config);
    job.run(|rank, session, state| {
        assert_eq!(steps(session, state, rank, |step| step == 20), [1]);
    });
    // A restart gets the cost from the restored revision.
    job.run(|rank, session, state| {
        session.restore().unwrap().unwrap();
        assert!(steps(session, state, rank, |step| step == 5).is_empty());
    });
}

#[test]
fn someone_asks_from_outside_and_is_answered() {
    const REQUESTS: u64 = 4;
    let job = job(2, Config { agree_every: Duration::from_millis(1), ..Config::default() });
    let (ready, passed) = (Barrier::new(2), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            for number in 1..=REQUESTS {
                let asked = Request::send(&space(&job)).unwrap();
                let start = Instant::now();
                let answer = loop {
                    assert!(start.elapsed() < LIMIT, "no answer to request {number}");
                    match asked.answer() {
                        Some(answer) => break answer,
                        None => thread::sleep(Duration::from_millis(1)),
                    }
                };
                // A request that was met is not met again: the numbers follow one another.
                assert_eq!(answer.number, number);
                assert_eq!(asked.listener(), Some(answer.lineage));
                let before = passed.load(Ordering::Relaxed);
                while number < REQUESTS && passed.load(Ordering::Relaxed) < before + 500 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        job.run(|rank, session, state| {
            if rank == 0 {
                ready.wait();
            }
            let mut saved = 0;
            for step in 1.. {
                passed.fetch_add(1, Ordering::Relaxed);
                if session.due(step).unwrap() {
                    filled(state, rank, step);
                    saved = session.checkpoint().unwrap();
                }
                if saved == REQUESTS {
                    break;
                }
            }
        });
    });
    assert_eq!(SpaceSurvey::open(&space(&job)).unwrap().newest().unwrap().key.number, REQUESTS);
}

#[test]
fn a_request_that_was_withdrawn_is_none_and_another_ones_stays() {
    let job = job(1, Config { agree_every: Duration::ZERO, ..Config::default() });
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        assert!(!session.due(1).unwrap());
        let first = Request::send(&space(&job)).unwrap();
        first.withdraw().unwrap();
        assert!(!session.due(2).unwrap());
        let (first, second) = (Request::send(&space(&job)).unwrap(), Request::send(&space(&job)).unwrap());
        first.withdraw().unwrap();
        assert!(session.due(3).unwrap());
        // The checkpoint stays due until there is one.
        assert!(session.due(4).unwrap());
        assert_eq!(second.answer(), None);
        session.checkpoint().unwrap();
        assert_eq!(second.answer().map(|answer| answer.number), Some(1));
        assert!(!session.due(5).unwrap());
    });
}

/// Story: ranks at different steps saved a mixture of both, without an error.
#[test]
fn ranks_at_different_steps_are_refused_and_nothing_is_saved() {
    for agree_every in [Duration::ZERO, Duration::from_secs(1000)] {
        let job = job(2, Config { every_steps: 1, agree_every, ..Config::default() });
        job.run(|rank, session, state| {
            filled(state, rank, 1);
            session.due(7).unwrap();
            let apart = session.due(8 + rank as u64).and_then(|_| session.checkpoint());
            let refused = apart.unwrap_err().to_string();
            assert!(refused.contains("steps 8 to 9"), "{refused}");
            assert!(session.due(10).unwrap());
            assert_eq!(session.checkpoint().unwrap(), 1);
        });
    }
}

/// Story: a second request overwrote the first. When the second was withdrawn, the first was gone, and its sender
/// waited in vain.
#[test]
fn a_request_beneath_one_that_was_withdrawn_is_met() {
    let job = job(1, Config { agree_every: Duration::ZERO, ..Config::default() });
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        assert!(!session.due(1).unwrap());
        let (first, second) = (Request::send(&space(&job)).unwrap(), Request::send(&space(&job)).unwrap());
        second.withdraw().unwrap();
        assert_eq!(first.answer(), None);
        assert!(session.due(2).unwrap());
        session.checkpoint().unwrap();
        // The first request stays met, although a third one follows and is withdrawn.
        Request::send(&space(&job)).unwrap().withdraw().unwrap();
        assert_eq!(first.answer().map(|answer| answer.number), Some(1));
        assert!(!session.due(3).unwrap());
    });
}

#[test]
fn nobody_looks_before_the_program_asks_whether_a_checkpoint_is_due() {
    let job = job(1, Config::default());
    assert!(Request::send(&space(&job)).is_err(), "a request without a space");
    job.run(|_, session, _| {
        let asked = Request::send(&space(&job)).unwrap();
        assert_eq!(asked.listener(), None);
        session.due(1).unwrap();
        assert!(matches!(asked.listener(), Some(Lineage { number: 1, .. })));
    });
    // The next job may be another program.
    job.run(|_, session, _| {
        let asked = Request::send(&space(&job)).unwrap();
        assert_eq!(asked.listener(), None);
        session.due(1).unwrap();
        assert!(asked.listener().is_some());
    });
}

#[test]
fn a_signal_to_one_process_is_heard_by_all_ranks_once() {
    let signal = Signal::named("USR2").unwrap();
    let job = job(2, Config { checkpoint_signal: Some(signal), agree_every: Duration::ZERO, ..Config::default() });
    job.run(|rank, session, state| {
        filled(state, rank, 1);
        assert!(!session.due(1).unwrap());
        if rank == 1 {
            signal_hook::low_level::raise(signal.number()).unwrap();
        }
        assert!(session.due(2).unwrap());
        session.checkpoint().unwrap();
        assert!(!session.due(3).unwrap());
    });
}
