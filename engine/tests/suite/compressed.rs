//! With `compress` data goes to a disk compressed, and every reader of a space reads it.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::{
    incremental::{Nodes, folder, open, written},
    support::{bytes::Layout, in_sessions, run, spread::Part},
};
use mainstay_engine::{
    Capture, Compress, Config, ErrorKind, LevelKind, LevelPlace, Reader, Region, Session, SpaceSurvey, Stage, Verified,
    group::Solo,
    space::format::{Frame, Manifest},
    tend::{self, Holding},
};
use std::{fs, path::Path, time::Duration};

const BLOCK: usize = 4096;
const BLOCKS: usize = 260;
const CODECS: [Compress; 2] = [Compress::Lz4, Compress::Zstd];

fn compressed(compress: Compress) -> Config {
    Config { compress, pool_bytes: Some(4 << 20), chunk_bytes: Some(512 << 10), ..Config::default() }
}

/// Smooth numbers with some blocks of noise among them, and a part of a block at the end.
fn state(seed: u64) -> Vec<u8> {
    let (mut random, mut memory) = (fastrand::Rng::with_seed(seed), vec![0; BLOCKS * BLOCK + 100]);
    for (index, number) in memory.chunks_exact_mut(8).enumerate() {
        number.copy_from_slice(&((index as u64 / 50 + seed) as f64).to_le_bytes());
    }
    for block in [0, 7, 8, 9, 110, BLOCKS - 2] {
        random.fill(&mut memory[block * BLOCK..(block + 1) * BLOCK]);
    }
    random.fill(&mut memory[120 * BLOCK..160 * BLOCK]);
    memory
}

fn region(memory: &mut [u8]) -> Region {
    // SAFETY: the tests keep the memory for as long as the session.
    unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
}

fn manifests(space: &Path) -> Vec<Manifest> {
    let survey = SpaceSurvey::open(space).unwrap();
    let newest = survey.revisions.iter().max_by_key(|revision| revision.key).unwrap();
    newest.shards.iter().map(|shard| shard.manifest().unwrap().unwrap()).collect()
}

fn frames(space: &Path) -> Vec<Frame> {
    manifests(space).into_iter().flat_map(|manifest| manifest.frames).collect()
}

/// A session and all readers of the space must read back `memory`. The restore fills memory with other content.
fn comes_back(space: &Path, config: &Config, memory: &[u8], told: &str) {
    let mut back = vec![0xee; memory.len()];
    let mut session = open(Box::new(Solo), space, config);
    session.protect(region(&mut back)).unwrap();
    session.restore().unwrap().unwrap();
    assert!(back == memory, "{told}: restored");
    back.fill(0xee);
    session.get(None, "x", &mut back).unwrap();
    assert!(back == memory, "{told}: got");
    session.close().unwrap();
    let mut reader = Reader::open(space, None, "test").unwrap();
    for from in [0, 6 * BLOCK + 5, 109 * BLOCK, BLOCKS * BLOCK] {
        let mut part = vec![0xee; (70_000).min(memory.len() - from)];
        assert_eq!(reader.read(0, "x", from as u64, &mut part).unwrap(), part.len());
        assert!(part == memory[from..from + part.len()], "{told}: read from {from} on");
    }
    let survey = SpaceSurvey::open(space).unwrap();
    for revision in &survey.revisions {
        assert_eq!(revision.verify(&|_| ()).unwrap(), Verified::Whole, "{told}");
    }
}

#[test]
fn what_is_compressed_comes_back_from_every_stage() {
    let stages = [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank].into_iter();
    for (stage, compress) in stages.flat_map(|stage| CODECS.map(|compress| (stage, compress))) {
        for capture in [Capture::Whole, Capture::Snapshot, Capture::Incremental] {
            let told = format!("{stage:?}, {compress:?}, {capture:?}");
            let folder = folder();
            let config = Config { stage, capture, snapshot_bytes: Some(0), audit: 2, ..compressed(compress) };
            let mut memory = state(1);
            let mut session = open(Box::new(Solo), folder.path(), &config);
            session.protect(region(&mut memory)).unwrap();
            for number in 1..=3 {
                assert_eq!(session.checkpoint().unwrap(), number, "{told}");
                session.wait().unwrap();
                let (bytes, plain) = (written(folder.path(), number), memory.len() as u64);
                assert!(bytes < plain / 2, "{told}: {bytes} bytes written of {plain}");
                assert!(frames(folder.path()).len() > 2, "{told}");
                memory[110 * BLOCK + number as usize] ^= 1;
                memory[220 * BLOCK + number as usize] ^= 1;
            }
            memory[110 * BLOCK + 3] ^= 1;
            memory[220 * BLOCK + 3] ^= 1;
            session.close().unwrap();
            comes_back(folder.path(), &config, &memory, &told);
            // A session without compression reads the revisions, too, and shares their blocks.
            let plain = Config { compress: Compress::Off, ..config };
            let mut session = open(Box::new(Solo), folder.path(), &plain);
            session.protect(region(&mut memory)).unwrap();
            session.restore().unwrap().unwrap();
            memory[240 * BLOCK] ^= 1;
            session.checkpoint().unwrap();
            session.close().unwrap();
            assert_eq!(frames(folder.path()).is_empty(), !capture.is_incremental(), "{told}");
            comes_back(folder.path(), &plain, &memory, &told);
        }
    }
}

