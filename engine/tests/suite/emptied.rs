//! Only layouts without content are removed: staged data of a killed job on another node, and unreadable data, may be
//! content.

use crate::support::{State, filled, stuck::stuck};
use mainstay_engine::{
    Config, ErrorKind, Session, SpaceSurvey,
    device::Disk,
    group::Solo,
    tend::{Reservation, Rules, ShardSize, Unseen, grow, prune, reserve, salvage},
};
use std::{
    env,
    fs::{self, File},
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};
use tempfile::TempDir;

const BLOCK: u64 = 4096;
const KEEP_ONE: Rules = Rules { keep_last: Some(1), keep_every: None, older_than_unix_ns: None };

fn config(pools: &Path) -> Config {
    Config {
        pool_directory: pools.into(),
        pool_bytes: Some(512 << 10),
        chunk_bytes: Some(64 << 10),
        ..Config::default()
    }
}

fn room() -> Reservation {
    Reservation::alike(&ShardSize::of(1 << 20, 0).unwrap(), 1, 1)
}

fn layouts(space: &Path) -> Vec<String> {
    SpaceSurvey::open(space).unwrap().layouts.into_iter().map(|layout| layout.file).collect()
}

/// A job that is killed right after t2: its only revision has no byte in the space yet.
#[test]
#[ignore = "run by the other tests"]
fn job_that_is_killed() {
    let Some(space) = env::var_os("EMPTIED_SPACE") else { return };
    let pools = env::var_os("EMPTIED_POOLS").unwrap();
    let device = stuck(Disk::existing(Path::new(&space)));
    let mut session = Session::open_on(Box::new(Solo), Arc::new(device.clone()), config(Path::new(&pools))).unwrap();
    let mut state = State::new();
    state.protect(&mut session);
    filled(&mut state, 0, 1);
    device.between.sticks_after(0);
    session.checkpoint().unwrap();
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn a_layout_that_a_pool_elsewhere_has_something_for_stays() {
    let (folder, pools) = (TempDir::new().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let space = folder.path();
    reserve(space, &room(), &|_| ()).unwrap();
    let staged_for = layouts(space).remove(0);
    let job = Command::new(env::current_exe().unwrap())
        .args(["--exact", "emptied::job_that_is_killed", "--ignored", "--nocapture"])
        .env("EMPTIED_SPACE", space)
        .env("EMPTIED_POOLS", pools.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(job.signal(), Some(9), "{job}");

    // These commands run as on another node, which does not see the memory of the job. They may remove a layout that
    // was made since and never had data.
    let none = Vec::<String>::new();
    assert_eq!(grow(space, &room(), &|_| ()).unwrap().removed, none);
    let second = layouts(space).remove(1);
    assert_eq!(grow(space, &room(), &|_| ()).unwrap().removed, [second]);
    assert_eq!(reserve(space, &room(), &|_| ()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(prune(space, &KEEP_ONE, Unseen::GivenUp, &|_| ()).unwrap().layouts_removed, none);
    assert!(layouts(space).contains(&staged_for));

    salvage(pools.path(), Some(space), false).unwrap();
    let survey = SpaceSurvey::open(space).unwrap();
    assert!(survey.newest().is_some(), "what was staged is lost: {survey:?}");
    assert_eq!(fs::read_dir(pools.path()).unwrap().count(), 0);
}

#[test]
fn a_layout_that_cannot_be_read_stays() {
    let (folder, pools) = (TempDir::new().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let space = folder.path();
    let mut session = Session::open(Box::new(Solo), space, config(pools.path())).unwrap();
    let mut state = State::new();
    state.protect(&mut session);
    filled(&mut state, 0, 1);
    session.checkpoint().unwrap();
    session.close().unwrap();
    let survey = SpaceSurvey::open(space).unwrap();
    let (name, header) = (&survey.layouts[0].file, &survey.layouts[0].header);
    grow(space, &room(), &|_| ()).unwrap();
    let file = File::options().read(true).write(true).open(space.join(name)).unwrap();
    let (place, both_slots) = (header.portions[0], header.slot_stride + BLOCK);
    let stretches = (0..place.bytes / BLOCK).map(|block| (block * BLOCK, BLOCK)).chain([(0, both_slots)]);
    let mut damaged = 0;
    for (at, bytes) in stretches {
        let mut before = vec![0; bytes as usize];
        file.read_exact_at(&mut before, place.at + at).unwrap();
        file.write_all_at(&vec![0xff; bytes as usize], place.at + at).unwrap();
        let removed = prune(space, &KEEP_ONE, Unseen::GivenUp, &|_| ()).unwrap().layouts_removed;
        assert_eq!(removed, Vec::<String>::new(), "{bytes} bytes at {at}");
        damaged += usize::from(!SpaceSurvey::open(space).unwrap().damage.is_empty());
        if bytes == BLOCK {
            file.write_all_at(&before, place.at + at).unwrap();
        }
    }
    assert!(damaged >= 4, "slots, catalogues and manifests: {damaged}");
    assert_eq!(grow(space, &room(), &|_| ()).unwrap().removed.len(), 1, "the one that was never used");
    assert!(layouts(space).contains(name));
}

/// A layout is not kept for ever if it is whole, was closed in order, and has only revisions that are removed.
#[test]
fn a_layout_of_which_all_goes_is_removed() {
    let (folder, pools) = (TempDir::new().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let space = folder.path();
    let save = |keep| {
        let config = Config { keep, ..config(pools.path()) };
        let mut session = Session::open(Box::new(Solo), space, config).unwrap();
        let mut state = State::new();
        state.protect(&mut session);
        session.restore().unwrap();
        filled(&mut state, 0, 1);
        session.checkpoint().unwrap();
        session.close().unwrap();
    };
    save(2);
    let first = layouts(space).remove(0);
    grow(space, &room(), &|_| ()).unwrap();
    save(2);
    assert!(layouts(space).contains(&first));
    assert_eq!(prune(space, &KEEP_ONE, Unseen::GivenUp, &|_| ()).unwrap().layouts_removed, [first]);
}
