//! A granted hold fails no checkpoint of a job of constant size in a portion of fixed size: for any changes between
//! checkpoints, any sharing, and any compression. With compression and `capture = "incremental"` some failed, 4,096
//! bytes short.
//!
//! A failing seed is printed; MAINSTAY_SEED=<number> runs that one alone.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{
    faulty::{Faulty, Medium},
    one_or_all,
};
use mainstay_engine::{
    Capture, Compress, Config, HoldState, Region, Session, SpaceSurvey, Stage,
    group::Solo,
    tend::{hold_on, release_on},
};
use std::{ops::Range, sync::Arc, time::Duration};

const BLOCK: usize = 4096;

/// Runs one job. Returns the number of its holds, and the sum over its checkpoints of the holds that count.
fn one_job(seed: u64) -> Result<[u64; 2], String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (medium, keep, blocks) = (Medium::new(true), random.u32(1..=3), random.usize(8..60));
    let config = Config {
        keep,
        stage: if random.bool() { Stage::Direct } else { Stage::Pool },
        pool_bytes: Some(512 << 10),
        chunk_bytes: Some(64 << 10),
        io_threads: 1,
        capture: [Capture::Incremental, Capture::Incremental, Capture::Whole][random.usize(0..3)],
        compress: [Compress::Lz4, Compress::Zstd, Compress::Off][random.usize(0..3)],
        ..Config::default()
    };
    let mut field = vec![0_u8; blocks * BLOCK - random.usize(0..2)];
    let device = || Faulty(medium.view());
    let open = |field: &mut Vec<u8>, portion_bytes, shard_bytes| {
        let config = Config { portion_bytes, shard_bytes, ..config.clone() };
        let mut session = Session::open_on(Box::new(Solo), Arc::new(device()), config).unwrap();
        // SAFETY: the field outlives the session, and stays where it is.
        let region = unsafe { Region::new("field", field.as_mut_ptr(), field.len() as u64) };
        session.protect(region.unwrap()).unwrap();
        session.restore().unwrap();
        session
    };
    random.fill(&mut field);
    // The first checkpoint makes the portion larger than its shard needs. Then the portion keeps its size.
    let larger = (random.f64() * 4.0 * (blocks * BLOCK) as f64) as u64;
    let mut session = open(&mut field, 0, larger);
    session.checkpoint().unwrap();
    session.close().unwrap();
    let (mut session, mut counts) = (open(&mut field, 1 << 20, 0), [0; 2]);
    for step in 0..40 {
        let share = *random.choice(&[0.05, 0.3, 0.9, 1.0]).unwrap();
        // At times all changes are alike: a shard that hardly compresses follows one that compresses well.
        let kinds = *random.choice(&[(0, 1), (1, 2), (2, 3), (2, 3), (0, 3)]).unwrap();
        for block in field.chunks_mut(BLOCK) {
            if random.f64() < share {
                match random.u8(kinds.0..kinds.1) {
                    0 => block.fill(random.u8(..)),
                    1 => block[..100].fill(random.u8(..)),
                    _ => random.fill(block),
                }
            }
        }
        session.checkpoint().and_then(|_| session.wait()).map_err(|error| {
            let held = SpaceSurvey::open_on(&device()).unwrap().holds;
            let held: Vec<u64> =
                held.iter().filter(|held| held.state == HoldState::Counts).map(|held| held.hold.number).collect();
            format!(
                "step {step}, keep {keep}, {blocks} blocks, {:?} {:?}, held {held:?}: {error}",
                config.capture, config.compress
            )
        })?;
        let survey = SpaceSurvey::open_on(&device()).unwrap();
        counts[1] += survey.holds.iter().filter(|held| held.state == HoldState::Counts).count() as u64;
        match random.u8(0..10) {
            0..=4 => {
                counts[0] += 1;
                hold_on(&device(), survey.newest().unwrap().key, "", 0, Duration::ZERO).unwrap();
            }
            5 => drop(release_on(&device(), survey.holds.first().map(|held| held.hold.number)).unwrap()),
            6 => {
                session.close().unwrap();
                session = open(&mut field, 1 << 20, 0);
            }
            _ => {}
        }
    }
    Ok(counts)
}

fn campaign(seeds: Range<u64>) {
    let (mut asked, mut counted, mut wrong) = (0, 0, Vec::new());
    for seed in one_or_all(seeds) {
        match one_job(seed) {
            Ok([holds, counts]) => (asked, counted) = (asked + holds, counted + counts),
            Err(why) => wrong.push(format!("MAINSTAY_SEED={seed}: {why}")),
        }
    }
    tell!("{asked} holds, {counted} checkpoints beside held revisions");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counted > asked);
}

#[test]
fn a_hold_that_was_granted_fails_no_checkpoint() {
    campaign(1260..1280);
}

#[test]
#[ignore = "long; make campaign runs it"]
fn a_hold_that_was_granted_fails_none_of_very_many_checkpoints() {
    campaign(1_000..5_000);
}