/// A block that a revision shares keeps its frame as long as any revision needs it, and no longer.
#[test]
fn a_frame_stays_as_long_as_one_of_its_blocks_is_needed() {
    for compress in CODECS {
        let folder = folder();
        let config = Config { capture: Capture::Incremental, keep: 2, ..compressed(compress) };
        let mut memory = state(2);
        let mut session = open(Box::new(Solo), folder.path(), &config);
        session.protect(region(&mut memory)).unwrap();
        for step in 0..60_usize {
            let block = step * 37 % BLOCKS;
            memory[block * BLOCK..].iter_mut().take(8 * BLOCK).for_each(|byte| *byte = step as u8);
            session.checkpoint().unwrap();
            session.wait().unwrap();
            let mut back = vec![0; memory.len()];
            session.get(None, "x", &mut back).unwrap();
            assert!(back == memory, "{compress:?}, step {step}");
        }
        session.close().unwrap();
        comes_back(folder.path(), &config, &memory, "after many");
    }
}

#[test]
fn memory_has_it_as_it_is_and_farther_levels_and_copies_compressed() {
    let folder = folder();
    let memory_level = LevelPlace::At(folder.path().join("memory"));
    let space = folder.path().join("space");
    let config = Config { memory: memory_level, memory_copies: 1, pfs_every: 1, ..compressed(Compress::Zstd) };
    let mut memory = state(3);
    let mut session = open(Box::new(Solo), &space, &config);
    session.protect(region(&mut memory)).unwrap();
    session.checkpoint().unwrap();
    session.wait().unwrap();
    let level = fs::read_dir(folder.path().join("memory")).unwrap().next().unwrap().unwrap().path();
    assert!(frames(&level).is_empty());
    session.close().unwrap();
    assert!(!frames(&space).is_empty());
    comes_back(&space, &config, &memory, "from the farther level");

    let mut nodes = Nodes::new(&[0, 1], LevelKind::Disk, 1, 2, compressed(Compress::Lz4));
    run(2, |rank, group| {
        let mut session = nodes.session(group);
        let mut memory = state(rank as u64);
        session.protect(region(&mut memory)).unwrap();
        for _ in 0..3 {
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
        session.close().unwrap();
    });
    assert!(!frames(nodes.nodes[0][0].path()).is_empty());
    // The restore reads the lost node's shard from its copy.
    nodes.nodes[0] = [crate::incremental::folder(), crate::incremental::folder()];
    run(2, |rank, group| {
        let mut session = nodes.session(group);
        let (mut memory, saved) = (vec![0xee; BLOCKS * BLOCK + 100], state(rank as u64));
        session.protect(region(&mut memory)).unwrap();
        session.restore().unwrap().unwrap();
        assert!(memory == saved, "rank {rank}");
        session.close().unwrap();
    });
}

/// Story: a hold was granted while no job ran. It counted only the compressed size, so each checkpoint of the next job
/// found no room.
#[test]
fn beside_a_hold_that_is_granted_all_checkpoints_find_room() {
    let (mut granted, mut refused) = (0, 0);
    for (seed, (compress, keep)) in (0..).zip(CODECS.into_iter().flat_map(|codec| [1, 2, 3].map(|keep| (codec, keep))))
    {
        let folder = folder();
        let config = Config { keep, capture: Capture::Incremental, ..compressed(compress) };
        let (mut memory, mut random) = (state(seed), fastrand::Rng::with_seed(seed));
        let mut job = |memory: &mut Vec<u8>, is_first: bool| {
            let mut session = open(Box::new(Solo), folder.path(), &config);
            session.protect(region(memory)).unwrap();
            assert_eq!(session.restore().unwrap().is_none(), is_first);
            for step in 0..25 {
                for _ in 0..random.usize(0..60) {
                    let (at, bytes) = (random.usize(..memory.len() - 3000), random.usize(1..3000));
                    random.fill(&mut memory[at..at + bytes]);
                }
                session.checkpoint().and_then(|_| session.wait()).unwrap_or_else(|error| {
                    panic!("{compress:?}, {keep} kept, the first job: {is_first}, step {step}: {error}")
                });
            }
            session.close().unwrap();
        };
        job(&mut memory, true);
        let newest = SpaceSurvey::open(folder.path()).unwrap().newest().unwrap().key;
        match tend::hold(folder.path(), newest, "", 0, Duration::ZERO).unwrap() {
            Holding::Counts(_) => granted += 1,
            Holding::NoRoom => refused += 1,
            other => panic!("{other:?}"),
        }
        job(&mut memory, false);
    }
    println!("{granted} holds were granted, {refused} refused");
}

#[test]
fn what_is_compressed_comes_back_as_other_boxes() {
    let (folder, shape) = (folder(), [300, 700]);
    let config = compressed(Compress::Lz4);
    in_sessions(folder.path(), 2, &config, |rank, session| {
        let mut part = Part::slab(&shape, rank, 2);
        part.fill(|number| number / 40);
        session.protect(part.region("u").unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("u").unwrap();
    });
    assert!(!frames(folder.path()).is_empty());
    for ranks in [1, 3] {
        in_sessions(folder.path(), ranks, &config, |rank, session| {
            let mut part = Part::slab(&shape, rank, ranks);
            part.fill(|_| 0xeeee);
            session.protect(part.region("u").unwrap()).unwrap();
            session.restore().unwrap().unwrap();
            assert!(part.holds(|number| number / 40), "rank {rank} of {ranks}");
            session.unprotect("u").unwrap();
        });
    }
}

/// A space that was made for uncompressed shards takes compressed ones, too.
#[test]
fn a_space_that_was_made_without_takes_compressed_revisions() {
    let folder = folder();
    let mut memory = state(4);
    let save = |compress: Compress, memory: &mut [u8]| {
        let mut session = open(Box::new(Solo), folder.path(), &compressed(compress));
        session.protect(region(memory)).unwrap();
        session.restore().unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.close().unwrap();
    };
    save(Compress::Off, &mut memory);
    let layouts = SpaceSurvey::open(folder.path()).unwrap().layouts.len();
    assert!(frames(folder.path()).is_empty());
    save(Compress::Zstd, &mut memory);
    assert!(!frames(folder.path()).is_empty());
    assert_eq!(SpaceSurvey::open(folder.path()).unwrap().layouts.len(), layouts);
}

/// The layout file of a space with one compressed revision, and its middle frame.
fn saved(space: &Path, compress: Compress) -> (Layout, Frame) {
    let mut memory = state(5);
    let mut session: Session = open(Box::new(Solo), space, &compressed(compress));
    session.protect(region(&mut memory)).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    let mut files = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "mainstay")).unwrap();
    let frames = frames(space);
    (Layout::read(&file), frames[frames.len() / 2])
}

