//! `export`: the saved data, bit for bit, or nothing.

use crate::bytes::Layout;
use crate::support::{CELLS, MAINSTAY, RANKS, Ran, Space, field};
use mainstay_engine::{
    Region,
    space::format::{ElementType, ItemKind, PlaceInWhole},
};
use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

fn export(space: &Space, directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(MAINSTAY);
    command.arg("export").args(arguments).arg(space.path()).arg(directory);
    command.output().map(Ran::of).unwrap()
}

fn out(space: &Space) -> PathBuf {
    space.directory.path().join("out")
}

fn saved(rank: usize, step: u64) -> Vec<u8> {
    field(rank, step).iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// All files below the directory, sorted, with the hidden ones.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { folders.push(entry) } else { found.push(entry) }
        }
    }
    let mut names: Vec<_> = found.iter().map(|f| f.strip_prefix(directory).unwrap().display().to_string()).collect();
    names.sort();
    names
}

/// Each rank has a stripe of the columns and one more column to the right. That column belongs to its neighbour, and
/// the rank has other values in it.
#[test]
fn an_array_that_the_shards_share_becomes_one_file() {
    const ROWS: usize = 500;
    let mut space = Space::new(2);
    space.config.shard_bytes = 1 << 20;
    let whole = [ROWS as u64, RANKS as u64 * 20];
    let cell = |row: usize, column: usize| (1000 * row + column) as f64;
    space.run(|rank, session, _| {
        let columns = if rank + 1 < RANKS { 21 } else { 20 };
        let value = |at: usize| match (at / columns, at % columns) {
            (_, 20) => -1.0,
            (row, column) => cell(row, 20 * rank + column),
        };
        let mut mine: Vec<f64> = (0..ROWS * columns).map(value).collect();
        // In the overlap of two parts, the lower rank's part counts: here its halo column, with other values.
        let place = PlaceInWhole { global_shape: whole.to_vec(), offset: vec![0, 20 * rank as u64] };
        let shape = [ROWS as u64, columns as u64];
        // SAFETY: the state lives until the checkpoint is complete. Only the session uses it meanwhile.
        #[allow(unsafe_code)]
        let region = unsafe { Region::placed("grid", mine.as_mut_ptr().cast(), ElementType::F64, &shape, place) };
        session.protect(region.unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("grid").unwrap();
    });
    let ran = export(&space, &out(&space), &["--whole", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let there = ["grid.npy", "shard/0000/field.npy", "shard/0001/field.npy", "shard/0002/field.npy"];
    assert_eq!(files(&out(&space)), there);
    let document = ran.json();
    let grid = document["files"].as_array().unwrap().iter().find(|file| file["item"] == "grid").unwrap();
    assert!(grid["shard"].is_null() && grid["shape"] == serde_json::json!(whole), "{grid}");
    let bytes = fs::read(out(&space).join("grid.npy")).unwrap();
    let head = bytes.len() - 8 * ROWS * RANKS * 20;
    assert!(String::from_utf8_lossy(&bytes[..head]).contains("'shape': (500, 60), }"));
    for (at, value) in bytes[head..].as_chunks().0.iter().enumerate() {
        let (row, column) = (at / 60, at % 60);
        let expected = if [20, 40].contains(&column) { -1.0 } else { cell(row, column) };
        assert_eq!(f64::from_le_bytes(*value), expected, "row {row}, column {column}");
    }
    export(&space, &out(&space), &["--whole", "--shard", "0"]).refused_usage();
}

#[test]
fn each_item_becomes_a_file_of_its_bytes() {
    let space = Space::with(2, 5);
    let ran = export(&space, &out(&space), &["--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let document = ran.json();
    assert_eq!((&document["revision"], &document["lineage"]), (&5.into(), &1.into()));
    assert_eq!(files(&out(&space)), ["shard/0000/field.npy", "shard/0001/field.npy", "shard/0002/field.npy"]);
    for rank in 0..RANKS {
        let file = &document["files"][rank];
        assert_eq!((&file["dtype"], &file["shape"]), (&"<f8".into(), &vec![4, CELLS / 4].into()));
        let bytes = fs::read(out(&space).join(file["file"].as_str().unwrap())).unwrap();
        let head = bytes.len() - 8 * CELLS;
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && head.is_multiple_of(64));
        assert!(String::from_utf8_lossy(&bytes[..head]).contains("'shape': (4, 10000), }"));
        assert!(bytes[head..] == saved(rank, 5), "other bytes than rank {rank} saved");
    }
    let raw = ["--format", "raw", "--shard", "1", "--item", "field", "--revision", "4"];
    assert!(export(&space, &out(&space), &raw).out.contains("1 file"));
    assert!(fs::read(out(&space).join("shard/0001/field.raw")).unwrap() == saved(1, 4));
    assert_eq!(files(&out(&space)).len(), 4);
}

#[test]
fn files_that_are_there_stay_unless_they_may_be_replaced() {
    let space = Space::with(2, 5);
    let there = out(&space).join("shard/0001/field.npy");
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    symlink("/nowhere", &there).unwrap();
    export(&space, &out(&space), &[]).refused(4, &["shard/0001/field.npy", "--force"]);
    assert_eq!(files(&out(&space)), ["shard/0001/field.npy"]);
    assert_eq!(export(&space, &out(&space), &["--force"]).code, 0);
    assert!(!there.is_symlink() && fs::read(&there).unwrap().ends_with(&saved(1, 5)));
}

#[test]
fn damage_leaves_nothing() {
    let space = Space::with(2, 5);
    let mut layout = Layout::read(&space.layout());
    let at = layout.place(2).at + layout.manifest(2, 5).items[0].extents[0].at + 100_000;
    layout.bytes[at as usize] ^= 1;
    layout.write();
    export(&space, &out(&space), &[]).refused(1, &["shard 2", "checksum", "nothing was exported"]);
    assert_eq!(files(&out(&space)), [""; 0]);
    assert_eq!(fs::read_dir(out(&space)).unwrap().count(), 0, "a folder was left");
    // The undamaged shards can be exported.
    assert_eq!(export(&space, &out(&space), &["--shard", "0", "--shard", "1"]).code, 0);
    assert_eq!(export(&space, &out(&space), &["--revision", "4", "--force"]).code, 0);
}

/// Names come from the space, from any writer, and become paths.
#[test]
fn a_name_that_leaves_the_directory_is_refused() {
    for name in ["../.f", "/tmp/", "a/../", "./a/b", "a\0b/c", "a\nbcd", "a//bc", "äbcd", "a\\b c"] {
        let space = Space::with(1, 2);
        let mut layout = Layout::read(&space.layout());
        let mut manifest = layout.manifest(1, 2);
        manifest.items[0].name = name.to_owned();
        layout.forge_manifest(1, 2, &manifest.build());
        layout.write();
        let ran = export(&space, &out(&space), &[]);
        assert_eq!((ran.code, ran.err.contains("cannot be used")), (1, true), "{name:?}: {ran:?}");
        assert!(!out(&space).exists(), "{name:?}");
    }
}

/// A folder and a file cannot have the same name.
#[test]
#[allow(unsafe_code)]
fn names_that_get_in_each_others_way_are_told() {
    let space = Space::new(1);
    space.run(|_, session, _| {
        let mut inside = [7_u8; 8];
        // SAFETY: the memory lives until it is unprotected.
        let region = unsafe { Region::new("field.npy/inside", inside.as_mut_ptr(), 8) };
        session.protect(region.unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("field.npy/inside").unwrap();
    });
    for arguments in [&[][..], &["--dry-run"]] {
        let ran = export(&space, &out(&space), arguments);
        let words = "items \"field\" and \"field.npy/inside\" would both be shard/0000/field.npy";
        assert_eq!((ran.code, ran.err.contains(words)), (1, true), "{ran:?}");
        assert!(!out(&space).exists());
    }
    assert_eq!(export(&space, &out(&space), &["--item", "field.npy/inside"]).code, 0);
    assert_eq!(files(&out(&space)).first().unwrap(), "shard/0000/field.npy/inside.npy");
}

/// The array and an item of a shard had the same path: one overwrote the other, and both were reported as verified.
#[test]
#[allow(unsafe_code)]
fn a_whole_array_with_the_name_of_another_file_is_told() {
    let space = Space::new(1);
    space.run(|rank, session, _| {
        let mut mine = [7_u8; 8];
        let place = PlaceInWhole { global_shape: vec![RANKS as u64], offset: vec![rank as u64] };
        // SAFETY: the memory lives until it is unprotected.
        let region =
            unsafe { Region::placed("shard/0000/field", mine.as_mut_ptr(), ElementType::F64, &[1], place).unwrap() };
        session.protect(region).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("shard/0000/field").unwrap();
    });
    let ran = export(&space, &out(&space), &["--whole"]);
    assert_eq!((ran.code, ran.err.contains("would both be shard/0000/field.npy")), (1, true), "{ran:?}");
    assert!(!out(&space).exists());
    assert_eq!(export(&space, &out(&space), &[]).code, 0);
    assert_eq!(
        export(&space, &space.directory.path().join("alone"), &["--whole", "--item", "shard/0000/field"]).code,
        0
    );
}

/// Neither numpy nor Mainstay reports a shape that does not fit the bytes.
#[test]
fn a_shape_that_does_not_fit_is_left_out() {
    let space = Space::with(1, 2);
    let mut layout = Layout::read(&space.layout());
    let mut manifest = layout.manifest(0, 2);
    manifest.items[0].shape = vec![u64::MAX, 3];
    layout.forge_manifest(0, 2, &manifest.build());
    layout.write();
    let file = &export(&space, &out(&space), &["--json", "--shard", "0"]).json()["files"][0];
    assert_eq!((&file["dtype"], &file["shape"]), (&"|u1".into(), &vec![8 * CELLS].into()));
}

/// A shard can also be a stream, with contents that only the program knows.
#[test]
fn a_stream_becomes_a_file_of_its_bytes() {
    let space = Space::with(1, 2);
    let mut layout = Layout::read(&space.layout());
    let mut manifest = layout.manifest(1, 2);
    manifest.items[0].kind = ItemKind::Stream;
    layout.forge_manifest(1, 2, &manifest.build());
    layout.write();
    for format in ["npy", "raw"] {
        let document = export(&space, &out(&space), &["--json", "--format", format, "--force"]).json();
        let file = &document["files"][1];
        assert_eq!((&file["file"], &file["dtype"]), (&"shard/0001/field.bin".into(), &serde_json::Value::Null));
        assert!(fs::read(out(&space).join("shard/0001/field.bin")).unwrap() == saved(1, 2), "{format}");
    }
    assert_eq!(files(&out(&space)).iter().filter(|name| name.starts_with("shard/0001")).count(), 1);

    let show = space.mainstay(&["show", "--json"]).json();
    let kinds = [0, 1].map(|rank| show["revision"]["shard_list"][rank]["items"][0]["kind"].clone());
    assert_eq!(kinds, ["region", "stream"]);
    let page = space.mainstay(&["show"]);
    assert!(page.out.lines().any(|line| line.contains(" stream ") && line.ends_with("312 KiB")), "{page:?}");
    for command in ["ls", "verify"] {
        assert_eq!(space.mainstay(&[command]).code, 0);
    }
    layout.flip((layout.place(1).at + layout.manifest(1, 2).items[0].extents[0].at + 100_000) as usize);
    layout.write();
    space.mainstay(&["verify"]).refused(1, &["shard 1", "checksum"]);
}

#[test]
fn what_is_not_there_is_told() {
    let space = Space::with(1, 2);
    export(&space, &out(&space), &["--revision", "9"]).refused(1, &["no revision 9"]);
    export(&space, &out(&space), &["--shard", "3"]).refused(1, &["no shard 3", "0 to 2"]);
    export(&space, &out(&space), &["--item", "fields"]).refused(1, &["no item \"fields\""]);
    assert!(!out(&space).exists());
    let file = space.directory.path().join("file");
    File::create(&file).unwrap().write_all_at(b"x", 0).unwrap();
    // The command did not say how to go on.
    export(&space, &file, &[]).refused(4, &["making the directory", "a file has this name; choose another place"]);
    let below = file.join("out");
    export(&space, &below, &[]).refused(4, &["making the directory", "no directory; choose another place"]);
}

/// The job removes the revisions that the command reads. The export has one whole revision every time.
#[test]
fn beside_a_running_job_all_files_are_of_one_revision() {
    let space = Space::with(1, 1);
    space.beside_a_job(|| {
        for round in 0..15 {
            let ran = export(&space, &out(&space), &["--force", "--json", "--format", "raw"]);
            if ran.code == 1 && ran.err.contains("removed the revision") {
                continue;
            }
            assert_eq!(ran.code, 0, "round {round}: {ran:?}");
            for rank in 0..RANKS {
                let bytes = fs::read(out(&space).join(format!("shard/000{rank}/field.raw"))).unwrap();
                let step = ran.json()["revision"].as_u64().unwrap();
                assert!(bytes == saved(rank, step), "round {round}: rank {rank} is not of revision {step}");
            }
        }
        let held = space.mainstay(&["ls", "--json"]).json()["holds"].as_array().unwrap().len();
        assert_eq!(held, 0, "an export left its hold");
    });
}

/// The signal ended the command without a message, and the command left a folder behind.
#[test]
fn a_limit_on_the_size_of_files_is_told_and_leaves_nothing() {
    let space = Space::with(1, 1);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 8; exec \"$0\" export \"$1\" \"$2\"", MAINSTAY]).arg(space.path()).arg(out(&space));
    command.output().map(Ran::of).unwrap().refused(4, &["File too large"]);
    assert_eq!(files(&out(&space)), [""; 0]);
}
