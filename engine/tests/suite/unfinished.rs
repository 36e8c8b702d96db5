//! A program leaves a checkpoint before its end, as an exception does: on one rank, on several, or on all.

use crate::support::{bounded, in_sessions, often, run, small_pool};
use mainstay_engine::{Config, ErrorKind, Region, Result, Session, Stage};
use std::{path::Path, time::Duration};
use tempfile::TempDir;

const RANKS: usize = 3;
const BYTES: usize = 100_000;

/// A rank's way with a checkpoint that has begun.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Finishes,
    Leaves,
    LeavesAfterFailedWrite,
}
use Way::{Finishes, Leaves, LeavesAfterFailedWrite};

const MIXTURES: [[Way; RANKS]; 9] = [
    [Finishes, Leaves, Finishes],
    [Leaves, Finishes, Finishes],
    [Finishes, LeavesAfterFailedWrite, Finishes],
    [LeavesAfterFailedWrite, Finishes, Finishes],
    [Leaves, LeavesAfterFailedWrite, Leaves],
    [LeavesAfterFailedWrite, Leaves, Leaves],
    [Finishes, Leaves, LeavesAfterFailedWrite],
    [Leaves; RANKS],
    [LeavesAfterFailedWrite; RANKS],
];

/// A configuration for each stage.
fn configs() -> Vec<Config> {
    let stages = [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct];
    let configs = stages.map(|stage| Config { stage, ..small_pool() });
    // The ranks meet at every call of `due`.
    configs.into_iter().map(|config| Config { agree_every: Duration::ZERO, ..config }).collect()
}

/// In the campaign, each config with each mixture. Otherwise each config with every third mixture, so each mixture is
/// tried once.
fn cases() -> Vec<(Config, [Way; RANKS])> {
    let every = often(3, 1);
    let with_mixtures = |(first, config): (usize, Config)| {
        MIXTURES.into_iter().skip(first % every).step_by(every).map(move |ways| (config.clone(), ways))
    };
    configs().into_iter().enumerate().flat_map(with_mixtures).collect()
}

fn save(session: &mut Session, step: u8) -> Result<()> {
    session.begin(BYTES as u64)?;
    session.write("state", 0, &[step; BYTES])?;
    session.checkpoint()?;
    session.wait()
}

fn go(session: &mut Session, way: Way) {
    session.begin(BYTES as u64).unwrap();
    session.write("state", 0, &[99; BYTES / 2]).unwrap();
    match way {
        Finishes => drop(session.checkpoint().unwrap()),
        Leaves => assert!(!session.poll().unwrap()),
        LeavesAfterFailedWrite => {
            assert_eq!(session.write("no name", 0, &[1]).unwrap_err().kind(), ErrorKind::InvalidName);
            assert_eq!(session.poll().unwrap_err().kind(), ErrorKind::InvalidName);
        }
    }
}

fn reads(session: &mut Session, step: u8) {
    let mut state = vec![0; BYTES];
    session.restore().unwrap().unwrap();
    assert_eq!(session.read("state", 0, &mut state).unwrap(), BYTES);
    assert!(state.iter().all(|byte| *byte == step));
}

/// In each mixture of ranks, each rank goes its way with the second checkpoint, and then calls `next` with its own way
/// and the ways of all ranks. Then a third checkpoint is saved.
fn in_each_mixture(next: impl Fn(&mut Session, Way, &[Way; RANKS]) + Sync) {
    for (config, ways) in cases() {
        let (folder, what) = (TempDir::new().unwrap(), format!("{ways:?}, {config:?}"));
        let job = || {
            in_sessions(folder.path(), RANKS, &config, |rank, session| {
                save(session, 1).unwrap();
                go(session, ways[rank]);
                next(session, ways[rank], &ways);
                save(session, 3).unwrap();
                reads(session, 3);
            })
        };
        bounded(&what, job);
    }
}