/// Whichever bytes of a frame are damaged, the reader returns no data and names the frame.
#[test]
fn frames_that_are_not_whole_are_damage() {
    for compress in CODECS {
        let folder = folder();
        let (whole, frame) = saved(folder.path(), compress);
        let at = (whole.place(0).at + frame.first_block * BLOCK as u64) as usize;
        let stored = frame.stored_blocks as usize * BLOCK;
        let packed = u32::from_le_bytes(whole.bytes[at + 12..at + 16].try_into().unwrap()) as usize;
        let bomb = match compress {
            // A run of one byte, as long as the bytes of the frame can express.
            Compress::Lz4 => [&[0x1f, 7, 1, 0][..], &vec![0xff; packed - 9], &[0, 0, 0, 0, 0][..]].concat(),
            _ => {
                let mut bomb = zstd::bulk::compress(&vec![0; 16 << 20], 1).unwrap();
                bomb.truncate(packed);
                bomb
            }
        };
        let with = |from: usize, bytes: &[u8]| {
            let mut layout = whole.clone();
            layout.bytes[at + from..][..bytes.len()].copy_from_slice(bytes);
            layout
        };
        let number = |bytes: usize| (bytes as u32).to_le_bytes();
        let mut damaged = vec![
            with(0, b"MSTYFRAN"),
            with(8, &[3]),
            with(8, &[if compress == Compress::Lz4 { 2 } else { 1 }]),
            with(10, &(frame.blocks as u16 - 1).to_le_bytes()),
            with(10, &(frame.blocks as u16 + 1).to_le_bytes()),
            with(10, &[0xff, 0xff]),
            with(12, &number(packed - 1)),
            with(12, &number(stored)),
            with(12, &[0xff; 4]),
            with(12, &[0; 4]),
            with(16, &bomb),
            with(16, &vec![0; packed]),
            with(16, &vec![0xff; packed]),
        ];
        let mut random = fastrand::Rng::with_seed(6);
        damaged.extend((0..60).map(|_| {
            let byte = random.usize(0..16 + packed);
            // The decoder ignores the reserved byte.
            let byte = if byte == 9 { 10 } else { byte };
            with(byte, &[whole.bytes[at + byte] ^ (1 << random.u8(0..8))])
        }));
        for (index, layout) in damaged.into_iter().enumerate() {
            layout.write();
            let mut back = vec![0xee; BLOCKS * BLOCK + 100];
            let mut reader = Reader::open(folder.path(), None, "test").unwrap();
            let error = match reader.read(0, "x", 0, &mut back) {
                // The decoder does not need this byte.
                Ok(_) if index >= 13 && back == state(5) => continue,
                read => read.unwrap_err(),
            };
            let (first, last) = (frame.first_block, frame.first_block + frame.blocks - 1);
            let of_frame = format!("blocks {first} to {last}, a compressed frame");
            let of_block = |block: u64| error.to_string().contains(&format!("block {block}: its checksum"));
            assert_eq!(error.kind(), ErrorKind::Damaged, "{compress:?}, {index}: {error}");
            let is_named = error.to_string().contains(&of_frame) || (first..=last).any(of_block);
            assert!(is_named, "{compress:?}, {index}: {error}");
            let survey = SpaceSurvey::open(folder.path()).unwrap();
            let verified = survey.revisions[0].verify(&|_| ()).unwrap();
            assert!(matches!(verified, Verified::Damaged { .. }), "{compress:?}, {index}: {verified:?}");
        }
        whole.write();
        comes_back(folder.path(), &compressed(compress), &state(5), "mended");
    }
}

