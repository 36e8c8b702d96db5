//! Spaces grow with their data: the checkpoint that needs room makes a larger layout beside the old one, which is
//! removed once it keeps nothing. A space with one level did not, and saved nothing more.

use crate::support::{
    between::Watched,
    faulty::{Faulty, Medium},
    full::Full,
    program::{Mark, Program},
    recording::{Trouble, expect, job_of},
    run, whole,
};
use mainstay_engine::{
    Capture, Compress, Config, Error, ErrorKind, Session, SpaceSurvey, Stage, Start,
    device::Disk,
    group::{Group, Solo},
    space::Per,
    tend::{Reservation, Rules, Unseen, grow, prune_on, rollback_on},
};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tempfile::TempDir;

const SIZES: [usize; 8] = [20_000, 30_000, 29_000, 90_000, 10_000, 91_000, 200_000, 200_000];

fn small() -> Config {
    let (pool_bytes, chunk_bytes) = (Some(256 << 10), Some(16 << 10));
    Config { start: Start::Fresh, pool_bytes, chunk_bytes, io_threads: 1, ..Config::default() }
}

fn put(session: &mut Session, bytes: usize) -> Result<u64, Error> {
    session.put("state", &vec![bytes as u8; bytes])
}

fn layouts_on(medium: &Medium) -> BTreeSet<u64> {
    let layouts = whole::layouts(&medium.files()).unwrap();
    layouts.iter().map(|layout| layout.header.layout_number).collect()
}

fn layouts(path: &Path) -> BTreeSet<u64> {
    SpaceSurvey::open(path).unwrap().layouts.iter().map(|layout| layout.header.layout_number).collect()
}

/// The space grows with any other settings of the job. The state of one rank keeps its size.
#[test]
fn a_space_with_one_level_grows_with_the_state() {
    let ways = [
        (Per::App, Capture::Whole, Compress::Off, Stage::Pool),
        (Per::Node, Capture::Incremental, Compress::Off, Stage::Direct),
        (Per::Rank, Capture::Incremental, Compress::Lz4, Stage::Pool),
        (Per::Rank, Capture::Whole, Compress::Zstd, Stage::Pool),
        (Per::App, Capture::IncrementalSnapshot, Compress::Off, Stage::Pool),
    ];
    for (per, capture, compress, stage) in ways {
        for keep in [1, 2] {
            let medium = Medium::new(true);
            let config = Config { keep, per, capture, compress, stage, ..small() };
            let saves = |program: &mut Program, session: &mut Session, step: u64, bytes| {
                let bytes = if session.rank() == 1 { SIZES[0] } else { bytes };
                program.fill(session, Mark { run: 1, step }, bytes)?;
                session.checkpoint()?;
                Ok::<(), Trouble>(session.wait()?)
            };
            job_of(
                &medium,
                3,
                |_| config.clone(),
                |mut program, mut session| {
                    (1..).zip(SIZES).try_for_each(|(step, bytes)| saves(&mut program, &mut session, step, bytes))?;
                    Ok(session.close()?)
                },
            )
            .and_then(|()| {
                job_of(
                    &medium,
                    3,
                    |_| config.clone(),
                    |mut program, mut session| {
                        expect(program.restore(&mut session), Mark { run: 1, step: 8 })?;
                        saves(&mut program, &mut session, 9, 200_000)?;
                        saves(&mut program, &mut session, 10, 500_000)?;
                        saves(&mut program, &mut session, 11, 500_000)?;
                        Ok(session.close()?)
                    },
                )
            })
            .unwrap_or_else(|why| panic!("{config:?}: {why}"));
            whole::check(&medium.files()).unwrap();
            assert_eq!(layouts_on(&medium).len(), 1, "old layouts go: {per:?}, {capture:?}");
            let survey = SpaceSurvey::open_on(&Faulty(medium.view())).unwrap();
            assert!(survey.damage.is_empty() && survey.newest().unwrap().key.number == 11);
        }
    }
}

/// Two ranks pass a part of the state to and fro. Otherwise each checkpoint would make a new layout.
#[test]
fn portions_that_were_left_set_the_least_size_of_new_ones() {
    let folder = TempDir::new().unwrap();
    run(2, |rank, group| {
        let mut session = Session::open(group, folder.path(), small()).unwrap();
        for step in 0..10 {
            put(&mut session, if step % 2 == rank { 500_000 } else { 1000 }).unwrap();
        }
        session.close().unwrap();
    });
    assert_eq!(layouts(folder.path()), [2].into());
}

