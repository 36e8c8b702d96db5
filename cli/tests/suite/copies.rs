//! The commands on a space with ranks on two nodes, each with copies of the other's shards in its memory: if data is
//! damaged or gone in one place, the command reads it from another, and changes apply to all places.

use super::levels::damage;
use crate::support::{MAINSTAY, RANKS, Ran, Space, field, mainstay};
use mainstay_engine::{MemoryAfter, unix_ns};
use serde_json::{Value, json};
use std::{
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::Command,
};

/// Ranks 0 and 2 are on the first node, rank 1 is on the second. The memory has revisions 2 and 3, the space has
/// revision 2.
fn two_nodes() -> Space {
    saved(&["n0", "n1"], 3)
}

/// All ranks are on one node, so each directory has all shards. The memory has the last two of `revisions` revisions,
/// the space every second one.
fn one_node(revisions: u64) -> Space {
    saved(&["n0"], revisions)
}

fn saved(nodes: &[&str], revisions: u64) -> Space {
    let mut space = Space::new(2);
    space.nodes = nodes.iter().map(|node| space.directory.path().join(node)).collect();
    (space.config.memory_keep, space.config.memory_copies, space.config.pfs_every) = (2, 2, 2);
    space.config.memory_after = MemoryAfter::Kept;
    save(&space, 1..=revisions);
    space
}

