//! Reads streams back.

use crate::support::bytes::Layout;
use mainstay_engine::{
    Config, ErrorKind, Region, Session, Stage,
    group::Solo,
    space::format::{ElementType, ItemKind},
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
}

fn open(folder: &Path) -> Session {
    Session::open(Box::new(Solo), folder, small()).unwrap()
}

fn layout_of(space: &Path) -> PathBuf {
    let files = fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "mainstay")).unwrap()
}

#[allow(unsafe_code)]
fn protect(session: &mut Session, name: &str, memory: &mut [u8]) {
    // SAFETY: the tests keep `memory` for as long as the session.
    let region = unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) };
    session.protect(region.unwrap()).unwrap();
}

/// A space with one revision: the region "memory", and the streams "long" and "empty".
fn saved(long: &mut [u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut session = open(folder.path());
    protect(&mut session, "memory", &mut [7; 100]);
    protect(&mut session, "long", long);
    protect(&mut session, "empty", &mut []);
    session.checkpoint().unwrap();
    session.close().unwrap();
    let mut layout = Layout::read(&layout_of(folder.path()));
    let mut manifest = layout.manifest(0, 1);
    for item in &mut manifest.items[1..] {
        (item.kind, item.element) = (ItemKind::Stream, ElementType::Bytes);
    }
    layout.forge_manifest(0, 1, &manifest.build());
    layout.write();
    folder
}

fn random(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(bytes as u64);
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

#[test]
fn a_stream_is_read_in_any_pieces_and_regions_come_back_beside_it() {
    let mut long = random(1_000_003);
    let folder = saved(&mut long);
    let mut session = open(folder.path());
    let mut memory = [0; 100];
    protect(&mut session, "memory", &mut memory);
    session.restore().unwrap().unwrap();
    assert_eq!(memory, [7; 100]);
    assert_eq!(session.streams().unwrap(), [("long".to_owned(), 1_000_003), ("empty".to_owned(), 0)]);
    let mut choose = fastrand::Rng::with_seed(1);
    let mut into = vec![0; 1_100_000];
    for _ in 0..500 {
        let most = [2, 100, 10_000, into.len()][choose.usize(..4)];
        let bytes = choose.usize(..most);
        let offset = choose.usize(..1_010_000);
        let expected = &long[offset.min(long.len())..(offset + bytes).min(long.len())];
        into[..bytes].fill(0xEE);
        assert_eq!(session.read("long", offset as u64, &mut into[..bytes]).unwrap(), expected.len());
        assert!(into[..expected.len()] == *expected, "{bytes} bytes at {offset}");
        assert!(into[expected.len()..bytes].iter().all(|byte| *byte == 0xEE), "written behind the end");
    }
    assert_eq!(session.read("long", u64::MAX, &mut into).unwrap(), 0);
    assert_eq!(session.read("empty", 0, &mut into).unwrap(), 0);
    assert_eq!(["long", "empty"].map(|name| session.stream_bytes(name).unwrap()), [1_000_003, 0]);
    session.close().unwrap();
}

#[track_caller]
fn refused(session: &mut Session, name: &str, says: &[&str]) {
    let error = session.read(name, 0, &mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(says.iter().all(|says| text.contains(says)), "{text}");
}

#[test]
fn reading_at_the_wrong_moment_says_what_the_right_one_is() {
    let folder = saved(&mut random(10_000));
    let mut session = open(folder.path());
    refused(&mut session, "long", &["nothing was restored yet", "call restore first"]);
    assert_eq!(session.streams().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut memory = [0; 100];
    for _ in 0..2 {
        // A failed restore brings nothing back, and the data from before is gone.
        assert_eq!(session.restore().unwrap_err().kind(), ErrorKind::RegionMissing);
        refused(&mut session, "long", &["call restore first"]);
        protect(&mut session, "memory", &mut memory);
        session.restore().unwrap().unwrap();
        session.read("long", 0, &mut [0; 1]).unwrap();
        session.unprotect("memory").unwrap();
    }
    protect(&mut session, "memory", &mut memory);
    session.restore().unwrap().unwrap();
    refused(&mut session, "memory", &["\"memory\"", "revision 1", "long, empty"]);
    refused(&mut session, "", &["\"\"", "long, empty"]);
    session.checkpoint().unwrap();
    refused(&mut session, "long", &["a checkpoint has begun", "before the next"]);
    assert_eq!(session.streams().unwrap_err().kind(), ErrorKind::InvalidArgument);
    // This revision has no stream.
    session.restore().unwrap().unwrap();
    assert_eq!(session.streams().unwrap(), []);
    refused(&mut session, "long", &["revision 2", "none"]);
    session.close().unwrap();

    let empty = TempDir::new().unwrap();
    let mut session = open(empty.path());
    assert_eq!(session.restore().unwrap(), None);
    assert_eq!(session.streams().unwrap(), []);
    refused(&mut session, "long", &["found nothing"]);
    session.close().unwrap();
}

#[test]
fn a_region_with_the_name_of_a_stream_is_told_so() {
    let folder = saved(&mut random(100));
    let mut session = open(folder.path());
    let (mut memory, mut long) = ([0; 100], [5; 100]);
    protect(&mut session, "memory", &mut memory);
    protect(&mut session, "long", &mut long);
    let error = session.restore().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RegionChanged);
    assert!(error.to_string().contains("a stream of 100 bytes"), "{error}");
    assert_eq!((memory, long), ([0; 100], [5; 100]));
}

/// The restore reads the whole stream, and every read reads it again.
#[test]
fn a_stream_that_is_damaged_is_found_by_the_restore_and_by_a_read() {
    let folder = saved(&mut random(1_000_000));
    let path = layout_of(folder.path());
    let layout = Layout::read(&path);
    let at = layout.place(0).at + layout.manifest(0, 1).items[1].extents[0].at + 900_000;
    let mut changed = layout.clone();
    changed.flip(at as usize);

    let mut memory = [0; 100];
    changed.write();
    let mut session = open(folder.path());
    protect(&mut session, "memory", &mut memory);
    assert_eq!(session.restore().unwrap_err().kind(), ErrorKind::Damaged);
    refused(&mut session, "long", &["call restore first"]);
    session.close().unwrap();

    layout.write();
    let mut session = open(folder.path());
    protect(&mut session, "memory", &mut memory);
    session.restore().unwrap().unwrap();
    let mut changed = Layout::read(&path);
    changed.flip(at as usize);
    changed.write();
    let mut into = [0; 10];
    assert_eq!(session.read("long", 900_000, &mut into).unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(into, [0; 10]);
    assert_eq!(session.read("long", 0, &mut into).unwrap(), 10);
    session.close().unwrap();
}

/// The streams come back in another session, read in pieces with any ends.
#[test]
fn streams_of_every_size_come_back_on_every_stage() {
    let (chunk, block) = (64 << 10, 4096);
    let sizes = [0, 1, 511, 512, block - 1, block, block + 1, chunk - 1, chunk, chunk + 1, (256 << 10) + 1, 700_001];
    for stage in [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct] {
        let folder = TempDir::new().unwrap();
        let config = Config { stage, threshold_bytes: Some(16 << 10), buffer_bytes: 64 << 10, ..small() };
        let open = || Session::open(Box::new(Solo), folder.path(), config.clone()).unwrap();
        let name = |size: usize| format!("of-{size}");
        let mut session = open();
        session.begin(8 << 20).unwrap();
        for size in sizes {
            // Backwards: each piece overlaps the beginning of the one before, and a gap is left unwritten.
            let bytes = random(size);
            let gap = size / 3..size / 2;
            session.write(&name(size), size as u64, &[]).unwrap();
            for part in [gap.end..size, 0..gap.start] {
                let mut end = part.end;
                while end > part.start {
                    let from = end.saturating_sub(30_000).max(part.start);
                    let over = (end + 100).min(part.end);
                    let mut piece = bytes[from..over].to_vec();
                    session.write(&name(size), from as u64, &piece).unwrap();
                    // The memory belongs to the program again.
                    piece.fill(0xEE);
                    end = from;
                }
            }
        }
        session.checkpoint().unwrap();
        session.close().unwrap();

        let mut session = open();
        session.restore().unwrap().unwrap();
        let mut choose = fastrand::Rng::with_seed(9);
        for size in sizes {
            let case = format!("{stage:?}, {size} bytes");
            let mut expected = random(size);
            expected[size / 3..size / 2].fill(0);
            assert_eq!(session.stream_bytes(&name(size)).unwrap(), size as u64, "{case}");
            let (mut read, mut into) = (Vec::new(), vec![0; 100_000]);
            while read.len() < size {
                let most = [10, 5000, into.len()][choose.usize(..3)];
                let most = choose.usize(1..=most);
                let got = session.read(&name(size), read.len() as u64, &mut into[..most]).unwrap();
                assert_eq!(got, most.min(size - read.len()), "{case}");
                read.extend_from_slice(&into[..got]);
            }
            assert!(read == expected, "{case}: other bytes than were written");
        }
        session.close().unwrap();
    }
}
