//! Spaces with impossible content and correct checksums.

use crate::support::bytes::Layout;
use mainstay_engine::{
    Config, ErrorKind, Reader, Region, Session, SpaceSurvey,
    group::Solo,
    space::format::{BLOCK_BYTES, ElementType, Extent, Item, PlaceInWhole},
};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tempfile::TempDir;

fn small() -> Config {
    Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() }
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

/// A space with one revision of the regions "a" and "b".
fn saved(a: &mut [u8], b: &mut [u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut session = Session::open(Box::new(Solo), folder.path(), small()).unwrap();
    protect(&mut session, "a", a);
    protect(&mut session, "b", b);
    session.checkpoint().unwrap();
    session.close().unwrap();
    folder
}

/// Story: the root of the first revision was damaged and was taken for a root that was never written. The job began
/// anew without a message.
#[test]
fn a_damaged_first_root_is_told() {
    let (space, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut session = Session::open(Box::new(Solo), space.path(), small()).unwrap();
    protect(&mut session, "a", &mut [1; 100]);
    let to_copy = |session: &mut Session| {
        session.wait().unwrap();
        let from = layout_of(space.path());
        fs::copy(&from, copy.path().join(from.file_name().unwrap())).unwrap();
        SpaceSurvey::open(copy.path()).unwrap()
    };
    session.checkpoint().unwrap();
    let survey = to_copy(&mut session);
    assert!(survey.damage.is_empty() && survey.newest().is_some(), "{survey:?}");
    let mut layout = Layout::read(&layout_of(copy.path()));
    let index = layout.newest_slot(0);
    assert_eq!(layout.slot(0, index).sequence, 2);
    layout.damage_slot(0, index);
    layout.write();
    let survey = SpaceSurvey::open(copy.path()).unwrap();
    assert!(survey.damage.iter().any(|what| what.contains("slot 1")), "{:?}", survey.damage);
    session.close().unwrap();
}

/// The last possible number has no next one.
#[test]
fn numbers_without_a_next_one_are_damage() {
    let folder = saved(&mut [1; 100], &mut [2; 100]);
    let whole = Layout::read(&layout_of(folder.path()));
    let changes: [fn(&mut mainstay_engine::space::format::Slot); 2] =
        [|slot| slot.sequence = u64::MAX, |slot| slot.lineage.number = u64::MAX];
    for change in changes {
        let mut layout = whole.clone();
        let index = layout.newest_slot(0);
        let mut slot = layout.slot(0, index);
        change(&mut slot);
        layout.set_slot(0, index, &slot);
        layout.write();
        // Mainstay may open or refuse the space, but must not begin again at 0.
        if let Ok(session) = Session::open(Box::new(Solo), folder.path(), small()) {
            let lineage = |layout: &Layout| layout.slot(0, layout.newest_slot(0)).lineage.number;
            assert!(lineage(&Layout::read(&layout_of(folder.path()))) > 0, "the lineage began again at 0");
            session.close().unwrap();
        }
    }
}

/// The format does not keep extents apart: two items may share bytes.
#[test]
fn items_that_share_bytes_come_back_whole() {
    let mut a: Vec<u8> = (0..3 << 20).map(|i| (i / 4096 + i) as u8).collect();
    let mut b = vec![9; 100];
    let folder = saved(&mut a, &mut b);
    let mut layout = Layout::read(&layout_of(folder.path()));
    let mut manifest = layout.manifest(0, 1);
    let at = manifest.items[0].extents[0].at;
    manifest.items[1].extents = vec![Extent { at: at + 4096, bytes: 100 }];
    layout.forge_manifest(0, 1, &manifest.build());
    layout.write();

    let expected = a.clone();
    a.fill(0);
    b.fill(0);
    let mut session = Session::open(Box::new(Solo), folder.path(), small()).unwrap();
    protect(&mut session, "a", &mut a);
    protect(&mut session, "b", &mut b);
    let restored = session.restore().unwrap().unwrap();
    assert_eq!((restored.revision, restored.skipped), (1, vec![]));
    assert!(a == expected, "parts of a region were not filled");
    assert_eq!(b, expected[4096..][..100]);
}

/// By the format, a row of hashes may be anywhere in the portion. Its blocks are in use there.
#[test]
fn rows_of_hashes_outside_the_metadata_are_kept() {
    let mut a = vec![7; 1 << 20];
    let mut b = vec![9; 100];
    let folder = saved(&mut a, &mut b);
    let mut layout = Layout::read(&layout_of(folder.path()));
    let mut manifest = layout.manifest(0, 1);
    let run = manifest.runs[0];
    // The row moves to the first block behind the data.
    let to = (run.first_block + run.blocks) * BLOCK_BYTES;
    let row = layout.bytes[layout.hashes_range(0, 1)].to_vec();
    let in_file = (layout.place(0).at + to) as usize;
    layout.bytes[in_file..][..row.len()].copy_from_slice(&row);
    manifest.runs[0].hashes_at = to;
    layout.forge_manifest(0, 1, &manifest.build());
    layout.write();

    // Another job saves the next revision and does not close.
    let mut session = Session::open(Box::new(Solo), folder.path(), small()).unwrap();
    protect(&mut session, "a", &mut a);
    protect(&mut session, "b", &mut b);
    assert_eq!(session.restore().unwrap().unwrap().revision, 1);
    session.checkpoint().unwrap();
    while !session.poll().unwrap() {
        thread::sleep(Duration::from_millis(1));
    }
    let layout = Layout::read(&layout_of(folder.path()));
    assert!(layout.bytes[in_file..][..row.len()] == row, "the row was written over");
}

/// A box that is not inside its global array makes its manifest damaged, for every reader.
#[test]
fn boxes_that_cannot_be_are_damage() {
    type Change = fn(&mut Item);
    let placed = |item: &mut Item| {
        (item.element, item.shape) = (ElementType::U8, vec![10, 10]);
        item.place = Some(PlaceInWhole { global_shape: vec![20, 20], offset: vec![10, 10] });
    };
    let change: [(Change, &str); 9] = [
        (|item| item.place.as_mut().unwrap().offset[0] = 11, "along side 0"),
        (|item| item.place.as_mut().unwrap().offset[1] = u64::MAX, "along side 1"),
        (|item| item.place.as_mut().unwrap().global_shape[1] = 19, "along side 1"),
        (|item| item.shape[0] = u64::MAX, "along side 0"),
        (|item| item.shape[0] = 9, "in a box of 90 elements"),
        (|item| item.element = ElementType::F64, "in a box of 100 elements"),
        (|item| item.place.as_mut().unwrap().global_shape = vec![u64::MAX; 2], "more bytes than any memory"),
        (|item| item.place.as_mut().unwrap().global_shape = vec![1 << 32, 1 << 31], "more bytes than any memory"),
        (
            |item| {
                item.shape = vec![0, 1 << 40];
                item.place = Some(PlaceInWhole { global_shape: vec![0, 1 << 40], offset: vec![0, 0] });
            },
            "in a box of 0 elements",
        ),
    ];
    for (change, says) in change {
        let (mut a, mut b) = ([1; 100], [2; 100]);
        let folder = saved(&mut a, &mut b);
        let mut layout = Layout::read(&layout_of(folder.path()));
        let mut manifest = layout.manifest(0, 1);
        placed(&mut manifest.items[0]);
        layout.forge_manifest(0, 1, &manifest.build());
        layout.write();
        // The manifest is still valid here.
        Reader::open(folder.path(), None, "test").unwrap();
        change(&mut manifest.items[0]);
        layout.forge_manifest(0, 1, &manifest.build());
        layout.write();
        let mut session = Session::open(Box::new(Solo), folder.path(), small()).unwrap();
        protect(&mut session, "a", &mut a);
        protect(&mut session, "b", &mut b);
        let error = session.restore().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains(says), "{says:?} is not in: {error}");
        let error = Reader::open(folder.path(), None, "test").err().unwrap();
        assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains(says), "{error}");
    }
}
