//! With `capture = "incremental"` data handed over in pieces is compared with the previous revision block by block,
//! too: unchanged blocks are not written again, on no level and on no copy, and come back.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::{
    incremental::{Nodes, folder, incremental, open, written},
    support::{between::Watched, bounded, gate::Gate, in_sessions_on, often, run, ways::compress_of},
};
use fastrand::Rng;
use mainstay_engine::{
    Allocated, Capture, Compress, Config, ErrorKind, LevelKind, LevelPlace, Reader, Region, Session, SpaceSurvey,
    Stage, Start, Track,
    device::{Device, Disk},
    group::Solo,
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

const BLOCK: usize = 4096;
const STAGES: [Stage; 4] = [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank];

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    Rng::with_seed(seed).fill(&mut noise);
    noise
}

/// Saves these streams in pieces of `piece` bytes, one piece of each stream in turn.
fn save(session: &mut Session, streams: &[(&str, &[u8])], piece: usize) -> u64 {
    session.begin(streams.iter().map(|(_, bytes)| bytes.len() as u64).sum()).unwrap();
    let longest = streams.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
    for at in (0..longest).step_by(piece) {
        for (name, bytes) in streams.iter().filter(|(_, bytes)| at < bytes.len()) {
            session.write(name, at as u64, &bytes[at..bytes.len().min(at + piece)]).unwrap();
        }
    }
    let number = session.checkpoint().unwrap();
    session.wait().unwrap();
    number
}

fn comes_back(space: &Path, rank: u32, streams: &[(&str, &[u8])], told: &str) {
    let mut reader = Reader::open(space, None, "test").unwrap();
    for (name, bytes) in streams {
        let mut back = vec![0xee; bytes.len() + 1];
        let read = reader.read(rank, name, 0, &mut back).unwrap();
        assert!(read == bytes.len() && back[..read] == **bytes, "{told}: {name}");
    }
}

/// Blocks of the newest revision that older revisions also have, on all ranks.
fn shared(space: &Path) -> u64 {
    let survey = SpaceSurvey::open(space).unwrap();
    let mut newest: Vec<_> = survey.revisions.iter().collect();
    newest.sort_by_key(|revision| revision.key);
    let [.., before, last] = newest[..] else { return 0 };
    let pairs = last.shards.iter().zip(&before.shards);
    pairs.map(|(new, old)| new.shares_with(&new.manifest().unwrap().unwrap(), old).unwrap()).sum::<u64>() / BLOCK as u64
}

