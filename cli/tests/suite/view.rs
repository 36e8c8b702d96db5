//! `view`: a file that shows the saved data, holds it, and never touches it. tests/test_view.py opens the file with
//! other tools.

use crate::bytes::Layout;
use crate::support::{CELLS, MAINSTAY, RANKS, Ran, Space, field};
use mainstay_engine::{
    Region,
    space::format::{ElementType, PlaceInWhole},
};
use rust_hdf5::H5File;
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    process::Command,
    ptr,
    time::{Duration, Instant},
};

/// Longer than any job that goes on. Without this limit the test would wait forever for a failed job.
const LIMIT: Duration = Duration::from_secs(60);

fn view(space: &Space, arguments: &[&str]) -> Ran {
    let mut command = Command::new(MAINSTAY);
    command.arg("view").arg(space.path()).arg("--hdf5").arg(out(space)).args(arguments);
    command.output().map(Ran::of).unwrap()
}

fn out(space: &Space) -> PathBuf {
    space.directory.path().join("views/out.h5")
}

/// A dataset of the written file.
fn numbers(space: &Space, path: &str) -> Vec<f64> {
    H5File::open(out(space)).unwrap().dataset(path).unwrap().read_raw().unwrap()
}

fn holds(space: &Space) -> Vec<(u64, String)> {
    let document = space.mainstay(&["ls", "--json"]).json();
    let held = |hold: &Value| (hold["revision"].as_u64().unwrap(), hold["note"].as_str().unwrap().to_owned());
    document["holds"].as_array().unwrap().iter().map(held).collect()
}

/// Whether the folder of the file is empty again.
fn left_nothing(space: &Space) -> bool {
    let folder = out(space);
    fs::read_dir(folder.parent().unwrap()).map_or(true, |mut found| found.next().is_none())
}