fn save(space: &Space, steps: RangeInclusive<u64>) {
    space.run(|rank, session, state| {
        session.restore().unwrap();
        for step in steps.clone() {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
}

/// The directory that the ranks of a node save to, and the directory of the copies that the node holds.
fn places(space: &Space, node: usize) -> [PathBuf; 2] {
    let mut found: Vec<PathBuf> =
        fs::read_dir(&space.nodes[node]).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(found.len() == 2 && found[1].to_str().unwrap().ends_with("-copy1"), "{found:?}");
    found.try_into().unwrap()
}

/// All directories of the level in memory and its copies.
fn all_places(space: &Space) -> Vec<PathBuf> {
    (0..space.nodes.len()).flat_map(|node| places(space, node)).collect()
}

fn listed(space: &Space) -> Value {
    space.mainstay(&["ls", "--json"]).json()
}

fn run(words: &[&str], paths: &[&Path]) -> Ran {
    Command::new(MAINSTAY).args(words).args(paths).output().map(Ran::of).unwrap()
}

#[track_caller]
fn is_exported(space: &Space, revision: u64) -> Ran {
    let out = space.directory.path().join("out");
    let _ = fs::remove_dir_all(&out);
    let ran = run(&["export", "--format=raw", &format!("--revision={revision}")], &[&space.path(), &out]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for rank in 0..RANKS {
        let bytes = fs::read(out.join(format!("shard/000{rank}/field.raw"))).unwrap();
        let saved: Vec<f64> = bytes.chunks(8).map(|cell| f64::from_le_bytes(cell.try_into().unwrap())).collect();
        assert!(saved == field(rank, revision), "rank {rank}: {ran:?}");
    }
    ran
}

fn verdicts(space: &Space) -> Vec<(u64, Value, Value, Value)> {
    let document = space.mainstay(&["verify", "--json"]).json();
    let of = |one: &Value| {
        (one["revision"].as_u64().unwrap(), one["level"].clone(), one["copy"].clone(), one["verdict"].clone())
    };
    document["revisions"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_shard_of_which_one_copy_is_damaged_is_read_from_the_other_and_told() {
    let space = two_nodes();
    let document = listed(&space);
    let here = |copy: u64| json!({"level": "memory", "copy": copy, "shards_found": RANKS, "whole": true});
    assert_eq!(document["revisions"][0]["levels"], json!([here(0), here(1)]), "{document}");
    assert_eq!(is_exported(&space, 3).err, "");
    assert_eq!(space.mainstay(&["verify"]).code, 0);

    // The shard in the directory that rank 1 saved to.
    assert_eq!(damage(&places(&space, 1)[0], 1, 3), 1);
    let told = verdicts(&space);
    assert!(told.contains(&(3, json!("memory"), json!(0), json!("damaged"))), "{told:?}");
    assert!(told.contains(&(3, json!("memory"), json!(1), json!("good"))), "{told:?}");
    let verified = space.mainstay(&["verify"]);
    assert!(verified.code == 1 && verified.err.contains("memory: shard 1: "), "{verified:?}");
    let ran = is_exported(&space, 3);
    assert!(ran.err.contains("shard 1: ") && ran.err.contains("read from memory, copy 1 instead"), "{ran:?}");
    let shown = space.mainstay(&["show"]);
    assert!(shown.code == 0 && shown.out.contains("\nrevision 3 of lineage 1"), "{shown:?}");
    assert!(shown.out.contains("\non the levels memory; memory, copy 1\n"), "{shown:?}");

    // The copy of another shard.
    assert_eq!(damage(&places(&space, 1)[1], 0, 3), 1);
    let verified = space.mainstay(&["verify"]);
    assert!(verified.code == 1 && verified.err.contains("memory, copy 1: shard 0: "), "{verified:?}");
    is_exported(&space, 3);

    // Nothing else is left of the first node.
    assert_eq!(damage(&places(&space, 0)[1], 1, 3), 1);
    let out = space.directory.path().join("none");
    let ran = run(&["export", "--revision=3"], &[&space.path(), &out]);
    assert!(ran.code == 1 && ran.err.contains("nothing was exported"), "{ran:?}");
    is_exported(&space, 2);
}

#[test]
fn of_the_memory_of_one_node_alone_all_can_be_read() {
    for lost in 0..2 {
        let space = two_nodes();
        fs::remove_dir_all(&space.nodes[lost]).unwrap();
        let document = listed(&space);
        let (own, held) = [(1, 2), (2, 1)][lost];
        let part =
            |copy: u64, shards: u64| json!({"level": "memory", "copy": copy, "shards_found": shards, "whole": false});
        assert_eq!(document["revisions"][0]["levels"], json!([part(0, own), part(1, held)]), "{document}");
        is_exported(&space, 3);
        space.run(|rank, session, state| {
            assert_eq!(session.restore().unwrap().unwrap().revision, 3);
            assert!(state == field(rank, 3), "rank {rank} without node {lost}");
        });
    }
}

/// The level has room for a revision that feeds other levels, and so for a held revision. Its copies have no such room.
#[test]
fn where_copies_have_no_room_for_what_is_held_that_is_told() {
    let space = one_node(3);
    let held = space.mainstay(&["hold", "--json"]);
    assert_eq!((held.code, &held.json()["levels"]), (0, &json!(["memory"])), "{held:?}");
    assert!(held.err.contains("the level memory, copy 1 does not hold it: "), "{held:?}");
    // The level is removed with its job, whatever its size.
    assert!(held.err.contains("mainstay export") && !held.err.contains("mainstay grow"), "{held:?}");
    let holds = |directory: &Path| mainstay(&["ls", "--json"], directory).json()["holds"].as_array().unwrap().len();
    assert_eq!(places(&space, 0).map(|place| holds(&place)), [1, 0]);
    // The job keeps two revisions. A held revision stays in addition to them.
    save(&space, 4..=6);
    is_exported(&space, 3);
    let released = space.mainstay(&["release", "--all"]);
    assert_eq!(released.code, 0, "{released:?}");
    assert_eq!(places(&space, 0).map(|place| holds(&place)), [0, 0]);
}

/// Without a job, a dry run reported that there was no room for the hold.
#[test]
fn what_lies_in_parts_is_not_held_and_told_with_what_to_do() {
    let space = two_nodes();
    for words in [&["hold", "--revision", "3"][..], &["hold", "--dry-run"]] {
        space.mainstay(words).refused(
            4,
            &[
                "revision 3 is in several directories",
                "memory (2 shards); memory (1 shard)",
                "mainstay export",
                "mainstay checkpoint",
            ],
        );
    }
    for place in all_places(&space) {
        assert!(mainstay(&["ls", "--json"], &place).json()["holds"].as_array().unwrap().is_empty());
    }
    // If the space has the whole revision, the hold is placed there.
    let held = space.mainstay(&["hold", "--revision", "2", "--json"]);
    assert_eq!((held.code, &held.json()["levels"]), (0, &json!(["space"])), "{held:?}");
}

fn revisions_in(directory: &Path) -> Vec<u64> {
    let document = mainstay(&["ls", "--json"], directory).json();
    document["revisions"].as_array().unwrap().iter().map(|one| one["revision"].as_u64().unwrap()).collect()
}

#[test]
fn what_nobody_wants_goes_on_the_copies_too() {
    let space = one_node(4);
    assert!(all_places(&space).iter().all(|place| revisions_in(place).len() > 1));
    let pruned = space.mainstay(&["prune", "--keep-last=1"]);
    assert!(pruned.code == 0 && pruned.out.contains("\n\nmemory, copy 1: "), "{pruned:?}");
    assert_eq!(revisions_in(&space.path()), [4]);
    assert_eq!(all_places(&space).iter().map(|place| revisions_in(place)).collect::<Vec<_>>(), [[4], [4]]);
    is_exported(&space, 4);
    // If a directory has only a part of the shards, nothing is removed.
    let space = two_nodes();
    let there = || all_places(&space).iter().map(|place| revisions_in(place)).collect::<Vec<_>>();
    let before = there();
    assert_eq!(space.mainstay(&["prune", "--keep-last=1"]).code, 0);
    assert_eq!(there(), before);
}

#[test]
fn newer_revisions_go_on_the_copies_too() {
    let space = two_nodes();
    let ran = space.mainstay(&["rollback", "--revision", "2"]);
    assert!(ran.code == 0 && ran.out.contains("memory, copy 1"), "{ran:?}");
    assert_eq!(revisions_in(&space.path())[0], 2);
    for place in all_places(&space) {
        assert_eq!(revisions_in(&place)[0], 2, "{}", place.display());
    }
    // A removed revision does not come back from a copy either.
    fs::remove_dir_all(&space.nodes[1]).unwrap();
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, 2);
        assert!(state == field(rank, 2));
    });
}

#[test]
fn a_view_points_to_a_copy_where_nothing_else_is_left() {
    let view = |space: &Space| {
        let file = space.directory.path().join("view.h5");
        let shown = run(&["view", "--no-hold", "--revision=3", "--hdf5"], &[&file, &space.path()]);
        (shown, fs::read(&file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
    };
    let space = one_node(3);
    fs::remove_dir_all(&places(&space, 0)[0]).unwrap();
    let (shown, text) = view(&space);
    assert!(shown.code == 0 && shown.err.contains("is only in memory"), "{shown:?}");
    assert!(text.contains("mainstay-level-") && text.contains("-copy1"), "{shown:?}");
    // An HDF5 file points to one directory.
    let (shown, _) = view(&two_nodes());
    shown.refused(1, &["no directory in sight has all of its shards", "mainstay export"]);
}

#[test]
fn status_tells_how_old_the_newest_is_and_who_holds_what() {
    let before = unix_ns();
    let space = two_nodes();
    let document = space.mainstay(&["status", "--json"]).json();
    let since = before..=unix_ns();
    for (index, revision) in [(0, 3), (1, 2)] {
        let level = &document["levels"][index];
        let (newest, age) = (&level["complete"][0], level["age_ns"].as_u64().unwrap());
        let saved = newest["t1_unix_ns"].as_u64().unwrap();
        assert_eq!(newest["revision"], revision, "{document}");
        assert!(since.contains(&saved) && age > 0 && since.contains(&(saved + age)), "{age} of {saved} in {since:?}");
    }
    let holders = document["levels"][0]["copies"][0]["holders"].as_array().unwrap();
    let node = |rank: usize| rank % 2;
    assert_eq!(holders.len(), RANKS);
    for (rank, holder) in holders.iter().enumerate() {
        assert_ne!(node(rank), node(holder.as_u64().unwrap() as usize), "{document}");
    }
    let page = space.mainstay(&["status"]).out;
    let words = |of: &str| -> Vec<String> {
        // The lines of the table are indented.
        let is_row = |line: &&str| line.starts_with(' ') && line.trim_start().starts_with(of);
        let line = page.lines().find(is_row).unwrap_or_else(|| panic!("no {of}: {page}"));
        line.trim_start()[of.len()..].split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(words("level")[..3], ["newest", "age", "complete"]);
    for (row, revision) in [("memory ", "3"), ("copy 1 ", "3"), ("space ", "2")] {
        let words = words(row);
        assert!(words[0] == revision && words[1].parse::<f64>().is_ok() && words[2] == "s", "{row}: {page}");
    }
    let name = document["job"]["nodes"][0]["name"].as_str().unwrap();
    // Both nodes have the name of this machine.
    let line = format!("\nmemory, copy 1: {name} holds ranks 0 to 2 of {name}\n");
    assert!(page.contains(&line), "no {line:?} in {page}");
    // A place without data has no age.
    space.nodes.iter().for_each(|node| fs::remove_dir_all(node).unwrap());
    let document = space.mainstay(&["status", "--json"]).json();
    assert_eq!((&document["levels"][0]["age_ns"], &document["levels"][0]["complete"]), (&Value::Null, &json!([])));
}