/// The stream compared with its older state: unchanged, changed here and there, longer, shorter, shifted, with zeros.
#[test]
fn what_did_not_change_of_streams_is_not_written_again() {
    const BLOCKS: usize = 300;
    let captures = [Capture::Incremental, Capture::IncrementalSnapshot];
    let cases = STAGES.into_iter().flat_map(|stage| captures.map(|capture| (stage, capture)));
    for (nth, (stage, capture)) in cases.enumerate() {
        for piece in [1000, 2 * BLOCK, 1 << 20] {
            let told = format!("{stage:?}, {capture:?}, pieces of {piece}");
            let folder = folder();
            let config = Config {
                stage,
                capture,
                compress: compress_of(nth),
                keep: 2,
                snapshot_bytes: Some(0),
                shard_bytes: 4 << 20,
                ..incremental()
            };
            let mut session = open(Box::new(Solo), folder.path(), &config);
            let mut field = vec![3; 40 * BLOCK];
            // SAFETY: the memory outlives the session.
            session.protect(unsafe { Region::new("x", field.as_mut_ptr(), field.len() as u64) }.unwrap()).unwrap();
            let (mut one, two) = (noise(1, BLOCKS * BLOCK + 100), noise(2, 50 * BLOCK));
            // Each step may write this many blocks, plus partial blocks and the metadata.
            let step = |session: &mut Session, one: &[u8], blocks: usize, what: &str| {
                let streams = [("one", one), ("two", &two)];
                let number = save(session, &streams, piece);
                let (bytes, most) = (written(folder.path(), number), ((blocks + 24) * BLOCK) as u64);
                assert!(bytes <= most, "{told}: {what}: {bytes} bytes written, of at most {most}");
                comes_back(folder.path(), 0, &streams, &told);
            };
            step(&mut session, &one, 2 * BLOCKS, "first");
            step(&mut session, &one, 2, "unchanged");
            one[7 * BLOCK + 5] ^= 1;
            one[200 * BLOCK - 1] ^= 1;
            step(&mut session, &one, 4, "changed");
            one.extend_from_slice(&noise(3, 10 * BLOCK));
            step(&mut session, &one, 14, "longer");
            one.truncate(250 * BLOCK + 77);
            step(&mut session, &one, 2, "shorter");
            one[20 * BLOCK..60 * BLOCK].fill(0);
            step(&mut session, &one, 2, "zeros");
            one.splice(100 * BLOCK..100 * BLOCK, noise(4, 10));
            step(&mut session, &one, 154, "shifted");
            step(&mut session, &one, 2, "unchanged once more");
            session.close().unwrap();
            // The next revision builds on the restored one.
            let mut session = open(Box::new(Solo), folder.path(), &config);
            // SAFETY: see above.
            session.protect(unsafe { Region::new("x", field.as_mut_ptr(), field.len() as u64) }.unwrap()).unwrap();
            session.restore().unwrap().unwrap();
            let mut read = vec![0; session.stream_bytes("one").unwrap() as usize];
            assert_eq!(session.read("one", 0, &mut read).unwrap(), read.len());
            assert!(read == one, "{told}");
            step(&mut session, &one, 2, "after a restore");
            session.close().unwrap();
        }
    }
}

/// Gaps that a stream skips are zeros, which take no bytes. A snapshot does not read them from memory that is gone.
#[test]
fn what_a_stream_skips_is_zero() {
    for (stage, capture) in STAGES.into_iter().flat_map(|stage| {
        [Capture::Incremental, Capture::IncrementalSnapshot, Capture::Snapshot].map(|capture| (stage, capture))
    }) {
        let folder = folder();
        let config = Config {
            stage,
            capture,
            snapshot_bytes: Some(0),
            pool_bytes: Some(16 << 20),
            chunk_bytes: Some(1 << 20),
            ..incremental()
        };
        let mut session = open(Box::new(Solo), folder.path(), &config);
        let mut field = vec![3; 40 * BLOCK];
        // SAFETY: the memory outlives the session.
        session.protect(unsafe { Region::new("x", field.as_mut_ptr(), field.len() as u64) }.unwrap()).unwrap();
        for round in 0..3_usize {
            let mut all = vec![0; 700 * BLOCK + 50];
            session.begin(all.len() as u64).unwrap();
            for (at, bytes) in [(5000 + round, 3000), (600 * BLOCK, 2 * BLOCK), (700 * BLOCK, 50)] {
                all[at..at + bytes].fill(9);
                session.write("s", at as u64, &all[at..at + bytes]).unwrap();
            }
            let number = session.checkpoint().unwrap();
            // The memory behind the zeros may be reused at once.
            let other = vec![0x55_u8; 4 << 20];
            session.wait().unwrap();
            drop(other);
            comes_back(folder.path(), 0, &[("s", &all)], &format!("{stage:?}, {capture:?}, {round}"));
            if capture != Capture::Snapshot {
                let bytes = written(folder.path(), number);
                assert!(bytes < 100 * BLOCK as u64, "{stage:?}, {capture:?}: {bytes} bytes of zeros");
            }
        }
        session.close().unwrap();
    }
}

