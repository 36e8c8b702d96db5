//! Shards that fill their portions to the last block. A root could always be written only as long as there was a block
//! left for its catalogue, and the shard before took it. Then every checkpoint failed, even of one byte, in every
//! session. `prune` changed one portion of two before it failed.
//!
//! A failing seed is printed; MAINSTAY_SEED=<number> runs that one alone.

use crate::support::{
    faulty::{Durable, Faulty, Medium},
    in_sessions, often, one_or_all,
    recording::losses,
    whole,
};
use mainstay_engine::{
    Config, Error, ErrorKind, Session, SpaceSurvey, Stage, Start, Verified,
    device::{Access, Allocate, Device, NewFile},
    group::Solo,
    tend::{Reservation, Rules, ShardSize, Unseen, grow, hold_on, prune, prune_on, release_on},
};
use std::{
    ops::Range,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;

const BLOCK: usize = 4096;

/// Every session must find room, even one that has read nothing.
fn config(keep: u32) -> Config {
    Config { keep, start: Start::Fresh, stage: Stage::Direct, ..Config::default() }
}

fn put(session: &mut Session, bytes: usize) -> Result<u64, Error> {
    session.put("state", &vec![bytes as u8; bytes])
}

fn open(medium: &Medium, keep: u32) -> Session {
    Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), config(keep)).unwrap()
}

/// Settings of a session that does not enlarge existing portions.
fn fixed(keep: u32) -> Config {
    Config { portion_bytes: 1 << 20, ..config(keep) }
}

/// A session in portions that a first checkpoint of so many `bytes` has sized. They keep their size.
fn open_sized(medium: &Medium, keep: u32, bytes: usize) -> Session {
    let mut session = open(medium, keep);
    put(&mut session, bytes).unwrap();
    session.close().unwrap();
    open_fixed(medium, keep)
}

fn open_fixed(medium: &Medium, keep: u32) -> Session {
    Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), fixed(keep)).unwrap()
}

fn survey(medium: &Medium) -> SpaceSurvey {
    SpaceSurvey::open_on(&Faulty(medium.view())).unwrap()
}

/// The test saves every size around the one that just fits.
#[test]
fn a_shard_that_fills_its_portion_is_no_end() {
    for keep in [1, 2, 3] {
        let (mut granted, mut refused) = (0, 0);
        // Room for keep+2 shards of 25 blocks. Each has at least two more blocks of metadata.
        for blocks in 40..90 {
            let medium = Medium::new(true);
            let mut session = open_sized(&medium, keep, 100_000);
            match put(&mut session, blocks * BLOCK) {
                Ok(_) => granted += 1,
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::PortionTooSmall);
                }
            }
            for bytes in [1, 100_000, 100_000] {
                put(&mut session, bytes).unwrap_or_else(|error| panic!("keep {keep}, {blocks} blocks: {error}"));
            }
            session.close().unwrap();
            let mut session = open_fixed(&medium, keep);
            put(&mut session, 100_000).unwrap();
            session.close().unwrap();
            prune_on(&Faulty(medium.view()), &Rules::default(), Unseen::GivenUp, &|_| ()).unwrap();
            assert_eq!((survey(&medium).revisions.len(), survey(&medium).clean), (1, true));
        }
        assert!(granted > 0 && refused > 0, "keep {keep}: {granted} fitted, {refused} did not");
    }
}

/// The numbers of the error are exact: a checkpoint that needs only the available room is saved.
#[test]
fn what_is_available_can_be_taken() {
    for keep in [1, 2, 4] {
        let medium = Medium::new(true);
        let mut session = open_sized(&medium, keep, 100_000);
        let Err(Error::PortionTooSmall { needed, available, kept, held, .. }) = put(&mut session, 1 << 20) else {
            panic!("there is room for a MiB")
        };
        assert_eq!((kept, held), (1, 0));
        // Fewer blocks have fewer hashes, so at least this size fits.
        put(&mut session, (1 << 20) - (needed - available) as usize).unwrap();
    }
}

