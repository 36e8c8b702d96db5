//! `ls`, `show` and `verify` on spaces that the engine wrote.

use crate::support::{CELLS, MAINSTAY, RANKS, Ran, Space, field, mainstay};
use std::{
    fs::{self, File},
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
};

const BYTES: u64 = 8 * CELLS as u64;

#[test]
fn ls_lists_revisions_newest_first() {
    let space = Space::with(2, 5);
    let ran = space.mainstay(&["ls", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let document = ran.json();
    assert_eq!(document["space"], space.path().to_str().unwrap());
    assert_eq!((&document["in_use"], &document["clean"]), (&false.into(), &true.into()));
    let revisions = document["revisions"].as_array().unwrap();
    let numbers: Vec<u64> = revisions.iter().map(|r| r["revision"].as_u64().unwrap()).collect();
    assert_eq!(numbers[..2], [5, 4]);
    let newest = &revisions[0];
    assert_eq!((&newest["state"], &revisions[1]["state"]), (&"newest".into(), &"complete".into()));
    assert_eq!((&newest["shards"], &newest["shards_found"]), (&RANKS.into(), &RANKS.into()));
    assert_eq!(newest["bytes"], RANKS as u64 * BYTES);
    assert_eq!(newest["lineage"], 1);
    let perceived = newest["perceived_ns"].as_u64().unwrap();
    assert!(perceived > 0 && newest["durable_ns"].as_u64().unwrap() >= perceived, "{newest}");

    let table = space.mainstay(&["ls"]);
    let lines: Vec<&str> = table.out.lines().collect();
    assert_eq!((table.code, lines.len()), (0, 1 + numbers.len()));
    assert!(lines[0].contains("revision") && lines[0].contains("durable"), "{}", table.out);
    assert!(lines[1].contains("newest") && lines[1].contains("938 KiB"), "{}", table.out);
}

/// The command waited forever for a writer of the pipe.
#[test]
fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    let space = Space::with(2, 5);
    let layout = space.layout();
    fs::remove_file(&layout).unwrap();
    assert!(Command::new("mkfifo").arg(&layout).status().unwrap().success());
    for command in [&["ls"][..], &["show"], &["verify"], &["prune", "--keep-last", "1"]] {
        space.mainstay(command).refused(1, &["is not a regular file"]);
    }
}

#[test]
fn show_tells_where_each_byte_lies() {
    let space = Space::with(2, 5);
    let document = space.mainstay(&["show", "--json", "--revision", "4"]).json();
    let (layout, revision) = (&document["layouts"][0], &document["revision"]);
    assert_eq!((&layout["ranks"], &revision["revision"]), (&RANKS.into(), &4.into()));
    assert_eq!(layout["bytes"], fs::metadata(space.layout()).unwrap().len());
    let file = File::open(space.layout()).unwrap();
    for rank in 0..RANKS {
        let shard = &revision["shard_list"][rank];
        let item = &shard["items"][0];
        assert_eq!((&item["name"], &item["kind"]), (&"field".into(), &"region".into()));
        assert_eq!((&item["element_type"], &item["shape"]), (&"f64".into(), &vec![4, CELLS / 4].into()));
        let portion = layout["portions"][rank]["at"].as_u64().unwrap();
        let mut bytes = Vec::new();
        for extent in item["extents"].as_array().unwrap() {
            let mut part = vec![0; extent["bytes"].as_u64().unwrap() as usize];
            file.read_exact_at(&mut part, portion + extent["at"].as_u64().unwrap()).unwrap();
            bytes.extend(part);
        }
        let expected: Vec<u8> = field(rank, 4).iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(bytes == expected, "other bytes than rank {rank} saved");
        let phases = &shard["phases"];
        let sum = ["communication_ns", "buffer_wait_ns", "copy_ns", "other_ns", "resume_ns"]
            .map(|name| phases[name].as_u64().unwrap());
        assert_eq!(sum.iter().sum::<u64>(), phases["perceived_ns"].as_u64().unwrap());
        assert!(phases["written_bytes"].as_u64().unwrap() >= BYTES && phases["chunks"].as_u64().unwrap() > 1);
    }
    let page = space.mainstay(&["show", "--phases"]).out;
    for word in ["closed in order", "revision 5 of lineage 1", "field", "4 × 10000", "312 KiB", "buffer wait", "t3−t1"]
    {
        assert!(page.contains(word), "no {word:?} in\n{page}");
    }
}

#[test]
fn verify_names_the_damaged_shard_and_reads_the_rest() {
    let space = Space::with(2, 5);
    let ran = space.mainstay(&["verify"]);
    assert_eq!((ran.code, ran.out.matches("good").count()), (0, 3), "{ran:?}");

    flip_byte_of(&space, 5, 1);
    let ran = space.mainstay(&["verify", "--json"]);
    let document = ran.json();
    assert_eq!((ran.code, &document["good"]), (1, &false.into()));
    let verdict = |index: usize| document["revisions"][index]["verdict"].as_str().unwrap();
    assert_eq!((verdict(0), verdict(1)), ("damaged", "good"));
    let damage = document["revisions"][0]["damage"][0].as_str().unwrap();
    assert!(damage.starts_with("shard 1: ") && damage.contains("checksum"), "{damage}");

    assert_eq!(space.mainstay(&["verify", "--revision", "4"]).code, 0);
    space.mainstay(&["verify", "--revision", "5"]).refused(1, &["shard 1", "block"]);
    assert_eq!(space.mainstay(&["ls"]).code, 0, "only verify reads blocks");
}

/// Flips one byte in the middle of the shard of `rank`.
fn flip_byte_of(space: &Space, revision: u64, rank: usize) {
    let document = space.mainstay(&["show", "--json", "--revision", &revision.to_string()]).json();
    let extent = &document["revision"]["shard_list"][rank]["items"][0]["extents"][0];
    let portion = document["layouts"][0]["portions"][rank]["at"].as_u64().unwrap();
    flip(&space.layout(), portion + extent["at"].as_u64().unwrap() + 100_000);
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_revision_that_is_not_there_is_told_with_those_that_are() {
    let space = Space::with(2, 5);
    for command in ["show", "verify"] {
        space.mainstay(&[command, "--revision", "77"]).refused(1, &["revision 77", "5, 4, 3"]);
    }
}

#[test]
fn without_its_slots_a_shard_is_missing() {
    let space = Space::with(2, 5);
    let portion = space.mainstay(&["show", "--json"]).json()["layouts"][0]["portions"][2]["at"].as_u64().unwrap();
    for slot in [0, 64 << 10] {
        flip(&space.layout(), portion + slot + 20);
    }
    let ran = space.mainstay(&["ls", "--json"]);
    let document = ran.json();
    assert_eq!(ran.code, 1);
    assert_eq!(document["revisions"][0]["state"], "incomplete");
    assert_eq!(document["revisions"][0]["shards_found"], RANKS - 1);
    assert!(document["damage"][0].as_str().unwrap().contains("rank 2"), "{document}");
    assert!(space.mainstay(&["ls"]).out.contains("2 of 3"));
    space.mainstay(&["verify"]).refused(1, &["no complete revision"]);
    space.mainstay(&["verify", "--revision", "5"]).refused(1, &["incomplete", "2 of 3"]);
}

#[test]
fn a_space_that_was_cut_short_still_shows_what_is_left() {
    let space = Space::with(1, 3);
    let file = File::options().write(true).open(space.layout()).unwrap();
    let portion = space.mainstay(&["show", "--json"]).json()["layouts"][0]["portions"][2]["at"].as_u64().unwrap();
    file.set_len(portion).unwrap();
    let ran = space.mainstay(&["ls", "--json"]);
    assert_eq!((ran.code, &ran.json()["revisions"][0]["shards_found"]), (1, &2.into()));
    file.set_len(100).unwrap();
    for command in ["ls", "show"] {
        space.mainstay(&[command]).refused(1, &["cut short in its header"]);
    }
    space.mainstay(&["verify"]).refused(1, &["cut short", "no complete revision"]);
}

#[test]
fn what_is_no_space_is_left_alone() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    for command in ["ls", "show", "verify", "advise"] {
        mainstay(&[command], &directory.path().join("nowhere")).refused(3, &["nowhere", "no such directory"]);
        mainstay(&[command], &file).refused(3, &["not a directory"]);
        mainstay(&[command], directory.path()).refused(3, &["no layout"]);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "looking made a file");
}

/// With 64 ranks the command printed a line for each item of each rank.
#[test]
fn items_of_many_ranks_are_summed_up() {
    let space = Space::new(1);
    space.run_on(9, |rank, session, state| {
        if rank == 4 {
            session.unprotect("field").unwrap();
            session.protect(crate::support::region(&mut state[..CELLS / 2])).unwrap();
        }
        session.checkpoint().unwrap();
    });
    let page = space.mainstay(&["show"]).out;
    let line = page.lines().find(|line| line.contains("field")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["field", "9", "of", "9", "region", "f64", "various", "2.6", "MiB"], "{page}");
    assert!(page.contains("the sums of 9 shards; give --shards to list each"), "{page}");
    let each = space.mainstay(&["show", "--shards"]).out;
    assert_eq!(each.lines().filter(|line| line.contains("field")).count(), 9, "{each}");
    // One shard of one rank gets no plural.
    let alone = Space::new(1);
    alone.run_on(1, |_, session, _| {
        session.checkpoint().unwrap();
    });
    let page = alone.mainstay(&["show"]).out;
    assert!(page.contains("1 portion of 1 rank,") && page.contains("1 of 1 shard,"), "{page}");
}

#[test]
fn an_item_that_is_the_same_on_all_ranks_is_shown_so() {
    // Two ranks are listed, nine are summed up.
    for ranks in [2, 9] {
        let space = Space::new(1);
        space.run_on(ranks, |_, session, _| {
            session.same_on_all_ranks("field").unwrap();
            session.checkpoint().unwrap();
        });
        let page = space.mainstay(&["show"]).out;
        assert!(page.contains("10000, same on all ranks "), "{page}");
        let item = &space.mainstay(&["show", "--json"]).json()["revision"]["shard_list"][0]["items"][0];
        assert_eq!(item["same_on_all_ranks"], true, "{item}");
    }
}

/// `ls` of the directory above reported "no layout", and of a broken link "no such directory".
#[test]
fn a_directory_that_is_no_space_says_what_is_below_and_a_link_to_nothing_what_it_is() {
    let mut space = Space::new(1);
    space.name = "runs/a/space".into();
    space.run(|_, session, _| {
        session.checkpoint().unwrap();
    });
    let above = space.directory.path();
    for command in ["ls", "show", "status"] {
        mainstay(&[command], above).refused(3, &["no layout in it, but 1 space below it: runs/a/space; give"]);
    }
    let at = |name: &str| above.join(name);
    fs::create_dir(at("empty")).unwrap();
    mainstay(&["ls"], &at("empty")).refused(3, &["it is empty"]);
    std::os::unix::fs::symlink("gone", at("link")).unwrap();
    mainstay(&["ls"], &at("link")).refused(3, &["it is a link to gone, which does not exist"]);
    mainstay(&["ls"], &at("link/space")).refused(3, &["link is a link to gone, which does not exist"]);
}

#[test]
fn other_files_and_newer_versions_are_told_apart() {
    let space = Space::with(1, 1);
    let layout = File::options().write(true).open(space.layout()).unwrap();
    layout.write_all_at(&99_u32.to_le_bytes(), 8).unwrap();
    space.mainstay(&["ls"]).refused(3, &["version 99", "newer Mainstay"]);
    layout.write_all_at(b"TARBALL!", 0).unwrap();
    space.mainstay(&["verify"]).refused(3, &["not a Mainstay space"]);
}

#[test]
fn wrong_usage_has_a_code_of_its_own() {
    for arguments in [
        &["ls"][..],
        &["lsx", "/"],
        &["ls", "--revision", "1", "/"],
        &["run", "mpiexec"],
        &["verify", "--revision", "-1", "/"],
    ] {
        let code = Command::new(MAINSTAY).args(arguments).output().unwrap().status.code();
        assert_eq!(code, Some(2), "{arguments:?}");
    }
}

/// Looking changes nothing, whether or not the user has the right to write.
#[test]
fn looking_needs_no_right_to_write_and_changes_nothing() {
    let space = Space::with(2, 3);
    let before = contents(&space);
    for command in ["ls", "show", "verify"] {
        assert_eq!(space.mainstay(&[command]).code, 0);
    }
    assert!(contents(&space) == before);

    // The command, and all folders on the way to the space, in a place where any user may read.
    let binary = space.directory.path().join("mainstay");
    copied(&binary);
    let files = fs::read_dir(space.path()).unwrap().map(|entry| entry.unwrap().path());
    for file in files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
    }
    for directory in [space.path(), space.directory.path().to_owned()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let as_other = |command: &str| {
        let mut run = Command::new(&binary);
        run.arg(command).arg(space.path());
        drop_root(&mut run);
        run.output().map(Ran::of).unwrap()
    };
    let ran = ["ls", "show", "verify"].map(as_other);
    fs::set_permissions(space.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(space.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for ran in ran {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    }
    assert!(contents(&space) == before);
}

/// Copies the command to a place where another user may run it. A process of its own makes the copy. Otherwise a child
/// that another test starts meanwhile would have the copy open for writing, and the system runs no such file.
fn copied(to: &Path) {
    assert!(Command::new("cp").arg(MAINSTAY).arg(to).status().unwrap().success());
}

/// Root may read and write anything, so the command runs as another user.
fn drop_root(run: &mut Command) {
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        run.uid(65_534).gid(65_534);
    }
}

fn contents(space: &Space) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(space.path()).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> =
        entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn a_directory_without_the_right_to_read_is_the_systems_refusal() {
    let space = Space::with(1, 1);
    let binary = space.directory.path().join("mainstay");
    copied(&binary);
    fs::set_permissions(space.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(space.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let mut run = Command::new(&binary);
    run.arg("ls").arg(space.path());
    drop_root(&mut run);
    let ran = run.output().map(Ran::of).unwrap();
    fs::set_permissions(space.path(), fs::Permissions::from_mode(0o755)).unwrap();
    ran.refused(4, &["listing", "denied"]);
}

/// Rust ignores SIGPIPE, and a `println!` into a closed pipe panics.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let space = Space::with(2, 3);
    for arguments in [&["ls"][..], &["ls", "--json"], &["show"], &["verify"], &["--help"]] {
        let mut run = Command::new(MAINSTAY);
        run.args(arguments);
        if arguments != ["--help"] {
            run.arg(space.path());
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = run.stdout(writer).stderr(Stdio::piped()).output().map(Ran::of).unwrap();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let space = Space::with(1, 1);
    let ran = Command::new(MAINSTAY).arg("ls").arg(space.path()).stdout(full).stderr(Stdio::piped()).output();
    ran.map(Ran::of).unwrap().refused(4, &["writing the output failed"]);
}

#[test]
fn a_space_that_a_job_has_open_is_in_use() {
    let space = Space::new(1);
    space.run(|rank, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
        if rank == 0 {
            let document = space.mainstay(&["ls", "--json"]).json();
            assert_eq!((&document["in_use"], &document["clean"]), (&true.into(), &false.into()));
            assert!(space.mainstay(&["show"]).out.contains("a job has it open"));
        }
    });
}

/// A running job removes and overwrites revisions while the command reads them. Without a second look at the slots,
/// `verify` reported damage in the first rounds.
#[test]
fn beside_a_running_job_nothing_is_called_damaged() {
    let space = Space::with(1, 1);
    space.beside_a_job(|| {
        let (mut good, mut let_go) = (0, 0);
        for round in 0..40 {
            for command in ["ls", "show"] {
                let ran = space.mainstay(&[command, "--json"]);
                assert_eq!((ran.code, ran.err.as_str()), (0, ""), "round {round} of {command}");
            }
            let ran = space.mainstay(&["verify", "--json"]);
            let document = ran.json();
            for revision in document["revisions"].as_array().unwrap() {
                match revision["verdict"].as_str().unwrap() {
                    "good" => good += 1,
                    "let_go" => let_go += 1,
                    other => panic!("round {round}: {other}: {document}"),
                }
            }
        }
        println!("beside a running job: {good} revisions good, {let_go} let go while they were read");
    });
}
