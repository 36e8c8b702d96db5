//! A program forgot to restore, ran for hours, and its first checkpoint removed the revisions of an earlier job. Now
//! the first call that saves, or asks whether to, is refused on all ranks, before the program has computed anything.

use crate::support::{bounded, in_sessions, small_pool};
use mainstay_engine::{Config, Error, ErrorKind, Region, Result, Session, Start};
use std::path::Path;
use tempfile::TempDir;

const RANKS: usize = 2;

fn config(keep: u32) -> Config {
    Config { keep, shard_bytes: 256 << 10, ..small_pool() }
}

#[allow(unsafe_code)]
fn with_memory<T>(session: &mut Session, memory: &mut [u8], work: impl FnOnce(&mut Session) -> T) -> T {
    // SAFETY: the memory is there until it is unprotected.
    session.protect(unsafe { Region::new("state", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()).unwrap();
    let worked = work(session);
    session.unprotect("state").unwrap();
    worked
}

/// Runs a job that saves so many revisions. Each is full of its number.
fn saved(space: &Path, revisions: u8, keep: u32) {
    in_sessions(space, RANKS, &config(keep), |_, session| {
        for number in 1..=revisions {
            with_memory(session, &mut [number; 1000], |session| session.checkpoint()).unwrap();
        }
    });
}

fn there(space: &Path) -> u8 {
    in_sessions(space, RANKS, &config(1), |_, session| {
        let mut memory = [0; 1000];
        with_memory(session, &mut memory, |session| session.restore()).unwrap();
        memory[0]
    })[0]
}

type Call = fn(&mut Session) -> Result<()>;

/// The calls that save, or ask whether to.
const CALLS: [Call; 4] = [
    |session| session.due(0).map(drop),
    |session| session.begin(1000).map(drop),
    |session| with_memory(session, &mut [9; 1000], |session| session.checkpoint()).map(drop),
    |session| session.put("other", &[9]).map(drop),
];

fn is_refused(error: &Error) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::NotRestored, "{text}");
    assert!(text.contains("push out revision 3 in") && text.contains("start = \"fresh\""), "{text}");
}

#[test]
fn who_has_not_restored_is_refused_on_all_ranks_and_what_was_saved_stays() {
    for call in CALLS {
        let folder = TempDir::new().unwrap();
        saved(folder.path(), 3, 1);
        bounded("refused", || {
            in_sessions(folder.path(), RANKS, &config(1), |_, session| {
                is_refused(&call(session).unwrap_err());
                is_refused(&call(session).unwrap_err());
            })
        });
        assert_eq!(there(folder.path()), 3);
        // The program has restored or read a revision, so it knows of the earlier ones.
        let reads: [Call; 3] = [
            |session| with_memory(session, &mut [0; 1000], |session| session.restore()).map(drop),
            |session| session.get(None, "state", &mut [0; 1000]).map(drop),
            |session| session.get_bytes(None, "state").map(drop),
        ];
        for read in reads {
            in_sessions(folder.path(), RANKS, &config(1), |_, session| {
                is_refused(&call(session).unwrap_err());
                read(session).unwrap();
                call(session).unwrap();
                if session.has_begun().unwrap() {
                    session.abandon().unwrap();
                }
            });
            saved_again(folder.path());
        }
    }
}

/// Makes the space anew with the same revisions: only revision 3 is left.
fn saved_again(space: &Path) {
    std::fs::remove_dir_all(space).unwrap();
    std::fs::create_dir(space).unwrap();
    saved(space, 3, 1);
}

#[test]
fn a_restore_that_failed_is_none() {
    let folder = TempDir::new().unwrap();
    saved(folder.path(), 3, 1);
    in_sessions(folder.path(), RANKS, &config(1), |_, session| {
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RegionMissing);
        assert!(error.to_string().contains("protect it before the restore, or open another space"), "{error}");
        is_refused(&session.due(0).unwrap_err());
    });
}

#[test]
fn with_start_fresh_it_saves_and_a_restore_finds_what_was_there() {
    let fresh = Config { start: Start::Fresh, ..config(1) };
    for call in CALLS {
        let folder = TempDir::new().unwrap();
        saved(folder.path(), 3, 1);
        in_sessions(folder.path(), RANKS, &fresh, |_, session| {
            let mut memory = [0; 1000];
            with_memory(session, &mut memory, |session| session.restore()).unwrap().unwrap();
            assert_eq!(memory, [3; 1000]);
        });
        in_sessions(folder.path(), RANKS, &fresh, |_, session| {
            call(session).unwrap();
            if session.has_begun().unwrap() {
                session.abandon().unwrap();
            }
        });
    }
}

#[test]
fn a_new_space_needs_no_restore_and_what_this_job_saved_is_its_own() {
    for call in CALLS {
        let folder = TempDir::new().unwrap();
        in_sessions(folder.path(), RANKS, &config(1), |_, session| {
            for _ in 0..3 {
                call(session).unwrap();
                if session.has_begun().unwrap() {
                    session.abandon().unwrap();
                }
            }
        });
    }
}

/// A log, for example, only adds revisions.
#[test]
fn what_only_adds_is_refused_once_something_has_to_go() {
    let folder = TempDir::new().unwrap();
    saved(folder.path(), 3, 4);
    in_sessions(folder.path(), RANKS, &config(5), |_, session| {
        assert_eq!(session.put("other", &[4]).unwrap(), 4);
        assert_eq!(session.put("other", &[5]).unwrap(), 5);
        let text = session.put("other", &[6]).unwrap_err().to_string();
        assert!(text.contains("push out revision 1 in"), "{text}");
        assert_eq!(session.checkpoint().unwrap_err().kind(), ErrorKind::NotRestored);
        session.get_bytes(Some(4), "other").unwrap();
        assert_eq!(session.put("other", &[6]).unwrap(), 6);
    });
}
