//! A checkpoint that the program left before its end, as an exception does: on one rank, or on all.

mod support;

use mainstay_engine::{Config, ErrorKind, Result, Session, Stage};
use support::{aggregating, in_sessions};
use tempfile::TempDir;

const RANKS: usize = 3;
const BYTES: usize = 100_000;

fn configs() -> Vec<Config> {
    let stages = [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct];
    let mut configs: Vec<Config> = stages.map(|stage| Config { stage, ..aggregating(0) }).into();
    configs.push(aggregating(1));
    configs
}

fn save(session: &mut Session, step: u8) -> Result<()> {
    session.begin(BYTES as u64)?;
    session.write("state", 0, &[step; BYTES])?;
    session.checkpoint()?;
    session.wait()
}

/// As `save`, but that on this rank something is wrong with it.
fn leave(session: &mut Session, write_fails: bool) -> Result<()> {
    session.begin(BYTES as u64)?;
    session.write("state", 0, &[99; BYTES / 2])?;
    if write_fails {
        assert_eq!(session.write("no name", 0, &[1]).unwrap_err().kind(), ErrorKind::InvalidName);
    }
    Ok(())
}

fn reads(session: &mut Session, step: u8) {
    let mut state = vec![0; BYTES];
    session.restore().unwrap().unwrap();
    assert_eq!(session.read("state", 0, &mut state).unwrap(), BYTES);
    assert!(state.iter().all(|byte| *byte == step));
}

#[test]
fn the_next_begin_tells_all_ranks_and_the_one_after_saves() {
    for config in configs() {
        for (who, write_fails) in [(0..1, true), (1..2, true), (1..2, false), (0..RANKS, true), (0..RANKS, false)] {
            let folder = TempDir::new().unwrap();
            in_sessions(folder.path(), RANKS, &config, |rank, session| {
                let leaves = who.contains(&rank);
                save(session, 1).unwrap();
                if leaves {
                    leave(session, write_fails).unwrap();
                } else {
                    session.begin(BYTES as u64).unwrap();
                    session.write("state", 0, &[2; BYTES]).unwrap();
                    session.checkpoint().unwrap();
                }
                let error = session.begin(BYTES as u64).unwrap_err();
                if leaves {
                    let kind = if write_fails { ErrorKind::InvalidName } else { ErrorKind::InvalidArgument };
                    assert_eq!(error.kind(), kind, "{error}");
                }
                save(session, 3).unwrap();
                reads(session, 3);
            });
        }
    }
}

#[test]
fn who_waits_is_told_of_a_write_that_failed_and_so_are_the_others() {
    for config in configs() {
        let folder = TempDir::new().unwrap();
        in_sessions(folder.path(), RANKS, &config, |rank, session| {
            save(session, 1).unwrap();
            if rank == 1 {
                leave(session, true).unwrap();
            } else {
                session.begin(BYTES as u64).unwrap();
                session.write("state", 0, &[2; BYTES]).unwrap();
                session.checkpoint().unwrap();
            }
            session.wait().unwrap_err();
            save(session, 3).unwrap();
            reads(session, 3);
        });
    }
}

/// What is not finished because nobody had the time is given up; what failed is told.
#[test]
fn the_end_tells_of_a_write_that_failed() {
    for config in configs() {
        for write_fails in [true, false] {
            let folder = TempDir::new().unwrap();
            let told = support::run(RANKS, |_, group| {
                let mut session = Session::open(group, folder.path(), config.clone()).unwrap();
                save(&mut session, 1).unwrap();
                leave(&mut session, write_fails).unwrap();
                session.close()
            });
            assert!(told.iter().all(|told| told.is_err() == write_fails), "{told:?}");
            in_sessions(folder.path(), RANKS, &config, |_, session| reads(session, 1));
        }
    }
}
