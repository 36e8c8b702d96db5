//! Ranks that make different collective calls all get the name of each call and its rank, for any calls, and while a
//! revision is under way. Nothing is lost, and the session goes on unless a rank has closed it.

use crate::support::{bounded, in_sessions, run, small_pool};
use mainstay_engine::{Config, Error, ErrorKind, LevelKind, Result, Session};
use std::time::Duration;
use tempfile::TempDir;

const RANKS: usize = 3;
const BYTES: usize = 100_000;

const CALLS: [&str; 10] =
    ["begin", "checkpoint", "put", "abandon", "wait", "wait_for", "restore", "get", "get_bytes", "due"];

/// The ranks meet at every call of `due`.
fn config() -> Config {
    Config { agree_every: Duration::ZERO, ..small_pool() }
}

fn save(session: &mut Session, step: u8) -> Result<u64> {
    session.begin(BYTES as u64)?;
    session.write("state", 0, &[step; BYTES])?;
    session.checkpoint()
}

fn reads(session: &mut Session, step: u8) {
    let mut state = vec![0; BYTES];
    session.restore().unwrap().unwrap();
    assert_eq!(session.read("state", 0, &mut state).unwrap(), BYTES);
    assert!(state.iter().all(|byte| *byte == step));
}

fn make(call: &str, session: &mut Session) -> Error {
    let mut state = vec![0; BYTES];
    let made = match call {
        "begin" => session.begin(10).map(drop),
        "checkpoint" => session.checkpoint().map(drop),
        "put" => session.put("state", &[9; 10]).map(drop),
        "abandon" => session.abandon(),
        "wait" => session.wait(),
        "wait_for" => session.wait_for(LevelKind::Pfs),
        "restore" => session.restore().map(drop),
        "get" => session.get(None, "state", &mut state).map(drop),
        "get_bytes" => session.get_bytes(None, "state").map(drop),
        _ => session.due(0).map(drop),
    };
    made.unwrap_err()
}

fn is_told(error: &Error, first: &str, second: &str) {
    assert_eq!(format!("{:?}", error.kind()), "CallMismatch", "{first}, {second}: {error}");
    let told = format!("ranks 0, 2 called {first}, rank 1 {second};");
    assert!(error.to_string().contains(&told), "{error}");
}

/// Rank 1 makes one call, and ranks 0 and 2 the other, while a revision is under way.
#[test]
fn all_are_told_who_called_what_and_the_session_goes_on() {
    let config = config();
    let folder = TempDir::new().unwrap();
    let pairs = CALLS.iter().flat_map(|first| CALLS.iter().map(move |second| (*first, *second)));
    let pairs: Vec<_> = pairs.filter(|(first, second)| first != second).collect();
    let job = || {
        in_sessions(folder.path(), RANKS, &config, |rank, session| {
            for (step, (first, second)) in (1..).zip(&pairs) {
                save(session, step).unwrap();
                is_told(&make(if rank == 1 { second } else { first }, session), first, second);
                session.wait().unwrap();
            }
            reads(session, pairs.len() as u8);
        })
    };
    bounded("calls that differ", job);
}

#[test]
fn once_a_rank_has_closed_it_the_session_is_over_on_all() {
    let config = config();
    for (call, closes_first) in CALLS.into_iter().flat_map(|call| [(call, false), (call, true)]) {
        let folder = TempDir::new().unwrap();
        let (first, second) = if closes_first { ("close", call) } else { (call, "close") };
        let job = |rank, group| {
            let mut session = Session::open(group, folder.path(), config.clone()).unwrap();
            save(&mut session, 1).unwrap();
            let mine = if rank == 1 { second } else { first };
            if mine == "close" {
                return is_told(&session.close().unwrap_err(), first, second);
            }
            is_told(&make(mine, &mut session), first, second);
            // The others cannot be reached any more: Mainstay refuses this call, and the program can still close the
            // session.
            is_told(&session.wait().unwrap_err(), first, second);
            is_told(&session.close().unwrap_err(), first, second);
        };
        bounded(&format!("{first}, {second}"), || run(RANKS, job));
        bounded("the next job", || in_sessions(folder.path(), RANKS, &config, |_, session| reads(session, 1)));
    }
}

/// Between `begin` and its end there is no all-reduce: Mainstay compares the call that follows.
#[test]
fn a_checkpoint_that_was_ended_by_another_call_on_one_rank_is_told_by_the_next() {
    let config = config();
    let folder = TempDir::new().unwrap();
    bounded("begun", || {
        in_sessions(folder.path(), RANKS, &config, |rank, session| {
            save(session, 1).unwrap();
            session.wait().unwrap();
            session.begin(BYTES as u64).unwrap();
            if rank != 1 {
                session.checkpoint().unwrap();
            }
            let error = if rank == 1 { session.wait() } else { session.put("other", &[]).map(drop) }.unwrap_err();
            assert!(error.to_string().contains("ranks 0, 2 called put, rank 1 wait;"), "{error}");
            assert_eq!(session.wait().unwrap_err().kind(), ErrorKind::InvalidArgument);
            reads(session, 1);
        })
    });
}

/// One rank has counted calls of `due` that the others have not made. After the ranks have met at different calls,
/// their counts agree again.
#[test]
fn after_calls_that_differ_the_ranks_meet_at_the_same_call_of_due() {
    let config = Config { agree_every: Duration::from_millis(20), ..small_pool() };
    let folder = TempDir::new().unwrap();
    bounded("due", || {
        in_sessions(folder.path(), RANKS, &config, |rank, session| {
            // The ranks count this many calls until they meet. Rank 0 is ahead of the others.
            (0..300).for_each(|step| assert!(!session.due(step).unwrap()));
            let ahead = if rank == 0 { (300..303).try_for_each(|step| session.due(step).map(drop)) } else { Ok(()) };
            let differs = ahead.and_then(|()| if rank == 0 { session.wait() } else { session.checkpoint().map(drop) });
            assert_eq!(differs.unwrap_err().kind(), ErrorKind::CallMismatch);
            (303..100_000).for_each(|step| assert!(!session.due(step).unwrap()));
        })
    });
}

/// A language binding has failed on rank 1 before it makes a call.
#[test]
fn what_one_rank_refuses_each_call_tells_on_all_and_the_session_goes_on() {
    let refused = |rank, session: &mut Session| {
        if rank == 1 {
            session.refuse(Error::argument("the front", "is wrong"));
            session.refuse(Error::argument("the front", "is wrong again"));
        }
    };
    let is_refused = |error: &Error| assert!(error.to_string().ends_with("the front: is wrong"), "{error}");
    let config = config();
    let folder = TempDir::new().unwrap();
    bounded("refused", || {
        in_sessions(folder.path(), RANKS, &config, |rank, session| {
            save(session, 1).unwrap();
            for call in CALLS {
                if call == "abandon" {
                    session.begin(10).unwrap();
                }
                refused(rank, session);
                is_refused(&make(call, session));
                session.wait().unwrap();
            }
            reads(session, 1);
        });
        run(RANKS, |rank, group| {
            let mut session = Session::open(group, folder.path(), config.clone()).unwrap();
            refused(rank, &mut session);
            is_refused(&session.close().unwrap_err());
        });
    });
}
