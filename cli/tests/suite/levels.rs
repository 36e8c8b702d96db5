//! The commands on a space that has other levels before it: each revision once, from the nearest place that has it
//! whole.

use crate::support::{MAINSTAY, RANKS, Ran, Space, field, mainstay};
use mainstay_engine::{LevelPlace, MemoryAfter, Reader};
use serde_json::{Value, json};
use std::{
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::Command,
};

/// Revisions 1 to `revisions`. The memory keeps two of them. The space takes every second one, and keeps two as well.
fn space_of(revisions: u64) -> Space {
    let space = Space::new(2);
    let memory = space.directory.path().join("memory");
    space_with(space, memory, revisions)
}

/// The same, with a level that keeps its revisions in `memory`.
fn space_with(mut space: Space, memory: PathBuf, revisions: u64) -> Space {
    space.config.memory = LevelPlace::At(memory);
    (space.config.memory_keep, space.config.pfs_every) = (2, 2);
    space.config.memory_after = MemoryAfter::Kept;
    space.run(|rank, session, state| {
        for step in 1..=revisions {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    space
}

fn memory(space: &Space) -> PathBuf {
    let mut found = fs::read_dir(space.directory.path().join("memory")).unwrap();
    found.next().unwrap().unwrap().path()
}

/// The revision and the levels of each line of a document.
fn levels(document: &Value) -> Vec<(u64, Vec<String>)> {
    let levels = |revision: &Value| {
        let all = revision["levels"].as_array().unwrap().iter();
        all.filter(|level| level["whole"] == true).map(|level| level["level"].as_str().unwrap().to_owned()).collect()
    };
    let revisions = document["revisions"].as_array().unwrap().iter();
    revisions.map(|revision| (revision["revision"].as_u64().unwrap(), levels(revision))).collect()
}

/// Flips a byte in the shard that rank `rank` saved at `step`, in each layout of `directory` that has it. Returns the
/// number of flips.
pub fn damage(directory: &Path, rank: usize, step: u64) -> usize {
    let bytes: Vec<u8> = field(rank, step)[5000..5010].iter().flat_map(|cell| cell.to_le_bytes()).collect();
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut flipped = 0;
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "mainstay")) {
        let mut all = fs::read(&path).unwrap();
        let found: Vec<usize> =
            all.windows(bytes.len()).enumerate().filter(|(_, here)| *here == bytes).map(|(at, _)| at).collect();
        found.iter().for_each(|at| all[*at] ^= 1);
        flipped += found.len();
        fs::write(&path, all).unwrap();
    }
    flipped
}

fn exported(space: &Space, arguments: &[&str]) -> (Ran, PathBuf) {
    let out = space.directory.path().join("out");
    let _ = fs::remove_dir_all(&out);
    let words =
        Command::new(MAINSTAY).arg("export").args(arguments).arg("--format=raw").args([&space.path(), &out]).output();
    (Ran::of(words.unwrap()), out)
}

fn saved(out: &Path, rank: usize) -> Vec<f64> {
    let bytes = fs::read(out.join(format!("shard/000{rank}/field.raw"))).unwrap();
    bytes.chunks(8).map(|cell| f64::from_le_bytes(cell.try_into().unwrap())).collect()
}

#[test]
fn a_revision_is_listed_once_with_the_levels_that_have_it() {
    let space = space_of(5);
    let document = space.mainstay(&["ls", "--json"]).json();
    let both = || vec!["memory".to_owned(), "space".to_owned()];
    let found = levels(&document);
    assert_eq!(found[..2], [(5, vec!["memory".to_owned()]), (4, both())], "{document}");
    assert!(found.contains(&(2, vec!["space".to_owned()])), "{document}");
    assert_eq!(
        (&document["revisions"][0]["state"], &document["revisions"][1]["state"]),
        (&json!("newest"), &json!("complete"))
    );
    let page = space.mainstay(&["ls"]);
    assert!(page.code == 0 && page.out.contains("memory; space\n"), "{page:?}");
    let shown = space.mainstay(&["show"]);
    assert!(shown.code == 0 && shown.out.contains("\nrevision 5 of lineage 1"), "{shown:?}");
    assert!(shown.out.contains("\non the level memory\n"), "{shown:?}");
    // With the level's directory, the command shows that level alone.
    let alone = mainstay(&["ls", "--json"], &memory(&space)).json();
    assert_eq!(levels(&alone)[0], (5, Vec::new()));
    // If the levels of a space are gone, the space itself is left.
    fs::remove_dir_all(memory(&space)).unwrap();
    let document = space.mainstay(&["ls", "--json"]).json();
    assert_eq!(levels(&document), [(4, Vec::new()), (2, Vec::new())]);
}

#[test]
fn what_is_damaged_in_one_place_is_read_from_another_and_told() {
    let space = space_of(4);
    let (ran, out) = exported(&space, &[]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert_eq!(saved(&out, 1), field(1, 4));
    assert_eq!(damage(&memory(&space), 1, 4), 1);
    let verified = space.mainstay(&["verify", "--json"]);
    assert_eq!(verified.code, 1);
    let verdicts: Vec<_> = verified.json()["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["revision"].as_u64().unwrap(), one["level"].clone(), one["verdict"].clone()))
        .collect();
    assert!(verdicts.contains(&(4, json!("memory"), json!("damaged"))), "{verdicts:?}");
    assert!(verdicts.contains(&(4, json!("space"), json!("good"))), "{verdicts:?}");
    assert!(space.mainstay(&["verify"]).err.contains("memory: shard 1: "), "{verified:?}");
    let (ran, out) = exported(&space, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("shard 1: ") && ran.err.contains("read from space instead"), "{ran:?}");
    (0..RANKS).for_each(|rank| assert_eq!(saved(&out, rank), field(rank, 4), "rank {rank}"));
    // A reader of a part finds it too.
    let mut reader = Reader::open(&space.path(), Some(4), "test").unwrap();
    let mut cell = [0; 8];
    for (rank, elsewhere) in [(0, 0), (1, 1), (2, 1)] {
        assert_eq!(reader.read(rank, "field", 5005 * 8, &mut cell).unwrap(), 8);
        assert_eq!(f64::from_le_bytes(cell), field(rank as usize, 4)[5005]);
        assert_eq!(reader.elsewhere().len(), elsewhere);
    }
    // If all places are damaged, the command reports an error and exports nothing.
    assert_eq!(damage(&space.path(), 1, 4), 1);
    let (ran, out) = exported(&space, &["--revision=4"]);
    assert!(ran.code == 1 && ran.err.contains("nothing was exported") && !out.join("shard/0001").exists(), "{ran:?}");
}

/// Ranks of two nodes have memory of their own: no directory alone has all shards.
#[test]
fn shards_of_several_directories_are_taken_together() {
    let space = space_of(3);
    let (first, label) = (memory(&space), "-01234567");
    let second = first.with_file_name(format!("{}{label}", first.file_name().unwrap().to_str().unwrap()));
    fs::create_dir(&second).unwrap();
    fs::set_permissions(&second, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut layouts: Vec<PathBuf> = fs::read_dir(&first).unwrap().map(|entry| entry.unwrap().path()).collect();
    layouts.retain(|path| path.to_str().unwrap().contains("-000002-"));
    assert_eq!(layouts.len(), 1);
    fs::rename(&layouts[0], second.join(layouts[0].file_name().unwrap())).unwrap();
    let document = space.mainstay(&["ls", "--json"]).json();
    assert_eq!(levels(&document)[0], (3, vec!["memory".to_owned()]), "{document}");
    assert_eq!(document["revisions"][0]["state"], "newest");
    let (ran, out) = exported(&space, &[]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    (0..RANKS).for_each(|rank| assert_eq!(saved(&out, rank), field(rank, 3), "rank {rank}"));
    assert_eq!(space.mainstay(&["verify"]).code, 0);
    // A part is no revision.
    fs::remove_dir_all(&second).unwrap();
    let document = space.mainstay(&["ls", "--json"]).json();
    assert_eq!(document["revisions"][0]["state"], "incomplete");
    assert_eq!(
        document["revisions"][0]["levels"],
        json!([{"level": "memory", "copy": 0, "shards_found": 2, "whole": false}])
    );
}

#[test]
fn what_is_held_and_released_is_so_on_all_levels() {
    let space = space_of(4);
    let would = space.mainstay(&["hold", "--dry-run"]);
    assert!(would.out.contains("would be held until it is released, on the levels memory; space"), "{would:?}");
    let held = space.mainstay(&["hold", "--json", "--note=kept"]);
    assert_eq!((held.code, &held.json()["levels"]), (0, &json!(["memory", "space"])), "{held:?}");
    for directory in [memory(&space), space.path()] {
        let document = mainstay(&["ls", "--json"], &directory).json();
        assert_eq!(document["holds"].as_array().unwrap().len(), 1);
    }
    let document = space.mainstay(&["ls", "--json"]).json();
    assert_eq!((document["holds"].as_array().unwrap().len(), &document["revisions"][0]["held"]), (1, &json!(true)));
    let released = space.mainstay(&["release", "--all"]);
    assert_eq!(released.out, "revision 4 is released (it was held: kept)\n", "{released:?}");
    for directory in [memory(&space), space.path()] {
        assert_eq!(mainstay(&["ls", "--json"], &directory).json()["holds"], json!([]));
    }
    // A revision that is only in memory is lost with it.
    let space = space_of(3);
    let held = space.mainstay(&["hold"]);
    assert!(held.code == 0 && held.err.contains("it is held only in memory"), "{held:?}");
}

/// The advice was stage = "pool". A job with a level in memory has that setting, and still makes no pool.
#[test]
fn of_what_was_copied_into_memory_it_is_told_that_there_is_no_pool() {
    // A level on a disk would have a pool before it.
    let memory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let refused = space_with(Space::new(2), memory.path().to_owned(), 4).mainstay(&["advise"]);
    refused.refused(1, &["through no pool", "without the setting memory"]);
    assert!(!refused.err.contains("stage ="), "{refused:?}");
}

/// The advice was to grow the space, which gives a level no room.
#[test]
fn a_level_without_room_for_a_hold_is_told_and_how_it_gets_room() {
    let mut space = Space::new(2);
    space.config.disk = LevelPlace::At(space.directory.path().join("disk"));
    let save = |steps: RangeInclusive<u64>| {
        space.run(|rank, session, state| {
            session.restore().unwrap();
            for step in steps.clone() {
                state.copy_from_slice(&field(rank, step));
                session.checkpoint().unwrap();
                session.wait().unwrap();
            }
        });
    };
    save(1..=4);
    let disk = fs::read_dir(space.directory.path().join("disk")).unwrap().next().unwrap().unwrap().path();
    // A revision is listed once, however often it is held.
    (0..2).for_each(|_| assert_eq!(space.mainstay(&["hold", "--revision=3"]).code, 0));
    for words in [&["hold"][..], &["hold", "--dry-run"]] {
        let refused = space.mainstay(words);
        assert_eq!((refused.code, refused.out.as_str()), (4, ""), "{refused:?}");
        let lines: Vec<&str> = refused.err.lines().collect();
        let of = |level| lines.iter().find(|line| line.contains(&format!("the level {level} "))).unwrap();
        assert_eq!(lines.len(), 2, "{refused:?}");
        for (level, directory, keep) in [("disk", &disk, "disk_keep"), ("space", &space.path(), "keep")] {
            let directory = directory.display();
            let grow =
                format!("`mainstay grow {directory} --like {directory} --keep K` with a K above the job's `{keep}`");
            assert!(of(level).contains(&grow) && of(level).contains("(held: 3), or"), "{grow}: {refused:?}");
        }
    }
    let grown = mainstay(&["grow", "--keep=4", &format!("--like={}", disk.display())], &disk);
    assert_eq!(grown.code, 0, "{grown:?}");
    save(5..=6);
    let held = space.mainstay(&["hold"]);
    assert!(held.code == 0 && held.out.ends_with(", on the level disk\n"), "{held:?}");
    assert!(held.err.starts_with("mainstay: the level space does not hold it: "), "{held:?}");
    save(7..=10);
    let document = space.mainstay(&["ls", "--json"]).json();
    let six = levels(&document).into_iter().find(|(number, _)| *number == 6);
    assert_eq!(six, Some((6, vec!["disk".to_owned()])), "{document}");
}

#[test]
fn what_nobody_wants_goes_on_all_levels() {
    let space = space_of(4);
    let before = levels(&space.mainstay(&["ls", "--json"]).json());
    assert!(before.len() > 1, "{before:?}");
    let would = space.mainstay(&["prune", "--keep-last=1", "--dry-run"]);
    assert!(would.out.starts_with("memory: ") && would.out.contains("\n\nspace: "), "{would:?}");
    assert_eq!(levels(&space.mainstay(&["ls", "--json"]).json()), before);
    let pruned = space.mainstay(&["prune", "--keep-last=1", "--json"]);
    let goes = |one: &&Value| one["goes"] == true;
    let gone: Vec<_> =
        pruned.json()["revisions"].as_array().unwrap().iter().filter(goes).map(|one| one["level"].clone()).collect();
    assert!(gone.contains(&json!("memory")) && gone.contains(&json!("space")), "{pruned:?}");
    let left = levels(&space.mainstay(&["ls", "--json"]).json());
    assert_eq!(left, [(4, vec!["memory".to_owned(), "space".to_owned()])]);
    assert_eq!(space.mainstay(&["verify"]).code, 0);
}

#[test]
fn a_view_points_to_what_stays() {
    let space = space_of(4);
    let file = |name: &str| space.directory.path().join(name);
    let view = |arguments: &[&str], name: &str| {
        Command::new(MAINSTAY)
            .arg("view")
            .args(arguments)
            .arg("--hdf5")
            .args([&file(name), &space.path()])
            .output()
            .map(Ran::of)
            .unwrap()
    };
    let shown = view(&[], "both.h5");
    assert!(shown.code == 0 && shown.err.is_empty(), "{shown:?}");
    let names = |name: &str| String::from_utf8_lossy(&fs::read(file(name)).unwrap()).into_owned();
    assert!(names("both.h5").contains(space.path().to_str().unwrap()) && !names("both.h5").contains("mainstay-level-"));
    space.run(|_, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    let shown = view(&["--no-hold"], "memory.h5");
    assert!(shown.code == 0 && shown.err.contains("is only in memory"), "{shown:?}");
    assert!(names("memory.h5").contains("mainstay-level-"));
    let copied = view(&["--copy"], "copied.h5");
    assert!(copied.code == 0 && copied.err.is_empty() && copied.out.contains("revision 5"), "{copied:?}");
}