/// Story: the advice was enough for the first rank only. With that much room the next rank had too little.
#[test]
fn the_room_that_is_advised_is_enough_for_all_ranks() {
    let folder = TempDir::new().unwrap();
    let sizes = [1, 300_000, 2_000_000, 1 << 20];
    let advised = Mutex::new(0);
    in_sessions(folder.path(), sizes.len(), &config(1), |_, session| {
        put(session, 1000).unwrap();
    });
    in_sessions(folder.path(), sizes.len(), &fixed(1), |rank, session| {
        let error = put(session, sizes[rank]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PortionTooSmall);
        let told = error.to_string();
        let (_, advice) = told.split_once("--per-rank ").unwrap_or_else(|| panic!("{told}"));
        *advised.lock().unwrap() = advice.split_once('`').unwrap().0.parse().unwrap();
    });
    let each = ShardSize::of(advised.into_inner().unwrap(), 0).unwrap();
    grow(folder.path(), &Reservation::alike(&each, sizes.len(), 1), &|_| ()).unwrap();
    in_sessions(folder.path(), sizes.len(), &fixed(1), |rank, session| {
        put(session, sizes[rank]).unwrap();
    });
}

/// The space of a job of two ranks by a build in which shard 1 of revision 2 took the last block. No checkpoint could
/// be saved there any more.
fn wedged() -> TempDir {
    let folder = TempDir::new().unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/full-portion.tar.gz");
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(status.success());
    folder
}

#[test]
fn a_space_that_was_wedged_takes_checkpoints_again() {
    let folder = wedged();
    let path = folder.path().join("wedged");
    in_sessions(&path, 2, &fixed(1), |rank, session| {
        let mut into = vec![0; 300_000];
        let got = session.get(None, "state", &mut into).unwrap().unwrap();
        assert_eq!((got.revision, got.bytes), (2, [100_000, 255_648][rank]));
        assert!(into[..got.bytes as usize].iter().all(|byte| *byte == 7 + rank as u8));
        for bytes in [1, 100_000, 1] {
            put(session, bytes).unwrap();
        }
    });
    assert_eq!(SpaceSurvey::open(&path).unwrap().newest().unwrap().key.number, 5);
}

#[test]
fn a_space_that_was_wedged_is_pruned() {
    let folder = wedged();
    let path = folder.path().join("wedged");
    prune(&path, &Rules::default(), Unseen::GivenUp, &|_| ()).unwrap();
    let survey = SpaceSurvey::open(&path).unwrap();
    assert_eq!((survey.revisions.len(), survey.clean), (1, true));
    assert_eq!(survey.newest().unwrap().verify(&|_| ()).unwrap(), Verified::Whole);
    in_sessions(&path, 2, &fixed(1), |_, session| {
        put(session, 50_000).unwrap();
    });
}

/// The same space on a medium that loses power.
fn wedged_medium() -> Medium {
    let (folder, medium) = (wedged(), Medium::new(true));
    let device = Faulty(medium.view());
    for entry in std::fs::read_dir(folder.path().join("wedged")).unwrap() {
        let (name, bytes) = entry.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).unwrap();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".mainstay")) {
            let room = NewFile {
                bytes: bytes.len() as u64,
                stretches: Vec::new(),
                allocate: Allocate::Sparse,
                ..NewFile::default()
            };
            let file = device.open(name, Access::Write, Some(&room)).unwrap();
            file.write_at(&bytes, 0).unwrap();
            file.sync().unwrap();
            device.sync_directory().unwrap();
        }
    }
    medium
}

/// Wherever a prune of a full space is cut off, the newest revision is whole, and the next prune finishes the work.
#[test]
fn a_prune_of_a_full_space_that_is_cut_off_can_be_ended() {
    let before = wedged_medium();
    let mut durable = Durable::default();
    before.log().iter().for_each(|operation| durable.apply(operation));
    let (mut durable, medium) = (durable.clone(), Medium::resume(durable, true));
    prune_on(&Faulty(medium.view()), &Rules::default(), Unseen::GivenUp, &|_| ()).unwrap();
    let mut cases = 0;
    for (point, operation) in medium.log().iter().enumerate() {
        durable.apply(operation);
        for loss in losses(&durable, point, 4) {
            let medium = Medium::resume(Durable::of(durable.image(loss)), true);
            whole::check(&medium.files()).unwrap();
            for _ in 0..2 {
                assert_eq!(survey(&medium).newest().unwrap().key.number, 2, "after {point}, {loss:?}");
                prune_on(&Faulty(medium.view()), &Rules::default(), Unseen::GivenUp, &|_| ()).unwrap();
            }
            assert_eq!(survey(&medium).revisions.len(), 1);
            cases += 1;
        }
    }
    tell!("{cases} cases");
    assert!(cases > 50);
}