/// A stage may get a region's bytes only at the end: unchanged blocks are not written in this case either.
#[test]
fn regions_of_a_checkpoint_in_pieces_are_compared_too() {
    for (stage, track) in STAGES.into_iter().flat_map(|stage| [Track::Hashes, Track::Auto].map(|track| (stage, track)))
    {
        let folder = folder();
        let config = Config { stage, track, audit: 2, ..incremental() };
        let mut session = open(Box::new(Solo), folder.path(), &config);
        let mut field = noise(1, 400 * BLOCK + 9);
        // SAFETY: the memory outlives the session.
        session.protect(unsafe { Region::new("x", field.as_mut_ptr(), field.len() as u64) }.unwrap()).unwrap();
        for step in 0..8 {
            session.begin(100).unwrap();
            session.write("s", 0, &[step as u8; 100]).unwrap();
            // The checkpoint has begun by now.
            field[(20 * step + 7) * BLOCK] ^= 1;
            let number = session.checkpoint().unwrap();
            session.wait().unwrap();
            let bytes = written(folder.path(), number);
            assert!(step == 0 || bytes < 30 * BLOCK as u64, "{stage:?}, {track:?}: {bytes} bytes in step {step}");
            comes_back(folder.path(), 0, &[("x", &field), ("s", &[step as u8; 100])], &format!("{stage:?}, {track:?}"));
        }
        session.close().unwrap();
    }
}

/// Each `put` compares its buffer with the last one of the same name.
#[test]
fn what_did_not_change_of_what_is_put_is_not_written_again() {
    for stage in STAGES {
        let folder = folder();
        let config = Config { stage, shard_bytes: 4 << 20, keep: 2, ..incremental() };
        let mut session = open(Box::new(Solo), folder.path(), &config);
        let mut buffer = noise(1, 300 * BLOCK + 100);
        let step = |session: &mut Session, buffer: &[u8], blocks: usize, what: &str| {
            // From other memory each time.
            let elsewhere = buffer.to_vec();
            let number = session.put("b", &elsewhere).unwrap();
            let (bytes, most) = (written(folder.path(), number), ((blocks + 12) * BLOCK) as u64);
            assert!(bytes <= most, "{stage:?}, {what}: {bytes} bytes written, of at most {most}");
            let mut back = vec![0; buffer.len()];
            session.get(None, "b", &mut back).unwrap();
            assert!(back == buffer, "{stage:?}, {what}");
        };
        step(&mut session, &buffer, 310, "first");
        step(&mut session, &buffer, 1, "unchanged");
        buffer[77 * BLOCK] ^= 1;
        step(&mut session, &buffer, 2, "changed");
        buffer.extend_from_slice(&noise(2, 9 * BLOCK));
        step(&mut session, &buffer, 11, "longer");
        buffer.truncate(100 * BLOCK + 1);
        step(&mut session, &buffer, 1, "shorter");
        buffer.splice(50 * BLOCK..50 * BLOCK, noise(3, 9));
        step(&mut session, &buffer, 52, "shifted");
        session.close().unwrap();
    }
}

/// Memory of Mainstay's own has pages of 2 MiB. A write marks only a block of 4 KiB as dirty.
#[test]
fn a_byte_in_a_large_page_has_a_block_written() {
    const PAGES: usize = 8;
    for capture in [Capture::Incremental, Capture::IncrementalSnapshot] {
        let folder = folder();
        let config = Config { capture, track: Track::Auto, pool_bytes: Some(32 << 20), ..incremental() };
        let mut session = open(Box::new(Solo), folder.path(), &config);
        let bytes = PAGES << 21;
        let own = session.allocate("own", bytes as u64, Allocated::default()).unwrap();
        // SAFETY: the memory belongs to the session, and outlives it here.
        let (region, memory) = unsafe {
            (Region::new("own", own.address(), bytes as u64), std::slice::from_raw_parts_mut(own.address(), bytes))
        };
        session.protect(region.unwrap()).unwrap();
        Rng::with_seed(1).fill(memory);
        for step in 0..5_usize {
            let number = session.checkpoint().unwrap();
            session.wait().unwrap();
            let written = written(folder.path(), number);
            assert!(step == 0 || written < (64 * BLOCK) as u64, "{capture:?}: {written} bytes for {PAGES} blocks");
            comes_back(folder.path(), 0, &[("own", memory)], &format!("{capture:?}"));
            memory.chunks_mut(2 << 20).for_each(|page| page[9 * step * BLOCK + 77] ^= 1);
        }
        session.close().unwrap();
    }
}

