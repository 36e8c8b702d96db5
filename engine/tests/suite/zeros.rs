//! With `capture = "incremental"` blocks of zeros are in the manifest alone, take no room, and come back in every
//! reader.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::{
    incremental::{Nodes, folder, incremental, open, written},
    support::{bytes::Layout, in_sessions, run, spread::Part},
};
use mainstay_engine::{
    Capture, Config, ErrorKind, LevelKind, Reader, Region, Session, SpaceSurvey, Stage, Track,
    group::Solo,
    space::format::{ElementType, Extent, Manifest, PlaceInWhole},
};
use std::{fs, path::Path};

const BLOCK: usize = 4096;
const BLOCKS: usize = 600;

/// Some blocks of random bytes among zeros, with a partial block at the end.
fn sparse(seed: u64) -> Vec<u8> {
    let (mut random, mut memory) = (fastrand::Rng::with_seed(seed), vec![0; BLOCKS * BLOCK + 100]);
    for block in [0, 7, 8, 9, 300, BLOCKS - 2] {
        random.fill(&mut memory[block * BLOCK..(block + 1) * BLOCK]);
    }
    // One nonzero byte is enough.
    memory[400 * BLOCK + 4095] = 1;
    memory
}

fn region(memory: &mut [u8]) -> Region {
    // SAFETY: the tests keep the memory for as long as the session.
    unsafe { Region::new("x", memory.as_mut_ptr(), memory.len() as u64) }.unwrap()
}

/// Bytes of the newest revision that are stored in the space, and bytes that are recorded as zeros.
fn stored(space: &Path) -> (u64, u64) {
    let survey = SpaceSurvey::open(space).unwrap();
    // A node with copies alone sees no shard of its own.
    let newest = survey.revisions.iter().max_by_key(|revision| revision.key).unwrap();
    let manifests = newest.shards.iter().map(|shard| shard.manifest().unwrap().unwrap());
    let extents = manifests.flat_map(|manifest| manifest.items).flat_map(|item| item.extents);
    let (zeros, lie): (Vec<Extent>, Vec<Extent>) = extents.partition(Extent::is_zeros);
    let sum = |extents: Vec<Extent>| extents.iter().map(|extent| extent.bytes).sum();
    (sum(lie), sum(zeros))
}

/// Checks that every reader of the space gets `memory`, also into memory with other contents.
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
    back.fill(0xee);
    for (index, part) in back.chunks_mut(10_000).enumerate() {
        assert_eq!(reader.read(0, "x", index as u64 * 10_000, part).unwrap(), part.len());
    }
    assert!(back == memory, "{told}: read");
}

#[test]
fn zeros_take_no_bytes_and_come_back() {
    let stages = [Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank].into_iter();
    let ways = [
        (Track::Hashes, Capture::Incremental),
        (Track::Auto, Capture::Incremental),
        (Track::Auto, Capture::IncrementalSnapshot),
    ];
    for (stage, (track, capture)) in stages.flat_map(|stage| ways.map(|way| (stage, way))) {
        let told = format!("{stage:?}, {track:?}, {capture:?}");
        let folder = folder();
        let config = Config { stage, track, capture, audit: 2, snapshot_bytes: Some(0), ..incremental() };
        let mut memory = sparse(1);
        let mut session = open(Box::new(Solo), folder.path(), &config);
        session.protect(region(&mut memory)).unwrap();
        let saved = |session: &mut Session, number: u64| {
            assert_eq!(session.checkpoint().unwrap(), number);
            session.wait().unwrap();
            let (lie, zeros) = stored(folder.path());
            assert_eq!(lie + zeros, (BLOCKS * BLOCK + 100) as u64, "{told}");
            (zeros / BLOCK as u64, written(folder.path(), number))
        };
        // The first revision, without an older one, and the next, without a change.
        for (number, most) in [(1, 8), (2, 0)] {
            let (zeros, bytes) = saved(&mut session, number);
            assert_eq!(zeros, BLOCKS as u64 - 7, "{told}");
            assert!(bytes <= (most * BLOCK + (64 << 10)) as u64, "{told}: {bytes} bytes for revision {number}");
        }
        // Zeros become other bytes, and the other way round.
        memory[100 * BLOCK + 5] = 1;
        memory[8 * BLOCK..9 * BLOCK].fill(0);
        memory[9 * BLOCK + 4000..10 * BLOCK].fill(0);
        let (zeros, bytes) = saved(&mut session, 3);
        assert_eq!(zeros, BLOCKS as u64 - 7, "{told}");
        assert!(bytes <= (3 * BLOCK + (64 << 10)) as u64, "{told}: {bytes} bytes");
        session.close().unwrap();
        comes_back(folder.path(), &config, &memory, &told);
        // A job that saves everything writes zeros, too, and records none.
        let whole = Config { capture: Capture::Whole, ..config.clone() };
        let mut session = open(Box::new(Solo), folder.path(), &whole);
        session.protect(region(&mut memory)).unwrap();
        session.restore().unwrap().unwrap();
        assert_eq!(saved(&mut session, 4).0, 0, "{told}");
        session.close().unwrap();
        comes_back(folder.path(), &config, &memory, &told);
    }
}

