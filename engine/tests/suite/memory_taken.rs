//! The use of /dev/shm by a memory level: the shards that the guide names, and little more; never a pool.

use crate::support::{
    bounded,
    program::{Mark, Program},
    run,
};
use mainstay_engine::{Config, LevelPlace, Session, Start, model::memory_bytes};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

const BYTES: usize = 4 << 20;
/// The further memory of each portion: roots, catalogues, manifests and hashes, and the record of staged data. All of
/// these together take less than another shard.
const BESIDE: u64 = BYTES as u64 / 8;
const STEPS: u64 = 4;

/// The memory of the files below `folder`. Some may be removed meanwhile.
fn taken(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |path: &Path| match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => taken(path),
        found => found.map_or(0, |found| found.blocks() * 512),
    };
    entries.flatten().map(|entry| of(&entry.path())).sum()
}

/// The largest amount of memory that a job uses, at its checkpoints and after them. It runs one rank on each of
/// `copies` nodes.
fn most_taken(copies: u32, keep: u32, feeds: usize) -> u64 {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (nodes, farther) = (folder.path().join("nodes"), tempfile::tempdir().unwrap());
    let most = AtomicU64::new(0);
    bounded("a job in memory", || {
        run(copies as usize, |rank, group| {
            let memory = nodes.join(rank.to_string());
            fs::create_dir_all(&memory).unwrap();
            let disk = LevelPlace::At(farther.path().join(format!("disk{rank}")));
            let config = Config {
                memory: LevelPlace::At(memory.clone()),
                memory_copies: copies,
                memory_keep: keep,
                disk: if feeds == 2 { disk } else { LevelPlace::Off },
                disk_every: 1,
                pfs_every: u32::from(feeds > 0),
                pool_directory: memory,
                start: Start::Fresh,
                ..Config::default()
            };
            let mut session = Session::open(group, &farther.path().join("space"), config).unwrap();
            let mut program = Program::new(rank);
            program.protect(&mut session).unwrap();
            program.fill(&mut session, Mark { run: 0, step: 0 }, BYTES).unwrap();
            session.restore().unwrap();
            for step in 1..=STEPS {
                program.fill(&mut session, Mark { run: 1, step }, BYTES).unwrap();
                session.checkpoint().unwrap();
                most.fetch_max(taken(&nodes), Ordering::Relaxed);
                if step % 2 == 0 {
                    session.wait().unwrap();
                    most.fetch_max(taken(&nodes), Ordering::Relaxed);
                }
            }
            session.close().unwrap();
        })
    });
    most.into_inner()
}

#[test]
fn a_memory_level_takes_the_shards_that_are_kept_saved_and_fed_from() {
    for (copies, keep, feeds) in [(1, 1, 0), (2, 1, 0), (2, 1, 2), (2, 2, 1), (3, 1, 0)] {
        let shards = memory_bytes(BYTES as u64, copies.into(), keep.into(), feeds as u64).unwrap();
        let taken = most_taken(copies, keep, feeds) / u64::from(copies);
        let told = format!("{copies} copies, {keep} kept, {feeds} farther levels: {taken} bytes a rank, not {shards}");
        let beside = BESIDE * u64::from(copies);
        assert!(taken <= shards + beside, "{told}");
        // The job uses all of the advised memory; otherwise the rule would advise too much.
        assert!(taken + beside >= shards, "{told}");
    }
}
