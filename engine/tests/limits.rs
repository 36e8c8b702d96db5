//! What the system, or someone at work on it, takes away.

mod support;

use mainstay_engine::{
    Config, ErrorKind, Session, SpaceSurvey,
    group::{Solo, ThreadGroup},
};
use std::thread;
use support::State;
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: 256 << 10, chunk_bytes: 64 << 10, ..Config::default() }
}

#[test]
fn a_layout_larger_than_any_file_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let errors: Vec<_> = thread::scope(|scope| {
        let spawn = |group| {
            let config = Config { portion_bytes: i64::MAX as u64, ..small() };
            let path = folder.path();
            scope.spawn(move || {
                let mut session = Session::open(Box::new(group), path, config).unwrap();
                let mut state = State::new();
                state.protect(&mut session);
                session.checkpoint().unwrap_err().kind()
            })
        };
        let threads: Vec<_> = ThreadGroup::new(2).into_iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(errors, [ErrorKind::DiskFull; 2]);
}

/// A job whose space was removed saves nothing, and said that it did.
#[test]
fn a_space_that_was_removed_is_missed() {
    let folder = TempDir::new().unwrap();
    let mut session = Session::open(Box::new(Solo), folder.path(), small()).unwrap();
    let mut state = State::new();
    state.protect(&mut session);
    session.checkpoint().unwrap();
    session.wait().unwrap();
    folder.close().unwrap();
    assert!(session.checkpoint().and_then(|_| session.wait()).is_err());
}

/// Locks of a pipe are none that another machine sees.
#[test]
fn a_pipe_that_has_the_name_of_the_lock_file_is_refused() {
    let folder = TempDir::new().unwrap();
    let lock = folder.path().join("lock");
    nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let opened = Session::open(Box::new(Solo), folder.path(), small()).map(drop);
    let surveyed = SpaceSurvey::open(folder.path()).map(drop);
    for error in [opened.unwrap_err(), surveyed.unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains(lock.to_str().unwrap()) && text.contains("not a regular file"), "{text}");
    }
}
