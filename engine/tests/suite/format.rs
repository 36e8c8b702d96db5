//! This version reads spaces written by older versions.
//!
//! `tests/fixtures/version-N.tar.gz` is the space of a job of two ranks, keep 2, as version N of the format wrote it.
//! Revision 3 is the newest, after three checkpoints of `filled` states. A version that changes the format adds its own
//! with `WRITE_FIXTURE=1` and keeps the old ones.

use crate::support::{Job, State, filled};
use mainstay_engine::{
    Config, Session, SpaceSurvey,
    space::format::{
        Annex, Catalogue, Entry, Item, ItemKind, Lineage, Manifest, Note, PhaseRecord, Profile, VERSION, hash,
    },
    tend::{Holding, hold},
};
use std::{env, path::Path, process::Command, time::Duration};

const RANKS: usize = 2;
const REVISIONS: u64 = 3;

fn job() -> Job {
    Job::new(RANKS, Config { keep: 2, pool_bytes: Some(128 << 10), chunk_bytes: Some(64 << 10), ..Config::default() })
}

/// Makes a state of a few blocks, so that the archive is small.
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
        // The space is older than holds. The blocks reserved for holds take them.
        let space = job.directory.path().join("space");
        let survey = SpaceSurvey::open(&space).unwrap();
        let oldest = survey.revision(1).unwrap().key;
        if version == 1 {
            without_a_profile(&survey);
        }
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

/// The fixture of version 1 is older than profiles and than the time of phase 3.
fn without_a_profile(survey: &SpaceSurvey) {
    for shard in survey.revisions.iter().flat_map(|revision| &revision.shards) {
        let p = &shard.phases;
        assert_eq!((shard.manifest().unwrap().unwrap().annex.profile, p.resume_ns), (None, 0));
        assert_eq!(p.other_ns(), p.perceived_ns - p.communication_ns - p.buffer_wait_ns - p.copy_ns);
    }
}

/// A manifest with a profile, and its bytes.
fn profiled() -> (Manifest, Vec<u8>) {
    let mut profile = Profile { node: 8, stage: 1, pool_bytes: 64 << 20, chunk_bytes: 4 << 20, ..Profile::default() };
    (0..24).for_each(|power| profile.pieces.note(1 << power, Duration::from_nanos(7 << power)));
    (0..3).for_each(|index| profile.writes.note(index << 20, Duration::from_millis(index)));
    let notes = vec![Note { name: "step".to_owned(), value: "12".to_owned() }];
    let annex = Annex { notes, profile: Some(profile), ..Annex::default() };
    let (name, element, shape) = ("empty".to_owned(), Default::default(), vec![0]);
    let empty = Item {
        name,
        kind: ItemKind::Region,
        element,
        bytes: 0,
        shape,
        place: None,
        same_on_all_ranks: false,
        extents: vec![],
    };
    let manifest = Manifest { items: vec![empty], annex, ..Manifest::default() };
    let bytes = manifest.build();
    (manifest, bytes)
}

const FLAGS_AT: usize = 12;

#[test]
fn a_manifest_keeps_its_profile() {
    let (manifest, bytes) = profiled();
    assert_eq!((bytes[FLAGS_AT], Manifest::parse(&bytes, 1 << 20).unwrap()), (1, manifest.clone()));
    // A build without profiles reads the manifest like this, and wrote it like this.
    let annex = Annex { profile: None, ..manifest.annex.clone() };
    let without = Manifest { annex, ..manifest };
    let mut unflagged = bytes.clone();
    unflagged[FLAGS_AT] = 0;
    for bytes in [unflagged, without.build()] {
        assert_eq!(Manifest::parse(&bytes, 1 << 20).unwrap(), without);
    }
    // A later build may define other flags.
    let mut flagged = bytes;
    flagged[FLAGS_AT + 3] = 0x80;
    assert!(Manifest::parse(&flagged, 1 << 20).unwrap().annex.profile.is_some());
}

#[test]
fn a_profile_that_is_not_whole_is_refused() {
    let (manifest, bytes) = profiled();
    for length in 0..bytes.len() {
        assert!(Manifest::parse(&bytes[..length], 1 << 20).is_err(), "{length} of {} bytes", bytes.len());
    }
    let annex = Annex { profile: None, ..manifest.annex.clone() };
    let mut missing = Manifest { annex, ..manifest }.build();
    missing[FLAGS_AT] = 1;
    assert!(Manifest::parse(&missing, 1 << 20).is_err());
    // A manifest with a flipped bit is refused or parsed as another one, and never causes a panic.
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            if let Ok(Manifest { annex: Annex { profile: Some(profile), .. }, .. }) = Manifest::parse(&changed, 1 << 20)
            {
                let (pieces, writes) = (profile.pieces.total(), profile.writes.total());
                assert!(pieces.count > 0 && writes.count > 0 && profile.stage_name() != "unknown", "byte {at}");
            }
        }
    }
}

#[test]
fn phases_are_kept_whatever_they_say() {
    let phases = PhaseRecord {
        t1_unix_ns: 1,
        step: 11,
        communication_ns: 2,
        buffer_wait_ns: 3,
        copy_ns: 4,
        perceived_ns: 50,
        durable_ns: 60,
        written_bytes: 7,
        chunks: 8,
        writes: 9,
        resume_ns: 10,
    };
    assert_eq!(phases.other_ns(), 50 - 2 - 3 - 4 - 10);
    let hostile = PhaseRecord { communication_ns: u64::MAX, resume_ns: u64::MAX, ..phases };
    assert_eq!(hostile.other_ns(), 0);
    let entry = |phases| Entry {
        lineage: Lineage { number: 1, id: [1; 16] },
        number: 1,
        shards: 1,
        shard: 0,
        bytes: 0,
        manifest_at: 4096,
        manifest_bytes: 64,
        manifest_hash: [2; 16],
        meta_at: 4096,
        meta_bytes: 4096,
        phases,
    };
    let catalogue = Catalogue { entries: vec![entry(phases), entry(hostile)] };
    let bytes = catalogue.build();
    assert_eq!(Catalogue::parse(&bytes, &hash(&bytes), 8192), Ok(catalogue));
}
