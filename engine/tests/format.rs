//! Spaces written by older versions are read by this one.
//!
//! `tests/fixtures/version-N.tar.gz` is the space of a job of two ranks, keep 2, as version N of the
//! format had it: revision 3 is the newest, after three checkpoints of `filled` states. A version that
//! changes the format adds its own with `WRITE_FIXTURE=1` and keeps the old ones.

mod support;

use mainstay_engine::{
    Config, Session, SpaceSurvey,
    space::format::VERSION,
    tend::{Holding, hold},
};
use std::{env, path::Path, process::Command, time::Duration};
use support::{Job, State, filled};

const RANKS: usize = 2;
const REVISIONS: u64 = 3;

fn job() -> Job {
    Job::new(RANKS, Config { keep: 2, pool_bytes: 128 << 10, chunk_bytes: 64 << 10, ..Config::default() })
}

/// A state of a few blocks, so that the archive is small.
fn shrink(session: &mut Session, state: &mut State) {
    for name in ["field", "step", "empty"] {
        session.unprotect(name).unwrap();
    }
    state.field.truncate(3001);
    state.protect(session);
}

fn tar(job: &Job, arguments: &[&str], archive: &Path) {
    let mut command = Command::new("tar");
    command.args(arguments).arg(archive).arg("-C").arg(job.directory.path()).arg("space");
    assert!(command.status().unwrap().success(), "{command:?} failed");
}

fn fixture(version: u32) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/version-{version}.tar.gz"))
}

#[test]
fn spaces_of_every_version_are_read() {
    if env::var_os("WRITE_FIXTURE").is_some() {
        let job = job();
        job.run(|rank, session, state| {
            shrink(session, state);
            for step in 1..=REVISIONS {
                filled(state, rank, step);
                session.checkpoint().unwrap();
            }
        });
        tar(&job, &["-c", "-z", "-S", "-f"], &fixture(VERSION));
    }
    for version in 1..=VERSION {
        let job = job();
        tar(&job, &["-x", "-z", "-f"], &fixture(version));
        // Written before there were holds: what is reserved for them takes them.
        let space = job.directory.path().join("space");
        let oldest = SpaceSurvey::open(&space).unwrap().revision(1).unwrap().key;
        assert!(matches!(hold(&space, oldest, "", 0, Duration::ZERO).unwrap(), Holding::Counts(_)));
        job.run(|rank, session, state| {
            shrink(session, state);
            assert_eq!(session.restore().unwrap().unwrap().revision, REVISIONS);
            let mut expected = state.clone();
            filled(&mut expected, rank, REVISIONS);
            assert!(*state == expected, "version {version}: rank {rank} got other bytes");
            for _ in 0..4 {
                session.checkpoint().unwrap();
            }
        });
        assert!(SpaceSurvey::open(&space).unwrap().complete(oldest).is_some_and(|revision| revision.held));
    }
}