#[test]
fn farther_levels_and_copies_get_what_changed_of_streams() {
    for (kind, compress) in [(LevelKind::Memory, Compress::Off), (LevelKind::Disk, Compress::Lz4)] {
        let config = Config { compress, shard_bytes: 4 << 20, ..incremental() };
        let nodes = Nodes::new(&[0, 1], kind, 1, 2, config);
        let last: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::default();
        run(2, |rank, group| {
            let mut session = nodes.session(group);
            let mut bytes = noise(rank as u64, 200 * BLOCK + 10);
            for step in 1..=6 {
                save(&mut session, &[("s", &bytes)], 10_000);
                last.lock().unwrap().insert(rank, bytes.clone());
                bytes[(20 * step + rank) * BLOCK + 9] ^= 1;
            }
            session.close().unwrap();
        });
        let last = last.into_inner().unwrap();
        for (place, shards) in nodes.nodes.iter().flatten().map(|place| (place, 1)).chain([(&nodes.pfs, 2)]) {
            assert_eq!(shared(place.path()), 199 * shards, "{kind:?}");
        }
        for rank in 0..2 {
            comes_back(nodes.pfs.path(), rank, &[("s", &last[&(rank as usize)])], "pfs");
        }
    }
}

/// The roots that free blocks are written while a stream arrives, by a thread that owns the ledger meanwhile. At t2,
/// the shared blocks were looked up in that ledger, and the program waited for the disk.
#[test]
fn what_is_led_to_waits_for_no_write() {
    const BLOCKS: usize = 300;
    // Room is freed for the fourth revision, and by the fourth for the fifth.
    for whole in [3, 4] {
        let ranks = 1;
        let folder = folder();
        let disk = Watched::new(Disk::make(folder.path()).unwrap(), Gate::new(ranks));
        let device: Arc<dyn Device> = Arc::new(disk.clone());
        let config = Config { io_threads: 4, pool_bytes: Some(16 << 20), buffer_bytes: 64 << 10, ..incremental() };
        in_sessions_on(&device, ranks, &config, |rank, session| {
            let mut bytes = Vec::new();
            for step in 0..whole {
                // All blocks are new, so room has to be freed.
                bytes = noise(10 * step + rank as u64, BLOCKS * BLOCK);
                save(session, &[("s", &bytes)], 1 << 20);
            }
            // All ranks have waited, and none passes the agreement of the next line before all are here.
            disk.between.shut();
            session.begin(bytes.len() as u64).unwrap();
            let (changed, rest) = bytes.split_at_mut(100 * BLOCK);
            changed.fill(rank as u8 + 1);
            session.write("s", 0, changed).unwrap();
            disk.between.until_somebody_waits();
            session.write("s", changed.len() as u64, rest).unwrap();
            session.checkpoint().unwrap();
            disk.between.come();
            session.wait().unwrap();
            comes_back(folder.path(), rank as u32, &[("s", &bytes)], "led to");
        });
        disk.between.nobody_waited();
        assert_eq!(shared(folder.path()), (ranks * (BLOCKS - 100)) as u64);
    }
}