#[test]
fn a_state_of_zeros_alone_is_a_revision() {
    let folder = folder();
    let mut memory = vec![0; 50 * BLOCK];
    for _ in 0..3 {
        let mut session = open(Box::new(Solo), folder.path(), &incremental());
        session.protect(region(&mut memory)).unwrap();
        session.restore().unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        assert_eq!(stored(folder.path()), (0, 50 * BLOCK as u64));
        session.close().unwrap();
        comes_back(folder.path(), &incremental(), &memory, "zeros");
    }
}

/// This includes the node that has no shard of its own any more.
#[test]
fn zeros_take_no_bytes_on_farther_levels_and_copies() {
    for kind in [LevelKind::Memory, LevelKind::Disk] {
        let mut nodes = Nodes::new(&[0, 1], kind, 1, 2, incremental());
        run(2, |rank, group| {
            let mut session = nodes.session(group);
            let mut memory = sparse(rank as u64);
            session.protect(region(&mut memory)).unwrap();
            for step in 0..4 {
                memory[(20 + step) * BLOCK] = 9;
                session.checkpoint().unwrap();
                session.wait().unwrap();
            }
            session.close().unwrap();
        });
        let places = || nodes.nodes.iter().flatten().chain([&nodes.pfs]);
        for (place, shards) in places().zip([1, 1, 1, 1, 2]) {
            assert_eq!(stored(place.path()), (shards * (11 * BLOCK as u64 + 100), shards * 589 * BLOCK as u64));
        }
        let first = places().map(|place| written(place.path(), 4)).max().unwrap();
        assert!(first <= 2 * (BLOCK + (64 << 10)) as u64, "{kind:?}: {first} bytes");
        nodes.nodes[0] = [folder(), folder()];
        run(2, |rank, group| {
            let mut session = nodes.session(group);
            let (mut memory, mut saved) = (vec![0xee; BLOCKS * BLOCK + 100], sparse(rank as u64));
            (20..24).for_each(|block| saved[block * BLOCK] = 9);
            session.protect(region(&mut memory)).unwrap();
            session.restore().unwrap().unwrap();
            assert!(memory == saved, "{kind:?}, rank {rank}");
            session.close().unwrap();
        });
    }
}