/// The smallest saved size always finds room, after saved and refused checkpoints, holds, prunes, and new openings.
fn no_way_in(seeds: Range<u64>) {
    let (mut saved, mut refused, mut granted) = (0, 0, 0);
    for seed in one_or_all(seeds) {
        let told = std::panic::catch_unwind(|| one_way(seed));
        let [s, r, g] = told.unwrap_or_else(|_| panic!("MAINSTAY_SEED={seed} runs this one alone"));
        (saved, refused, granted) = (saved + s, refused + r, granted + g);
    }
    tell!("{saved} saved, {refused} refused, {granted} holds");
    assert!(saved > 0 && refused > 0 && granted > 0);
}

fn one_way(seed: u64) -> [u64; 3] {
    let mut random = fastrand::Rng::with_seed(seed);
    let (medium, keep) = (Medium::new(true), random.u32(1..=4));
    let first = random.usize(1..12) * BLOCK - random.usize(0..2);
    let (mut job, mut counts) = (Some(open_sized(&medium, keep, first)), [0; 3]);
    let device = Faulty(medium.view());
    let (mut next, mut smallest) = (first, first);
    for step in 0..30 {
        let session = job.get_or_insert_with(|| open_fixed(&medium, keep));
        match put(session, next) {
            Ok(_) => {
                counts[0] += 1;
                smallest = smallest.min(next);
            }
            Err(Error::PortionTooSmall { needed, available, .. }) => {
                counts[1] += 1;
                // Just the available room, in blocks of data and of hashes.
                let less = (needed - available) as usize;
                next = next.saturating_sub(less.saturating_sub(random.usize(0..3) * BLOCK));
                if put(session, next).is_ok() {
                    counts[0] += 1;
                    smallest = smallest.min(next);
                }
            }
            Err(error) => panic!("step {step}: {error}"),
        }
        let there = survey(&medium);
        assert!(there.damage.is_empty(), "{:?}", there.damage);
        let complete: Vec<_> = there.revisions.iter().filter(|revision| revision.complete).collect();
        match random.u32(0..12) {
            0..=1 => job.take().unwrap().close().unwrap(),
            2 => drop(job.take()),
            3..=5 => {
                let revision = complete[random.usize(0..complete.len())];
                hold_on(&device, revision.key, "", 0, Duration::ZERO).unwrap();
                counts[2] += 1;
            }
            6..=7 => drop(release_on(&device, complete.last().map(|revision| revision.key.number)).unwrap()),
            8 => {
                job = None;
                let rules = Rules { keep_last: Some(random.u64(0..3)), ..Rules::default() };
                prune_on(&device, &rules, Unseen::GivenUp, &|_| ()).unwrap();
            }
            _ => {}
        }
        if random.bool() {
            let session = job.get_or_insert_with(|| open_fixed(&medium, keep));
            put(session, smallest)
                .unwrap_or_else(|error| panic!("step {step}, keep {keep}, {smallest} bytes: {error}"));
        }
        next = match random.u32(0..4) {
            0 => first,
            1 => random.usize(1..4) * first + 1,
            _ => random.usize(1..first * (keep as usize + 3)),
        };
    }
    for revision in survey(&medium).revisions.iter().filter(|revision| revision.complete) {
        assert_eq!(revision.verify(&|_| ()).unwrap(), Verified::Whole, "seed {seed}");
    }
    counts
}

#[test]
fn no_sequence_of_checkpoints_ends_in_a_space_that_takes_none() {
    no_way_in(0..often(20, 150));
}

#[test]
#[ignore = "long; make campaign runs it"]
fn no_sequence_of_very_many_checkpoints_ends_in_a_space_that_takes_none() {
    no_way_in(1_000..20_000);
}
