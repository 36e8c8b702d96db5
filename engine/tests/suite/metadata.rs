//! No metadata operation per checkpoint (paper 001): after the first, a checkpoint reads, writes, and syncs open files,
//! and makes no other request to the file system below the space, for any number of ranks.

use crate::support::{
    State,
    between::{Between, Watched},
    bounded,
    counting::counting,
    filled,
};
use mainstay_engine::{
    Config, Session, Stage, Start,
    device::{Disk, File, FileSystem},
    group::{Solo, ThreadGroup},
    space::Per,
    tend::{Reservation, ShardSize, reserve},
};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const CHECKPOINTS: u64 = 9;

type Counts = BTreeMap<&'static str, u64>;

/// The operations of a job of `ranks` ranks in `directory`, up to its first checkpoint and for the further ones.
fn counted(ranks: usize, directory: &Path, config: &Config) -> [Counts; 2] {
    let device = counting(Disk::existing(directory), FileSystem::Other, 0);
    let all = Barrier::new(ranks);
    let job = |rank: usize, group: ThreadGroup| -> [Counts; 2] {
        let mut session = Session::open_on(Box::new(group), Arc::new(device.clone()), config.clone()).unwrap();
        let mut state = State::new();
        state.protect(&mut session);
        let mut counts = [Counts::new(), Counts::new()];
        for step in 1..=CHECKPOINTS {
            filled(&mut state, rank, step);
            session.checkpoint().unwrap();
            assert!(!session.due(step).unwrap());
            session.wait().unwrap();
            if step == 1 || step == CHECKPOINTS {
                all.wait();
                if rank == 0 {
                    counts[usize::from(step > 1)] = device.between.take();
                }
                all.wait();
            }
        }
        session.close().unwrap();
        counts
    };
    thread::scope(|scope| {
        let ranks = ThreadGroup::new(ranks).into_iter().enumerate();
        let ranks: Vec<_> = ranks.map(|(rank, group)| scope.spawn(move || job(rank, group))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).next().unwrap()
    })
}

fn config(stage: Stage, per: Per) -> Config {
    Config { stage, per, pool_bytes: Some(512 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

/// The test also keeps more revisions, so that one checkpoint writes several roots.
#[test]
fn a_checkpoint_after_the_first_asks_for_no_metadata() {
    for ranks in [1, 4] {
        for stage in [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank] {
            for (per, keep) in [(Per::App, 1), (Per::Rank, 3)] {
                let directory = tempfile::tempdir().unwrap();
                let config = Config { keep, ..config(stage, per) };
                let [first, further] = counted(ranks, directory.path(), &config);
                for what in ["create", "open", "rename", "list", "sync_directory", "try_lock"] {
                    assert!(first.contains_key(what), "{what} is not counted: {first:?}");
                }
                let kinds: Vec<_> = further.keys().copied().collect();
                assert_eq!(kinds, ["sync", "write"], "{ranks} ranks, {stage:?}, {per:?}: {further:?}");
                assert!(further["sync"] >= 2 * (CHECKPOINTS - 1) * ranks as u64, "{further:?}");
            }
        }
    }
}

/// With room for keep + 2 revisions every second checkpoint from the fourth on writes a root first, to free blocks.
/// With room for one more revision no checkpoint does.
#[test]
fn with_room_for_one_revision_more_a_checkpoint_writes_one_root() {
    let to_free = (4..=CHECKPOINTS).step_by(2).count() as u64;
    for (room, roots) in [(1, CHECKPOINTS - 1 + to_free), (2, CHECKPOINTS - 1)] {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new();
        let shard = ShardSize::of((size_of_val(&*state.field) + size_of_val(&state.step)) as u64, 0).unwrap();
        reserve(directory.path(), &Reservation::for_shards(&[shard], room), &|_| ()).unwrap();
        let [_, further] = counted(1, directory.path(), &config(Stage::Pool, Per::App));
        // Each root needs one sync before it and one after it.
        assert_eq!(further["sync"], 2 * roots, "room for keep of {room}: {further:?}");
    }
}

/// In a reserved space the first checkpoint makes no metadata operation either: the opening makes all of them.
#[test]
fn in_a_reserved_space_nothing_is_made_by_the_first_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let shards = vec![ShardSize::of(1 << 20, 0).unwrap(); 3];
    reserve(directory.path(), &Reservation::for_shards(&shards, 1), &|_| ()).unwrap();
    let [first, further] = counted(3, directory.path(), &config(Stage::Pool, Per::App));
    // The job makes only the probe by which the ranks find each other. The lock file has all its blocks already.
    assert_eq!((first["create"], first.get("rename"), first.get("longer")), (1, None, None), "{first:?}");
    assert_eq!(further.keys().copied().collect::<Vec<_>>(), ["sync", "write"], "{further:?}");
}

/// A disk on which writes wait while the gate is closed.
#[derive(Debug, Default)]
struct Gate {
    is_closed: AtomicBool,
}

impl Between for Gate {
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        while self.is_closed.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        file.write_at(bytes, offset)
    }
}

/// A start recognizes data staged for another space by file names. So a job that saves does not slow a start beside it,
/// whatever the number of its ranks.
#[test]
fn a_start_beside_a_job_that_saves_opens_no_more_than_alone() {
    const RANKS: usize = 3;
    let directory = tempfile::tempdir().unwrap();
    let pool_directory = directory.path().join("pools");
    std::fs::create_dir(&pool_directory).unwrap();
    let config = Config { pool_directory, start: Start::Fresh, ..Config::default() };
    let start = || {
        let device = counting(Disk::make(&directory.path().join("starts")).unwrap(), FileSystem::Other, 0);
        let mut session = Session::open_on(Box::new(Solo), Arc::new(device.clone()), config.clone()).unwrap();
        let opening = device.between.take();
        let mut state = State::new();
        state.protect(&mut session);
        session.checkpoint().unwrap();
        session.close().unwrap();
        opening
    };
    let saving = Watched::new(Disk::make(&directory.path().join("saves")).unwrap(), Gate::default());
    let all = Barrier::new(RANKS + 1);
    let job = |group: ThreadGroup| {
        let mut session = Session::open_on(Box::new(group), Arc::new(saving.clone()), config.clone()).unwrap();
        let mut state = State::new();
        state.protect(&mut session);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        all.wait();
        all.wait();
        session.checkpoint().unwrap();
        all.wait();
        session.close().unwrap();
    };
    start();
    let starts = || {
        thread::scope(|scope| {
            ThreadGroup::new(RANKS).into_iter().for_each(|group| drop(scope.spawn(|| job(group))));
            all.wait();
            let alone = start();
            saving.between.is_closed.store(true, Ordering::SeqCst);
            all.wait();
            all.wait();
            let beside = start();
            saving.between.is_closed.store(false, Ordering::SeqCst);
            [alone, beside]
        })
    };
    let [alone, beside] = bounded("starts beside a job that saves", starts);
    // Two more lists, by names only: before the start knows whether to wait for the pool, and afterwards.
    assert_eq!(beside["list"], alone["list"] + 2, "{beside:?}");
    let rest = |mut counts: Counts| counts.remove("list").map(|_| counts);
    assert_eq!(rest(beside), rest(alone));
}