/// If there is no room to share blocks and save a whole shard after that, the shared blocks are read back, and
/// everything is written.
#[test]
fn a_full_portion_never_refuses_a_stream() {
    for (keep, spare) in [(2, 0), (1, 0), (1, 3), (2, 9), (3, 1)].into_iter().take(often(1, 5)) {
        let folder = folder();
        let announced = 300 * BLOCK;
        // The smallest portion for shards that are saved whole, found by trial.
        let config = |blocks: usize| Config { keep, portion_bytes: (blocks * BLOCK) as u64, ..incremental() };
        let tried = (256..).step_by(5).find(|blocks| {
            let folder = crate::incremental::folder();
            let mut session =
                open(Box::new(Solo), folder.path(), &Config { capture: Capture::Whole, ..config(*blocks) });
            let saved = (0..6).all(|_| {
                session.begin(announced as u64).is_ok_and(|_| {
                    session.write("s", 0, &vec![1; announced]).is_ok()
                        && session.checkpoint().is_ok()
                        && session.wait().is_ok()
                })
            });
            drop(session);
            saved
        });
        let config = config(tried.unwrap() + spare);
        let mut session = open(Box::new(Solo), folder.path(), &config);
        let mut random = Rng::with_seed(spare as u64);
        let mut bytes = noise(5, announced);
        for round in 0..40 {
            match round % 8 {
                7 => random.fill(&mut bytes),
                _ => {
                    for _ in 0..random.usize(0..30) {
                        bytes[random.usize(0..announced)] ^= 1;
                    }
                }
            }
            save(&mut session, &[("s", &bytes)], 5000);
            comes_back(folder.path(), 0, &[("s", &bytes)], &format!("keep {keep}, {spare} to spare, round {round}"));
        }
        session.close().unwrap();
    }
}

/// The streams by revision and rank.
type Model = BTreeMap<(u64, usize), BTreeMap<String, Vec<u8>>>;