/// All ranks learn it from the next call, of any kind.
fn is_told_by(call: impl Fn(&mut Session) -> Result<()> + Sync) {
    in_each_mixture(|session, way, _| {
        let error = call(session).unwrap_err();
        match way {
            Finishes => {}
            Leaves => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
            LeavesAfterFailedWrite => assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}"),
        }
    });
}

#[test]
fn the_next_begin_tells_all_ranks_and_the_one_after_saves() {
    is_told_by(|session| session.begin(BYTES as u64).map(drop));
}

#[test]
fn so_does_the_next_checkpoint() {
    is_told_by(|session| session.put("state", &[7; BYTES]).map(drop));
}

#[test]
fn who_waits_is_told_and_so_are_the_others() {
    is_told_by(Session::wait);
}

#[test]
fn a_restore_goes_back_behind_it() {
    in_each_mixture(|session, _, _| reads(session, 1));
}

#[test]
fn who_gets_is_told() {
    is_told_by(|session| session.get(None, "state", &mut [0; BYTES]).map(drop));
}

#[test]
fn who_asks_how_much_there_is_to_get_is_told() {
    is_told_by(|session| session.get_bytes(None, "state").map(drop));
}

#[test]
fn after_a_look_whether_one_is_due_the_next_call_tells_it() {
    is_told_by(|session| {
        assert!(!session.due(1).unwrap());
        session.wait()
    });
}

/// All ranks gave it up, or none did.
#[test]
fn to_abandon_what_others_have_ended_is_an_error() {
    in_each_mixture(|session, _, ways| {
        let abandoned = session.abandon();
        assert_eq!(abandoned.is_ok(), !ways.contains(&Finishes), "{ways:?}: {abandoned:?}");
        session.wait().unwrap();
    });
}

#[test]
fn the_end_tells_it() {
    for (config, ways) in cases() {
        let folder = TempDir::new().unwrap();
        run(RANKS, |rank, group| {
            let mut session = Session::open(group, folder.path(), config.clone()).unwrap();
            save(&mut session, 1).unwrap();
            go(&mut session, ways[rank]);
            session.close().unwrap_err();
        });
        in_sessions(folder.path(), RANKS, &config, |_, session| reads(session, 1));
    }
}

#[allow(unsafe_code)]
fn protect(session: &mut Session, memory: &mut [u8]) {
    // SAFETY: the memory lives as long as the session.
    session.protect(unsafe { Region::new("alike", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
    session.same_on_all_ranks("alike").unwrap();
}

/// The layout of the earlier ranks has the only revision until one is complete in the new layout.
#[test]
fn what_came_from_another_number_of_ranks_is_not_let_go_for_it() {
    let restored = |space: &Path, config: &Config| {
        in_sessions(space, RANKS, config, |_, session| {
            let mut memory = vec![0; 1000];
            protect(session, &mut memory);
            (session.restore().unwrap().unwrap().revision, memory == [5; 1000])
        })
    };
    for config in configs() {
        for closes in [true, false] {
            let folder = TempDir::new().unwrap();
            in_sessions(folder.path(), 2, &config, |_, session| {
                let mut memory = vec![5; 1000];
                protect(session, &mut memory);
                session.checkpoint().unwrap();
            });
            run(RANKS, |rank, group| {
                let mut session = Session::open(group, folder.path(), config.clone()).unwrap();
                let mut memory = vec![0; 1000];
                protect(&mut session, &mut memory);
                assert_eq!(session.restore().unwrap().unwrap().revision, 1);
                go(&mut session, if rank == 1 { Leaves } else { Finishes });
                if closes {
                    session.close().unwrap_err();
                } else {
                    assert_eq!(session.restore().unwrap().unwrap().revision, 1);
                    session.close().unwrap();
                }
            });
            assert_eq!(restored(folder.path(), &config), [(1, true); RANKS]);
        }
    }
}
