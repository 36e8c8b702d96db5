//! The system, or its user, takes a resource away.

use crate::support::{State, run};
use mainstay_engine::{Config, ErrorKind, Session, group::Solo};
use std::{fs, os::unix::fs::MetadataExt};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

#[test]
fn a_layout_larger_than_any_file_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let config = Config { portion_bytes: i64::MAX as u64, ..small() };
    let errors = run(2, |_, group| {
        let mut session = Session::open(group, folder.path(), config.clone()).unwrap();
        let mut state = State::new();
        state.protect(&mut session);
        session.checkpoint().unwrap_err().kind()
    });
    assert_eq!(errors, [ErrorKind::DiskFull; 2]);
}

/// The record has 16 bytes for each announced block, and the list of the actual shard, not of the largest possible one.
#[test]
fn the_record_beside_the_pool_is_as_small_as_the_guide_says() {
    let (folder, pools) = (TempDir::new().unwrap(), TempDir::new_in("/dev/shm").unwrap());
    let config = Config { pool_directory: pools.path().into(), ..small() };
    let mut session = Session::open(Box::new(Solo), folder.path(), config).unwrap();
    let announced = 64 << 20;
    session.begin(announced).unwrap();
    session.write("little", 0, &[1; 1000]).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    let files = fs::read_dir(pools.path()).unwrap().map(|file| file.unwrap());
    let records = files.filter(|file| file.path().extension().is_some());
    let bytes: Vec<u64> = records.map(|record| record.metadata().unwrap().blocks() * 512).collect();
    let [hashes, rest] = [announced / 4096 * 16, 64 << 10];
    assert!(matches!(bytes[..], [one] if one >= hashes && one <= hashes + rest), "{bytes:?}, of {hashes}");
    session.close().unwrap();
}

/// Story: the space of a job was removed. The job saved nothing, and said that it did.
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