#[test]
fn zeros_come_back_as_other_boxes() {
    let (folder, shape) = (folder(), [300, 700]);
    let value = |number: u64| if (number / 5000).is_multiple_of(3) { number } else { 0 };
    in_sessions(folder.path(), 2, &incremental(), |rank, session| {
        let mut part = Part::slab(&shape, rank, 2);
        part.fill(value);
        session.protect(part.region("u").unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("u").unwrap();
    });
    assert!(stored(folder.path()).1 > 500_000);
    for ranks in [1, 3] {
        in_sessions(folder.path(), ranks, &incremental(), |rank, session| {
            let mut part = Part::slab(&shape, rank, ranks);
            part.fill(|_| 0xeeee);
            session.protect(part.region("u").unwrap()).unwrap();
            session.restore().unwrap().unwrap();
            assert!(part.holds(value), "rank {rank} of {ranks}");
            session.unprotect("u").unwrap();
        });
    }
}

/// This includes rows with gaps between them, and an array that another number of ranks saved.
#[test]
fn memory_that_is_zero_already_gets_no_pages() {
    let shape = [256, 8192];
    let value = |number: u64| u64::from(number.is_multiple_of(1 << 20));
    for ranks in [1, 2] {
        let folder = folder();
        in_sessions(folder.path(), ranks, &incremental(), |rank, session| {
            let mut part = Part::slab(&shape, rank, ranks);
            part.fill(value);
            session.protect(part.region("u").unwrap()).unwrap();
            session.checkpoint().unwrap();
            session.wait().unwrap();
            session.unprotect("u").unwrap();
        });
        for gap in [0, 512] {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(256 * (8192 + gap) * 8).unwrap();
            // SAFETY: no process writes the file.
            let mut memory = unsafe { memmap2::MmapOptions::new().map_copy(file.as_file()) }.unwrap();
            let place = PlaceInWhole { global_shape: shape.to_vec(), offset: vec![0, 0] };
            // SAFETY: the session ends before the memory.
            let region = unsafe {
                let whole = Region::placed("u", memory.as_mut_ptr(), ElementType::U64, &shape, place).unwrap();
                whole.within(&[256, 8192 + gap], &[0, 0]).unwrap()
            };
            let mut session = open(Box::new(Solo), folder.path(), &incremental());
            session.protect(region).unwrap();
            session.restore().unwrap().unwrap();
            session.close().unwrap();
            let (told, written) = (format!("{ranks} ranks, {gap} between rows"), written_of(file.path()));
            assert!((8..1 << 20).contains(&written), "{told}: {written} bytes");
            let ones = memory.chunks(8).filter(|cell| cell.iter().any(|byte| *byte != 0)).count();
            assert_eq!(ones, 2, "{told}");
        }
    }
}

/// The number of bytes that the program has written in the mappings of this file.
fn written_of(file: &Path) -> u64 {
    let (maps, mut is_it, mut bytes) = (fs::read_to_string("/proc/self/smaps").unwrap(), false, 0);
    for line in maps.lines() {
        if let Some(kilobytes) = line.strip_prefix("Anonymous:") {
            let kilobytes: u64 = kilobytes.trim().trim_end_matches(" kB").parse().unwrap();
            bytes += if is_it { kilobytes << 10 } else { 0 };
        } else if !line.split(' ').next().unwrap().ends_with(':') {
            is_it = line.ends_with(file.to_str().unwrap());
        }
    }
    bytes
}

/// Only the manifest gives the length of zeros: it is limited to the size of the portion.
#[test]
fn zeros_that_cannot_be_are_damage() {
    let folder = folder();
    let mut memory = sparse(1);
    let mut session = open(Box::new(Solo), folder.path(), &incremental());
    session.protect(region(&mut memory)).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    let mut files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "mainstay")).unwrap();
    let (whole, portion_bytes) = (Layout::read(&file), Layout::read(&file).place(0).bytes);
    let manifest = whole.manifest(0, 1);
    let zeros = manifest.items[0].extents.iter().position(Extent::is_zeros).unwrap();
    let longer = |bytes: u64| {
        let mut manifest = manifest.clone();
        manifest.items[0].extents[zeros].bytes += bytes;
        manifest.items[0].bytes += bytes;
        manifest.items[0].shape = vec![manifest.items[0].bytes];
        manifest
    };
    assert!(Manifest::parse(&longer(BLOCK as u64).build(), portion_bytes).is_ok());
    let elsewhere = {
        let mut manifest = manifest.clone();
        manifest.items[0].extents[zeros].at += 4096;
        manifest.build()
    };
    // A manifest of a build without zeros.
    let older = {
        let mut bytes = manifest.build();
        assert_eq!(bytes[8], 2);
        bytes[8] = 1;
        bytes
    };
    for forged in [longer(portion_bytes).build(), longer(1 << 62).build(), elsewhere, older] {
        let mut layout = whole.clone();
        layout.forge_manifest(0, 1, &forged);
        layout.write();
        let error = Reader::open(folder.path(), None, "test").err().unwrap();
        assert!(
            error.kind() == ErrorKind::Damaged && error.to_string().contains("outside the manifest's runs"),
            "{error}"
        );
    }
    let mut newer = manifest.build();
    newer[8] = 4;
    let mut layout = whole;
    layout.forge_manifest(0, 1, &newer);
    layout.write();
    let error = Reader::open(folder.path(), None, "test").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NewerVersion);
    assert!(error.to_string().contains('4') && error.to_string().contains('3'), "{error}");
}