/// Jobs write streams in random pieces over their older contents. The pieces overlap, skip, and come in any order.
/// Regions and buffers are saved beside them. Every revision that is kept is compared with the saved state.
fn random_streams(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let ranks = random.usize(1..=3);
    let (keep, folder) = (random.u32(1..=3), folder());
    let has_memory = random.bool();
    let config = Config {
        capture: [Capture::Incremental, Capture::IncrementalSnapshot][random.usize(0..2)],
        compress: compress_of(random.usize(0..3)),
        snapshot_bytes: Some(0),
        pool_bytes: Some([256 << 10, 4 << 20][random.usize(0..2)]),
        stage: STAGES[random.usize(0..4)],
        track: [Track::Hashes, Track::Auto][random.usize(0..2)],
        audit: random.u32(0..3),
        keep,
        memory: if has_memory { LevelPlace::At(folder.path().join("memory")) } else { LevelPlace::Off },
        memory_keep: keep,
        memory_copies: 1,
        pfs_every: random.u32(1..=3),
        buffer_bytes: 64 << 10,
        start: Start::Fresh,
        shard_bytes: 4 << 20,
        ..incremental()
    };
    let told = format!("seed {seed}: {ranks} ranks, {config:?}");
    let space = folder.path().join("space");
    let model: Mutex<Model> = Mutex::default();
    for job in 0..3 {
        let steps = seed << 8 | job;
        run(ranks, |rank, group| {
            let (mut alike, mut own) = (Rng::with_seed(steps), Rng::with_seed(steps << 8 | rank as u64));
            let mut session = open(group, &space, &config);
            let mut field = vec![0; 30 * BLOCK + 77];
            // SAFETY: the memory outlives the session.
            let region = unsafe { Region::new("field", field.as_mut_ptr(), field.len() as u64) };
            session.protect(region.unwrap()).unwrap();
            let mut streams: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            if let Some(restored) = session.restore().unwrap() {
                streams = model.lock().unwrap()[&(restored.revision, rank)].clone();
                assert!(field == streams.remove("field").unwrap(), "{told}: {restored:?}");
                streams.remove("put");
                for (name, bytes) in &streams {
                    let mut read = vec![0; session.stream_bytes(name).unwrap() as usize];
                    session.read(name, 0, &mut read).unwrap();
                    assert!(read == *bytes, "{told}: {name} of {restored:?}");
                }
            }
            for _ in 0..alike.usize(3..9) {
                let at = own.usize(0..field.len());
                field[at] ^= 1;
                for name in ["a", "b", "c"] {
                    let bytes = streams.entry(name.to_owned()).or_insert_with(|| noise(own.u64(..), 50_000));
                    match own.u8(0..8) {
                        0 => own.fill(bytes),
                        1 => bytes.resize(own.usize(0..150_000), own.u8(0..2)),
                        2 => drop(bytes.splice(0..0, noise(1, 3))),
                        3 => {
                            let at = own.usize(0..bytes.len().max(1)).min(bytes.len());
                            bytes[at..].fill(0);
                        }
                        4..6 => {
                            for _ in 0..own.usize(0..9).min(bytes.len()) {
                                let at = own.usize(0..bytes.len());
                                bytes[at] ^= 1;
                            }
                        }
                        _ => {}
                    }
                }
                if alike.u8(0..5) == 0 {
                    streams.remove("b");
                }
                let put = alike.u8(0..6) == 0;
                let number = if put {
                    let buffer = noise(alike.u64(0..3), 60_000);
                    let number = session.put("put", &buffer).unwrap();
                    let saved = [("put".to_owned(), buffer), ("field".to_owned(), field.clone())];
                    model.lock().unwrap().insert((number, rank), saved.into());
                    number
                } else {
                    session.begin(3 << 19).unwrap();
                    let mut pieces: Vec<(&str, usize, usize)> = Vec::new();
                    for (name, bytes) in &streams {
                        let (mut at, most) = (0, [700, 6000, 70_000][own.usize(0..3)]);
                        while at < bytes.len() {
                            let end = bytes.len().min(at + own.usize(1..=most));
                            // A skipped gap is zero.
                            if bytes[at..end].iter().any(|byte| *byte != 0) || end == bytes.len() {
                                pieces.push((name, at, end));
                            }
                            at = end;
                        }
                        if bytes.is_empty() {
                            pieces.push((name, 0, 0));
                        }
                    }
                    if own.u8(0..3) == 0 {
                        own.shuffle(&mut pieces);
                    }
                    // Other bytes are written first where a piece will be, whole or in part.
                    for &(name, from, to) in &pieces {
                        if own.u8(0..9) == 0 {
                            let at = own.usize(from..=to);
                            session.write(name, at as u64, &noise(9, to - at)).unwrap();
                        }
                    }
                    for &(name, from, to) in &pieces {
                        session.write(name, from as u64, &streams[name][from..to]).unwrap();
                        if own.u8(0..20) == 0 {
                            session.write(name, from as u64, &streams[name][from..to]).unwrap();
                        }
                    }
                    if alike.u8(0..9) == 0 {
                        session.abandon().unwrap();
                        continue;
                    }
                    let number = session.checkpoint().unwrap();
                    let mut saved = streams.clone();
                    saved.insert("field".to_owned(), field.clone());
                    model.lock().unwrap().insert((number, rank), saved);
                    number
                };
                if own.bool() {
                    field.fill(own.u8(..));
                }
                if alike.bool() {
                    session.wait().unwrap();
                    let first = number.saturating_sub(u64::from(keep) - 1).max(1);
                    let revision = alike.u64(first..=number);
                    let saved = model.lock().unwrap().get(&(revision, rank)).cloned();
                    for (name, saved) in saved.into_iter().flatten() {
                        let mut bytes = vec![0; saved.len()];
                        match session.get(Some(revision), &name, &mut bytes) {
                            Ok(got) => assert!(got.is_some(), "{told}"),
                            Err(error) if error.kind() == ErrorKind::RevisionMissing => break,
                            Err(error) => panic!("{told}: {error}"),
                        }
                        assert!(bytes == saved, "{told}: {name} of {revision}");
                    }
                }
            }
            // Some end in order, others like a killed job.
            if alike.bool() {
                session.close().unwrap();
            } else {
                session.wait().unwrap();
            }
        });
    }
}

#[test]
fn random_streams_come_back() {
    for seed in 0..often(5, 25) {
        bounded(&format!("seed {seed}"), || random_streams(seed));
    }
}

#[test]
#[ignore = "long; make campaign runs it"]
fn many_random_streams_come_back() {
    for seed in 25..1000 {
        bounded(&format!("seed {seed}"), || random_streams(seed));
    }
}