/// A larger layout finds no room: the job goes on in its old one, and saves any shard that still fits there.
#[test]
fn a_full_disk_is_told_and_the_layout_there_is_goes_on() {
    for (ranks, per) in [(1, Per::App), (2, Per::Rank)] {
        let folder = TempDir::new().unwrap();
        let device = Arc::new(Watched::new(Disk::existing(folder.path()), Full::default()));
        run(ranks, |_, group| {
            let config = Config { per, ..small() };
            let mut session = Session::open_on(group, device.clone(), config).unwrap();
            put(&mut session, 100_000).unwrap();
            device.between.0.store(true, Relaxed);
            for _ in 0..2 {
                assert_eq!(put(&mut session, 1 << 20).unwrap_err().kind(), ErrorKind::DiskFull);
                put(&mut session, 100_000).unwrap();
            }
            put(&mut session, 160_000).unwrap();
            put(&mut session, 100_000).unwrap();
            session.wait().unwrap();
            device.between.0.store(false, Relaxed);
            put(&mut session, 1 << 20).unwrap();
            session.close().unwrap();
        });
        let survey = SpaceSurvey::open(folder.path()).unwrap();
        assert_eq!(survey.newest().unwrap().key.number, 6);
        assert_eq!(survey.layouts.len(), ranks);
    }
}

/// Story: a job was killed while it made a larger layout. The disk has no room for two layouts beside the one in use,
/// so the next job saved nothing more.
#[test]
fn a_larger_layout_that_was_never_finished_is_in_nobodys_way() {
    let folder = TempDir::new().unwrap();
    let config = Config { per: Per::Rank, ..small() };
    let device = Arc::new(Watched::new(Disk::existing(folder.path()), Full::default()));
    let saves = |group: Box<dyn Group>| {
        let mut session = Session::open_on(group, device.clone(), config.clone()).unwrap();
        put(&mut session, 100_000).unwrap();
        put(&mut session, 100_000).unwrap();
        session.close().unwrap();
    };
    run(2, |_, group| saves(group));
    let larger = Reservation { per: Per::Rank, ..Reservation::as_before(folder.path(), 2).unwrap() };
    let made = grow(folder.path(), &larger, &|_| ()).unwrap().files;
    // One rank has made its file, and the other was killed before it made its own.
    std::fs::remove_file(folder.path().join(&made[1].name)).unwrap();
    device.between.0.store(true, Relaxed);
    run(2, |_, group| saves(group));
    assert_eq!(layouts(folder.path()), [1].into());
}

/// `prune` and `rollback` work on revisions in two layouts for the same number of ranks.
#[test]
fn a_space_that_has_grown_is_pruned_and_rolled_back() {
    let medium = Medium::new(true);
    let config = Config { keep: 3, ..small() };
    let open = || Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), config.clone()).unwrap();
    let mut session = open();
    [10_000, 10_000, 400_000].into_iter().for_each(|bytes| assert!(put(&mut session, bytes).is_ok()));
    session.close().unwrap();
    let survey = || SpaceSurvey::open_on(&Faulty(medium.view())).unwrap();
    assert_eq!((layouts_on(&medium), survey().revisions.len()), ([1, 2].into(), 3));
    let to = survey().revision(2).unwrap().key;
    rollback_on(&[(&Faulty(medium.view()), Unseen::GivenUp)], to, &|_| ()).unwrap();
    assert_eq!(survey().newest().unwrap().key.number, 2);
    let mut session = open();
    let mut into = vec![0; 10_000];
    assert_eq!(session.get(None, "state", &mut into).unwrap().unwrap().revision, 2);
    put(&mut session, 400_000).unwrap();
    session.close().unwrap();
    prune_on(&Faulty(medium.view()), &Rules::default(), Unseen::GivenUp, &|_| ()).unwrap();
    assert_eq!(survey().revisions.len(), 1);
    assert_eq!(survey().newest().unwrap().shards.len(), 1);
    let mut session = open();
    put(&mut session, 400_000).unwrap();
    session.close().unwrap();
    assert_eq!(layouts_on(&medium).len(), 1);
}