type Forge = &'static dyn Fn(&mut Vec<Frame>);

/// A reader checks the list of frames in a manifest. Builds that know no frames refuse the manifest by its version.
#[test]
fn lists_of_frames_that_cannot_be_are_damage() {
    let folder = folder();
    let (whole, _) = saved(folder.path(), Compress::Lz4);
    let manifest = whole.manifest(0, 1);
    let built = manifest.build();
    assert_eq!(built[8], 3);
    let forged = |forge: &dyn Fn(&mut Vec<Frame>)| {
        let mut manifest = manifest.clone();
        forge(&mut manifest.frames);
        let mut layout = whole.clone();
        layout.forge_manifest(0, 1, &manifest.build());
        layout.write();
        let mut back = vec![0; BLOCKS * BLOCK + 100];
        Reader::open(folder.path(), None, "test").and_then(|mut reader| reader.read(0, "x", 0, &mut back)).unwrap_err()
    };
    let wrong: [Forge; 7] = [
        &|frames| frames[1].blocks = 65,
        &|frames| frames[1].stored_blocks = frames[1].blocks,
        &|frames| frames[1].stored_blocks = 0,
        &|frames| frames[1].first_block = 1,
        &|frames| frames[1].first_block = u64::MAX,
        &|frames| frames.swap(0, 1),
        // The list names a block that begins no frame. Below, it leaves a frame out.
        &|frames| frames[1].first_block += 1,
    ];
    for (index, wrong) in wrong.into_iter().enumerate() {
        let error = forged(wrong);
        assert_eq!(error.kind(), ErrorKind::Damaged, "{index}: {error}");
    }
    assert_eq!(forged(&|frames| frames.truncate(1)).kind(), ErrorKind::Damaged);
    let mut newer = whole.clone();
    newer.forge_manifest(0, 1, &[&built[..8], &[4], &built[9..]].concat());
    newer.write();
    assert_eq!(Reader::open(folder.path(), None, "test").err().unwrap().kind(), ErrorKind::NewerVersion);
}
