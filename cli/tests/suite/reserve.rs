//! `reserve`, `grow`, and `show --table`: the space that a job finds, and the output of the commands.

use crate::support::{CELLS, MAINSTAY, RANKS, Ran, Space, field, mainstay, region};
use mainstay_engine::{Session, group::Solo};
use serde_json::Value;
use std::{fs, process::Command};

const SHARD: &str = "320000";

fn reserve(space: &Space, arguments: &[&str]) -> Ran {
    // Settings in the tests' own environment must not count.
    let mut command = Command::new(MAINSTAY);
    command.current_dir(space.directory.path()).arg("reserve").args(arguments).arg(space.path());
    Ran::of(command.output().unwrap())
}

fn layouts(space: &Space) -> Vec<String> {
    let names = fs::read_dir(space.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("layout-")).collect();
    names.sort();
    names
}

fn files(document: &Value) -> Vec<String> {
    document["files"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap().to_owned()).collect()
}

fn saves_in_it(space: &Space, made: &[String]) {
    space.run(|rank, session, state| {
        for step in 1..=4 {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
        }
    });
    assert_eq!(layouts(space), made);
    assert_eq!(space.mainstay(&["verify"]).code, 0);
}

#[test]
fn sizes_are_given_in_four_ways() {
    assert_eq!(SHARD, (CELLS * 8).to_string());
    let list = [SHARD; RANKS].join(",");
    let like = Space::with(1, 2);
    let lines = like.directory.path().join("sizes");
    fs::write(&lines, format!("{SHARD}\n 312.5KiB, {SHARD}\n\n")).unwrap();
    let (like, lines) = (like.path().display().to_string(), lines.display().to_string());
    for sizes in [
        &["--ranks", "3", "--per-rank", SHARD][..],
        &["--ranks", "3", "--per-rank", "313 KiB", "--keep", "2"],
        &["--sizes", &list],
        &["--sizes-from", &lines],
        &["--like", &like],
    ] {
        let space = Space::new(1);
        let ran = reserve(&space, &[sizes, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{sizes:?}: {ran:?}");
        let document = ran.json();
        assert_eq!(document["files"][0]["ranks"].as_array().unwrap().len(), RANKS);
        saves_in_it(&space, &files(&document));
    }
}

#[test]
fn it_says_what_was_granted() {
    for (allocate, says) in [("sparse", "no room is reserved"), ("blocks", ""), ("zero", "")] {
        let space = Space::new(1);
        let ran = reserve(&space, &["--ranks", "3", "--per-rank", "1MiB", "--allocate", allocate]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(says) && ran.err.is_empty() == says.is_empty(), "{ran:?}");
        for word in ["granted", "used", "length", &layouts(&space)[0]] {
            assert!(ran.out.contains(word), "{word}: {ran:?}");
        }
        let document =
            reserve(&space, &["--ranks", "3", "--per-rank", "1MiB", "--allocate", allocate, "--json"]).json();
        let file = &document["files"][0];
        let [used, granted] = ["used_bytes", "allocated_bytes"].map(|field| file[field].as_u64().unwrap());
        assert_eq!(granted >= used, allocate != "sparse", "{document}");
        assert_eq!(document["layouts_removed"].as_array().unwrap().len(), 1, "the first one held nothing");
    }
}

#[test]
fn stripes_have_no_effect_here_and_that_is_said() {
    let space = Space::new(1);
    let ran = reserve(&space, &["--ranks", "3", "--per-rank", SHARD, "--stripe-count", "4", "--stripe-size", "1MiB"]);
    assert!(ran.code == 0 && ran.err.contains("the stripes have no effect"), "{ran:?}");
    let more = ["--ranks", "3", "--per-rank", SHARD, "--stripe-size", "1MiB", "--json"];
    let document = reserve(&space, &more).json();
    assert_eq!((&document["stripes_in_effect"], &document["stripe_bytes"]), (&Value::Bool(false), &0.into()));
}

/// The settings of a job count if the call does not give a value.
#[test]
fn settings_count() {
    let space = Space::new(2);
    fs::write(space.directory.path().join("mainstay.toml"), "keep = 2\nper = \"rank\"\n").unwrap();
    let made = files(&reserve(&space, &["--ranks", "3", "--per-rank", SHARD, "--json"]).json());
    assert_eq!(made.len(), RANKS);
    saves_in_it(&space, &made);
    let ran = reserve(
        &Space::new(1),
        &["--ranks", "4", "--per-rank", SHARD, "--per", "node", "--ranks-per-node", "2", "--json"],
    );
    assert_eq!(files(&ran.json()).len(), 2);
}

#[test]
fn wrong_usage_is_refused_in_words() {
    let space = Space::new(1);
    let list = [SHARD; RANKS].join(",");
    for (arguments, word) in [
        (&["--ranks", "3"][..], "--per-rank"),
        (&["--per-rank", SHARD], "--ranks"),
        (&["--ranks", "2", "--sizes", &list], "leave --ranks out"),
        (&["--ranks", "3", "--per-rank", SHARD, "--per", "node"], "ranks_per_node"),
        (&["--ranks", "3", "--per-rank", SHARD, "--keep", "0"], "keep"),
        (&["--ranks", "3", "--per-rank", SHARD, "--stripe-size", "1000"], "stripe_bytes"),
        (&["--ranks", "3", "--per-rank", SHARD, "--pieces", "1GiB"], "in pieces"),
        (&["--sizes-from", "/not/there"], "/not/there"),
    ] {
        let ran = reserve(&space, arguments);
        ran.refused(2, &[word]);
    }
    for arguments in [
        &["--ranks", "0", "--per-rank", SHARD][..],
        &["--ranks", "3", "--per-rank", "much"],
        &["--per-rank", SHARD, "--sizes", &list],
        &["--ranks", "3", "--per-rank", SHARD, "--allocate", "perhaps"],
    ] {
        reserve(&space, arguments).refused_usage();
    }
    assert!(!space.path().exists(), "nothing was made");
}

#[test]
fn a_space_that_is_used_grows_and_is_not_reserved() {
    let space = Space::with(1, 2);
    let old = layouts(&space);
    reserve(&space, &["--ranks", "3", "--per-rank", SHARD]).refused(2, &["mainstay grow"]);
    space.mainstay(&["grow"]).refused(2, &["--ranks", "--per-rank"]);
    let ran = space.mainstay(&["grow", "--per-rank", "1MiB", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let made = files(&ran.json());
    assert_eq!(layouts(&space), [&old[..], &made].concat());
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, 2);
        assert!(state == field(rank, 2));
        if rank == 0 {
            space.mainstay(&["grow", "--per-rank", "1MiB"]).refused(4, &["in use"]);
        }
        for step in 3..=4 {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
        }
        session.wait().unwrap();
        session.checkpoint().unwrap();
    });
    assert_eq!(layouts(&space), made);
    mainstay(&["grow", "--ranks", "4"], space.directory.path()).refused(3, &["no layout"]);
    // With more ranks, each gets as much room as the largest has.
    let ran = space.mainstay(&["grow", "--ranks", "5", "--json"]);
    assert_eq!(ran.json()["files"][0]["ranks"].as_array().unwrap().len(), 5);
}

/// Beside a job that had not saved yet, the command reported wrong usage: the portions were elsewhere.
#[test]
fn without_a_layout_there_is_nothing_to_grow() {
    let space = Space::new(1);
    let ways =
        [&["grow", "--per-rank", "1MiB"][..], &["grow", "--per-rank", "1MiB", "--dry-run"], &["grow", "--ranks", "3"]];
    space.run(|rank, _, _| {
        if rank == 0 {
            ways.iter().for_each(|words| space.mainstay(words).refused(4, &["in use"]));
        }
    });
    ways.iter().for_each(|words| space.mainstay(words).refused(3, &["no layout"]));
}

#[test]
fn what_grows_and_has_less_room_is_told() {
    let space = Space::with(1, 2);
    let path = space.path();
    let [per_rank, like, path] = ["--per-rank", "--like", path.to_str().unwrap()];
    for (how, value, is_small) in
        [(per_rank, "100KiB", true), (per_rank, SHARD, false), (per_rank, "1MiB", false), (like, path, false)]
    {
        let ran = space.mainstay(&["grow", how, value]);
        assert_eq!((ran.code, ran.err.contains("less room than 3 shards")), (0, is_small), "{value}: {ran:?}");
    }
}

#[test]
fn the_table_is_that_of_the_paper() {
    let space = Space::new(1);
    reserve(&space, &["--ranks", "3", "--per-rank", SHARD]);
    let table = |space: &Space| space.mainstay(&["show", "--json"]).json()["table"].as_array().unwrap().clone();
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row}"));
    let before = table(&space);
    assert!(before.iter().all(|row| row["revision"].is_null() && row["checksum"].is_null()));

    space.run(|rank, session, state| {
        for step in 1..=4 {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
            if rank == 0 {
                // Reads the table after each checkpoint. The next shard goes to another offset than this one.
                let rows = table(&space);
                assert_eq!(number(&rows[0], "revision"), step);
            }
        }
    });
    let rows = table(&space);
    assert_eq!(rows.len(), RANKS);
    let document = space.mainstay(&["show", "--json"]).json();
    for (rank, row) in rows.iter().enumerate() {
        assert_eq!(
            (number(row, "rank"), number(row, "revision"), number(row, "bytes")),
            (rank as u64, 4, CELLS as u64 * 8)
        );
        let portion = &document["layouts"][0]["portions"][rank];
        let [start, end, next] = ["offset_start", "offset_end", "offset_next"].map(|field| number(row, field));
        assert_eq!((start, end - start), (number(portion, "at"), number(portion, "bytes")));
        assert!((start..end).contains(&next));
        // The newest revision has no data at the next offset.
        let extents = document["revision"]["shard_list"][rank]["items"][0]["extents"].as_array().unwrap();
        let is_free = |extent: &Value| {
            let at = start + number(extent, "at");
            next + CELLS as u64 * 8 <= at || at + number(extent, "bytes") <= next
        };
        assert!(extents.iter().all(is_free), "{row}, {extents:?}");
        assert_eq!(row["checksum"].as_str().unwrap().len(), 32);
    }
    let text = space.mainstay(&["show", "--table"]);
    for word in ["offset_start", "offset_end", "offset_next", "checksum", rows[2]["checksum"].as_str().unwrap()] {
        assert!(text.out.contains(word), "{word} is not in {text:?}");
    }
    // The next checkpoint is written at the offset in the table.
    let next: Vec<u64> = rows.iter().map(|row| number(row, "offset_next")).collect();
    space.run(|rank, session, state| {
        session.restore().unwrap();
        state.copy_from_slice(&field(rank, 5));
        session.checkpoint().unwrap();
    });
    let document = space.mainstay(&["show", "--json"]).json();
    for (rank, row) in document["table"].as_array().unwrap().iter().enumerate() {
        let extent = &document["revision"]["shard_list"][rank]["items"][0]["extents"][0];
        assert_eq!(number(row, "offset_start") + number(extent, "at"), next[rank]);
    }
}

#[test]
fn a_job_of_another_size_makes_its_own() {
    let space = Space::new(1);
    let reserved = files(&reserve(&space, &["--ranks", "3", "--per-rank", SHARD, "--json"]).json());
    let mut session = Session::open(Box::new(Solo), &space.path(), space.config.clone()).unwrap();
    let mut state = vec![0.0; CELLS];
    session.protect(region(&mut state)).unwrap();
    for _ in 0..3 {
        session.checkpoint().unwrap();
    }
    session.close().unwrap();
    assert!(layouts(&space).len() == 1 && layouts(&space) != reserved);
}