#[test]
fn a_view_points_into_the_space_and_leaves_it_as_it_was() {
    let space = Space::with(2, 5);
    let before = fs::read(space.layout()).unwrap();
    let ran = view(&space, &["--no-hold", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let document = ran.json();
    assert_eq!((&document["revision"], &document["verified"]), (&5.into(), &true.into()));
    assert_eq!((&document["hold"], &document["left_out"]), (&Value::Null, &Vec::<Value>::new().into()));
    assert_eq!(document["datasets"].as_array().unwrap().len(), RANKS);
    for rank in 0..RANKS {
        let dataset = &document["datasets"][rank];
        assert_eq!((&dataset["shape"], &dataset["element_type"]), (&vec![4, CELLS / 4].into(), &"f64".into()));
        assert!(numbers(&space, dataset["path"].as_str().unwrap()) == field(rank, 5), "other than rank {rank} saved");
    }
    let pieces = H5File::open(out(&space)).unwrap().dataset("shard/0001/field").unwrap().external_files().unwrap();
    assert!(!pieces.is_empty() && pieces.iter().all(|piece| piece.name == space.layout().to_str().unwrap()));
    let made = fs::metadata(out(&space)).unwrap();
    assert_eq!(made.permissions().mode() & 0o222, 0, "a tool could write into the checkpoint");
    assert!(made.blocks() * 512 <= 32 << 10 && RANKS * 8 * CELLS > 500 << 10, "{} blocks", made.blocks());
    assert!(fs::read(space.layout()).unwrap() == before, "the space was written to");
    assert_eq!(holds(&space), []);
}

#[test]
fn a_view_holds_what_it_shows_until_another_takes_its_place() {
    let mut space = Space::new(3);
    // Room for two held revisions.
    space.config.portion_bytes = 8 << 20;
    space.run(|rank, session, state| {
        for step in 1..=5 {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
        }
    });
    let note = format!("mainstay view {}", out(&space).display());
    let ran = view(&space, &["--revision", "4"]);
    assert!(ran.code == 0 && ran.out.contains("held until it is released: mainstay release"), "{ran:?}");
    assert_eq!(holds(&space), [(4, note.clone())]);
    // The existing file stays, with its hold.
    view(&space, &["--revision", "3"]).refused(4, &["out.h5", "--force"]);
    assert_eq!(holds(&space), [(4, note.clone())]);
    assert!(numbers(&space, "shard/0000/field") == field(0, 4));
    let ran = view(&space, &["--revision", "3", "--force", "--for", "7d", "--json"]);
    assert!(ran.json()["hold"]["expires_unix_ns"].as_u64().unwrap() > 0, "{ran:?}");
    assert_eq!(holds(&space), [(3, note.clone())]);
    assert!(numbers(&space, "shard/0002/field") == field(2, 3));
    let ran = view(&space, &["--revision", "5", "--force", "--no-hold"]);
    assert!(ran.out.contains("not held"), "{ran:?}");
    assert_eq!(holds(&space), []);

    // A file that was renamed meanwhile still shows the same data.
    assert_eq!(view(&space, &["--revision", "4", "--force"]).code, 0);
    fs::rename(out(&space), out(&space).with_file_name("moved.h5")).unwrap();
    assert_eq!(view(&space, &["--revision", "5", "--no-hold"]).code, 0);
    assert_eq!(holds(&space), [(4, note)]);
}

#[test]
fn of_what_is_damaged_there_is_no_view_and_no_hold() {
    let space = Space::with(2, 5);
    let mut layout = Layout::read(&space.layout());
    let at = layout.place(2).at + layout.manifest(2, 5).items[0].extents[0].at + 100_000;
    layout.flip(at as usize);
    layout.write();
    view(&space, &[]).refused(1, &["shard 2", "checksum", "nothing was written"]);
    assert!(left_nothing(&space));
    assert_eq!(holds(&space), []);
    assert_eq!(view(&space, &["--revision", "4"]).code, 0);
    assert!(view(&space, &["--no-verify", "--force", "--no-hold"]).out.contains("not verified"));
    assert!(numbers(&space, "shard/0002/field") != field(2, 5));
}

/// HDF5 would read zeros there.
#[test]
fn a_space_that_was_cut_short_is_refused() {
    let space = Space::with(1, 2);
    let layout = Layout::read(&space.layout());
    let at = layout.place(2).at + layout.manifest(2, 2).items[0].extents[0].at;
    let file = fs::OpenOptions::new().write(true).open(space.layout()).unwrap();
    file.set_len(at + 100_000).unwrap();
    for arguments in [&["--no-hold"][..], &["--no-hold", "--no-verify"]] {
        view(&space, arguments).refused(1, &["cut short"]);
        assert!(left_nothing(&space));
    }
}

/// Names come from the space, from any writer, and become paths in the file.
#[test]
fn names_that_cannot_be_are_left_out() {
    for (name, says) in [("a//bc", "cannot be used"), ("/../b", "cannot be used"), ("a\nbcd", "cannot be used")] {
        let space = Space::with(1, 2);
        let mut layout = Layout::read(&space.layout());
        let mut manifest = layout.manifest(1, 2);
        manifest.items[0].name = name.to_owned();
        layout.forge_manifest(1, 2, &manifest.build());
        layout.write();
        let ran = view(&space, &["--json"]);
        assert!(ran.code == 0 && ran.err.contains(says) && ran.err.lines().count() == 1, "{name:?}: {ran:?}");
        let left = &ran.json()["left_out"];
        assert_eq!((&left[0]["shard"], &left[0]["item"]), (&1.into(), &name.into()));
        assert_eq!(ran.json()["datasets"].as_array().unwrap().len(), RANKS - 1);
        assert!(numbers(&space, "shard/0002/field") == field(2, 2));
    }
}

/// An array with the name of the group of shards would appear among them, or replace one of their items.
#[test]
#[expect(unsafe_code, reason = "regions are memory of the program")]
fn an_array_called_like_the_shards_is_left_out() {
    const NAMES: [&str; 2] = ["shard/0000/field", "shard/0009/more"];
    let space = Space::new(1);
    space.run(|rank, session, state| {
        state.copy_from_slice(&field(rank, 1));
        let mut cells = vec![rank as u64; NAMES.len()];
        let place = PlaceInWhole { global_shape: vec![RANKS as u64], offset: vec![rank as u64] };
        for (name, cell) in NAMES.iter().zip(&mut cells) {
            // SAFETY: the region is unprotected before the memory is freed.
            let region = unsafe {
                Region::placed(name, ptr::from_mut(cell).cast(), ElementType::U64, &[1], place.clone()).unwrap()
            };
            session.protect(region).unwrap();
        }
        session.checkpoint().unwrap();
        session.wait().unwrap();
        NAMES.iter().for_each(|name| session.unprotect(name).unwrap());
    });
    let ran = view(&space, &["--json"]);
    let left = &ran.json()["left_out"];
    assert_eq!((ran.code, left.as_array().unwrap().len()), (0, 2), "{ran:?}");
    for array in left.as_array().unwrap() {
        assert!(array["shard"].is_null() && array["why"].as_str().unwrap().contains("/shard"), "{ran:?}");
    }
    assert!(numbers(&space, "shard/0000/field") == field(0, 1));
}

/// The command refuses even with --force: without these files the space is lost, or a second job can open it.
#[test]
fn the_files_of_a_space_are_nobodys_to_replace() {
    let space = Space::with(1, 2);
    let before = fs::read(space.layout()).unwrap();
    let another = space.path().join("layout-000009-000000-00000000.mainstay");
    for target in [space.layout(), space.path().join("lock"), another] {
        for way in ["--copy", "--no-hold"] {
            let mut command = Command::new(MAINSTAY);
            command.arg("view").arg(space.path()).arg("--hdf5").arg(&target).args(["--force", way]);
            Ran::of(command.output().unwrap()).refused(4, &["a file of the space"]);
        }
    }
    assert!(fs::read(space.layout()).unwrap() == before);
    assert_eq!(space.mainstay(&["verify"]).code, 0);
    // Another file may be written there.
    let mut command = Command::new(MAINSTAY);
    command.arg("view").arg(space.path()).arg("--hdf5").arg(space.path().join("out.h5"));
    assert_eq!(command.status().unwrap().code(), Some(0));
}

/// HDF5 names files in UTF-8. A view with a relative name, or a copy, does not need the path of the space.
#[test]
fn a_space_whose_path_is_no_text_can_be_seen() {
    let mut space = Space::new(1);
    space.name = OsString::from_vec(b"sp\xffce".to_vec());
    space.run(|rank, session, state| {
        state.copy_from_slice(&field(rank, 1));
        session.checkpoint().unwrap();
    });
    view(&space, &["--no-hold"]).refused(4, &["UTF-8", "--copy"]);
    assert_eq!(view(&space, &["--copy"]).code, 0);
    assert!(numbers(&space, "shard/0001/field") == field(1, 1));
}

/// Each rank's rows of one array, with its shape and offsets in the space.
fn placed(global: [u64; 2], offset: impl Fn(u64) -> u64) -> Space {
    let space = Space::with(1, 2);
    let mut layout = Layout::read(&space.layout());
    for rank in 0..RANKS {
        let mut manifest = layout.manifest(rank, 2);
        let place = PlaceInWhole { global_shape: global.to_vec(), offset: vec![offset(rank as u64), 0] };
        manifest.items[0].place = Some(place);
        layout.forge_manifest(rank, 2, &manifest.build());
    }
    layout.write();
    space
}

#[test]
fn parts_that_know_their_place_are_one_array() {
    let columns = CELLS / 4;
    let space = placed([12, columns as u64], |rank| 4 * (2 - rank));
    let ran = view(&space, &["--json"]);
    let array = ran.json()["datasets"][RANKS].clone();
    assert_eq!((&array["path"], &array["shape"]), (&"/field".into(), &vec![12, columns].into()), "{ran:?}");
    let expected: Vec<f64> = (0..RANKS).rev().flat_map(|rank| field(rank, 2)).collect();
    assert!(numbers(&space, "field") == expected);

    // Each rank also has a row of the rank below, which owns it.
    let space = placed([10, columns as u64], |rank| 3 * rank);
    assert_eq!(view(&space, &[]).code, 0);
    let own = |rank: usize| field(rank, 2).split_off(if rank == 0 { 0 } else { columns });
    assert!(numbers(&space, "field") == (0..RANKS).flat_map(own).collect::<Vec<f64>>());

    // A row that no rank has would read as zeros.
    let space = placed([13, columns as u64], |rank| 4 * rank);
    let ran = view(&space, &["--json"]);
    let left = &ran.json()["left_out"][0];
    assert!(left["shard"].is_null() && left["why"].as_str().unwrap().contains("120000 of its 130000"), "{ran:?}");
    assert!(ran.err.contains("field of all shards is left out"), "{ran:?}");
}

#[test]
fn what_goes_together_and_what_does_not() {
    let space = Space::with(1, 1);
    for arguments in [&["--copy", "--relative"][..], &["--copy", "--no-verify"], &["--no-hold", "--for", "1h"]] {
        view(&space, arguments).refused_usage();
    }
    view(&space, &["--revision", "7"]).refused(1, &["no revision 7"]);
    assert!(left_nothing(&space));
    assert_eq!(holds(&space), []);
}

/// The file shows the same data while the job saves more.
#[test]
fn beside_a_running_job_a_view_stays_as_it_was() {
    let space = Space::with(1, 1);
    space.beside_a_job(|| {
        for round in 0..3 {
            // There is no room for two holds: the hold of the file before is released.
            let ran = view(&space, &["--force", "--json"]);
            if ran.code == 1 && ran.err.contains("removed the revision") {
                continue;
            }
            assert_eq!(ran.code, 0, "round {round}: {ran:?}");
            let document = ran.json();
            assert_eq!(document["hold"]["counts"], true, "the job has saved since: {ran:?}");
            let shown = document["revision"].as_u64().unwrap();
            // Long enough for its place to have been used again.
            let since = Instant::now();
            while space.mainstay(&["ls", "--json"]).json()["revisions"][0]["revision"].as_u64().unwrap() < shown + 8 {
                assert!(since.elapsed() < LIMIT, "round {round}: the job saves no more");
            }
            for rank in 0..RANKS {
                let found = numbers(&space, &format!("shard/000{rank}/field"));
                assert!(found == field(rank, shown), "round {round}: rank {rank} is not of revision {shown}");
            }
        }
    });
    assert_eq!(holds(&space).len(), 1);
}
