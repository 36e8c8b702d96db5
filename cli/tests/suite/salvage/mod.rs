//! `salvage`, on the memory of jobs that were killed between t2 and t3.

mod first;
mod killed;

use crate::support::{MAINSTAY, RANKS, Ran, Space, field, mainstay};
use killed::{
    PERS, complete, config, copy, files, holds_what_was_staged, holds_what_was_staged_as, kill_job, killed, killed_per,
    killed_when, memory, pool_in,
};
use mainstay_engine::space::Per;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Runs the command with that directory in the environment.
fn beside(pools: &TempDir, arguments: &[&str]) -> Ran {
    let ran = Command::new(MAINSTAY).args(arguments).env("MAINSTAY_POOL_DIRECTORY", pools.path()).output();
    ran.map(Ran::of).unwrap()
}

fn salvage(pools: &TempDir, more: &[&str]) -> Ran {
    let names_a_space = more.first().is_some_and(|word| word.starts_with('/'));
    let of: &[&str] = if names_a_space { &[] } else { &["--all"] };
    beside(pools, &[&["salvage"], of, more].concat())
}

#[track_caller]
fn says(ran: &Ran, code: i32, text: &str) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, text, ""));
}

/// Checks that each shard has a line that ends in `what`, followed by `end`.
#[track_caller]
fn tells(ran: &Ran, code: i32, space: &Space, what: &str, end: &str) {
    assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    let is_of = |line: &str| line.contains(&*space.path().to_string_lossy()) && line.trim_end().ends_with(what);
    assert!(lines[0].contains("revision") && lines[0].trim_end().ends_with("outcome"), "{ran:?}");
    assert_eq!(lines.iter().filter(|line| is_of(line)).count(), RANKS, "no {what:?}: {}", ran.out);
    assert_eq!(lines.last(), Some(&end));
}

/// The reason to leave a pool of a `space` that is gone.
fn gone(space: &Space) -> String {
    format!(
        "the space {} is not there; if it was moved, name it: mainstay salvage SPACE; --clean gives up the data staged \
         for it",
        space.path().display()
    )
}

/// The reason to leave a pool of a `space` that a job has open.
fn in_use(space: &Space) -> String {
    format!("a job has the space {} open; salvage after its end", space.path().display())
}

/// Checks that the command leaves the pool at `path`, and prints the reason.
#[track_caller]
fn leaves(ran: &Ran, path: &Path, why: &str) {
    let line = format!("left: {}: {why}", path.display());
    assert!(ran.out.lines().any(|told| told == line), "no {line:?}: {}", ran.out);
}

/// The document that `--json` prints if each shard of `space` met with one fate.
fn document(pools: &TempDir, space: &Space, fate: &str, why: Option<&str>, left: Option<&str>) -> Value {
    let listed = space.mainstay(&["ls", "--json"]).json();
    // The killed job saved revision 1 too.
    let saved = listed["revisions"].as_array().unwrap().iter().find(|r| r["revision"] == 1).unwrap();
    let shard = |shard| {
        json!({"space": space.path(), "revision": 2, "lineage": saved["lineage"], "lineage_id": saved["lineage_id"],
            "shard": shard, "fate": fate, "why": why})
    };
    json!({"pool_directory": pools.path(), "dry_run": false, "shards": (0..RANKS).map(shard).collect::<Vec<_>>(),
        "incomplete": [], "pools_removed": usize::from(left.is_none()), "pools_left": left.iter().count(),
        "left": left.iter().map(|why| json!({"pool": pool_in(pools), "why": why})).collect::<Vec<_>>()})
}

#[test]
fn what_was_staged_is_completed_once() {
    PERS.into_iter().for_each(is_completed_once);
}

fn is_completed_once(per: Per) {
    let (pools, kept) = (memory(), memory());
    let space = killed_per(&pools, per);
    copy(&pools, &kept);
    tells(&salvage(&pools, &[]), 0, &space, "completed", "1 pool removed");
    assert_eq!((complete(&space), files(&pools).len()), (vec![2, 1], 0));
    says(&salvage(&pools, &[]), 0, "0 pools removed\n");
    assert_eq!(space.mainstay(&["verify"]).code, 0);

    // The state after a salvager that was killed before it could remove the pool.
    copy(&kept, &pools);
    tells(&salvage(&pools, &[]), 0, &space, "was complete", "1 pool removed");
    copy(&kept, &pools);
    let again = salvage(&pools, &["--json"]);
    assert_eq!((again.code, again.json()), (0, document(&pools, &space, "was_complete", None, None)));
    assert_eq!((complete(&space), files(&pools).len()), (vec![2, 1], 0));
    holds_what_was_staged(&space);
}

#[test]
fn the_document_tells_of_each_shard() {
    let pools = memory();
    let space = killed(&pools);
    let ran = salvage(&pools, &["--json"]);
    assert_eq!((ran.code, ran.json()), (0, document(&pools, &space, "completed", None, None)));
    let nothing = json!({"pool_directory": pools.path(), "dry_run": false, "shards": [], "incomplete": [], "pools_removed": 0,
        "pools_left": 0, "left": []});
    assert_eq!(salvage(&pools, &["--json"]).json(), nothing);
    holds_what_was_staged(&space);
}

/// A record is gone or unreadable: the other shards are completed, and the pool is left until `--clean` removes it.
#[test]
fn a_record_that_is_damaged_or_gone_is_told() {
    fn changed(path: &Path, at: usize) {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    type Harm = fn(&Path);
    let harms: [(Harm, &str); 3] = [
        (|path| changed(path, 1024 + 33), "its seal does not match"),
        (|path| changed(path, 8), "it does not begin as a record"),
        (|path| fs::remove_file(path).unwrap(), "a record beside it is gone"),
    ];
    for (per, (harm, why)) in PERS.into_iter().zip(harms) {
        let pools = memory();
        let space = killed_per(&pools, per);
        let of_rank_1 = |path: &PathBuf| path.extension().is_some_and(|rank| rank == "1");
        harm(&files(&pools).into_iter().find(of_rank_1).unwrap());
        let is_left = |ran: &Ran| {
            let line = ran.out.lines().find(|line| line.starts_with("left: ")).unwrap_or_default();
            let says = ["revision 2, ", "staged data is lost", why, "; --clean removes the pool"];
            assert!(says.iter().all(|what| line.contains(what)), "{ran:?}");
        };
        for _ in 0..2 {
            let ran = salvage(&pools, &[]);
            is_left(&ran);
            let missing = "is still incomplete: of 3 shards these are missing: 1; ";
            assert!(ran.code == 1 && ran.out.contains(missing) && ran.err.is_empty(), "{ran:?}");
            assert_eq!(complete(&space), [1]);
        }
        let ran = salvage(&pools, &["--clean"]);
        assert!(ran.out.ends_with("1 pool removed\n") && files(&pools).is_empty(), "{ran:?}");
    }
}

/// Without a space, `mainstay salvage` wrote into every space of the user on the machine.
#[test]
fn without_a_space_it_only_lists_what_there_is() {
    let (pools, kept) = (memory(), memory());
    let spaces = [killed(&pools), killed(&pools)];
    copy(&pools, &kept);
    let all = || [contents(&spaces[0].path()), contents(&spaces[1].path()), contents(pools.path())];
    let before = all();
    let ran = beside(&pools, &["salvage"]);
    let lines = |text: &str| ran.out.lines().filter(|line| line.trim_end().ends_with(text)).count();
    assert_eq!((ran.code, lines("can be completed"), lines("outcome of a salvage")), (0, 2 * RANKS, 1), "{ran:?}");
    let end = "\n2 pools would be removed\nnothing was changed: mainstay salvage --all\n";
    assert!(ran.out.ends_with(end) && ran.err.is_empty(), "{ran:?}");
    let path = spaces[0].path();
    let path = path.to_str().unwrap();
    for more in [&["--json"][..], &["--all", "--dry-run", "--json"], &["--clean", "--json"]] {
        let document = beside(&pools, &[&["salvage"], more].concat()).json();
        let shards = document["shards"].as_array().unwrap();
        assert!(shards.iter().all(|shard| shard["fate"] == "completable"), "{document}");
        assert_eq!((shards.len(), &document["pools_removed"]), (2 * RANKS, &json!(2)));
        assert_eq!((&document["dry_run"], &document["incomplete"]), (&json!(true), &json!([])));
    }
    let ran = beside(&pools, &["salvage", "--dry-run", path]);
    let end = format!("nothing was changed: mainstay salvage {path}\n");
    assert!(ran.code == 0 && ran.out.ends_with(&end), "{ran:?}");
    assert!(all() == before, "a dry run changed something");
    beside(&pools, &["salvage", "--all", path]).refused_usage();

    // Each pool lacks a record, and one of the spaces is gone.
    for path in files(&pools).into_iter().filter(|path| path.extension().is_some_and(|rank| rank == "1")) {
        fs::remove_file(path).unwrap();
    }
    let document = beside(&pools, &["salvage", "--json"]).json();
    let missing: Vec<&Value> = document["incomplete"].as_array().unwrap().iter().map(|one| &one["missing"]).collect();
    let rank_1 = json!([{"from": 1, "below": 2}]);
    assert_eq!(missing, [&rank_1, &rank_1]);
    let away = spaces[0].directory.path().join("away");
    fs::rename(spaces[0].path(), &away).unwrap();
    let ran = beside(&pools, &["salvage"]);
    assert!(ran.code == 0 && ran.out.contains("left: its space is missing"), "{ran:?}");
    // The pool of the remaining space is left too: the data of its missing record is lost.
    assert!(ran.out.contains("0 pools would be removed; 2 pools left"), "{ran:?}");
    let ran = beside(&pools, &["salvage", "--clean"]);
    assert!(ran.out.contains("lost: its space is not there") && ran.out.contains("salvage --all --clean"), "{ran:?}");
    fs::rename(&away, spaces[0].path()).unwrap();

    files(&pools).iter().for_each(|path| fs::remove_file(path).unwrap());
    copy(&kept, &pools);
    assert!(all() == before);
    let ran = beside(&pools, &["salvage", "--all"]);
    assert!(ran.code == 0 && ran.out.ends_with("2 pools removed\n"), "{ran:?}");
    spaces.iter().for_each(holds_what_was_staged);
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    all.sort();
    all
}

/// Two nodes staged the revision, and the command sees one of them: here only the record of rank 0 can be read.
#[test]
fn a_revision_that_lacks_shards_still_is_told_of() {
    let pools = memory();
    let space = killed(&pools);
    for path in files(&pools).into_iter().filter(|path| path.extension().is_some_and(|rank| rank != "0")) {
        fs::remove_file(path).unwrap();
    }
    let line = format!(
        "revision 2 of lineage 1 in {} is still incomplete: of 3 shards these are missing: 1 to 2; \
         if another node staged them, salvage there",
        space.path().display()
    );
    let ran = salvage(&pools, &[]);
    assert!(ran.code == 1 && ran.out.lines().any(|told| told == line) && ran.err.is_empty(), "{ran:?}");
    assert_eq!(complete(&space), [1]);
    let ran = salvage(&pools, &["--json"]);
    let incomplete = &ran.json()["incomplete"][0];
    assert_eq!((ran.code, &incomplete["revision"], &incomplete["shards"]), (1, &json!(2), &json!(3)));
    assert_eq!(
        (&incomplete["space"], &incomplete["missing"]),
        (&json!(space.path()), &json!([{"from": 1, "below": 3}]))
    );
}

#[test]
fn who_looks_is_told_what_is_staged() {
    PERS.into_iter().for_each(tells_what_is_staged);
}

fn tells_what_is_staged(per: Per) {
    let (pools, elsewhere) = (memory(), memory());
    let mut space = killed_per(&pools, per);
    let path = space.path();
    let path = path.to_str().unwrap();
    let line = "revision 2 of lineage 1: 3 of 3 shards staged in memory here, not saved; the next start or mainstay salvage completes it";
    for command in ["ls", "show"] {
        let ran = beside(&pools, &[command, path]);
        assert!(ran.code == 0 && ran.out.lines().any(|told| told == line), "{ran:?}");
        let staged = &beside(&pools, &[command, path, "--json"]).json()["staged"];
        assert_eq!((&staged[0]["revision"], &staged[0]["shards"]), (&json!(2), &json!(3)));
        assert_eq!((&staged[0]["shards_staged"], staged.as_array().unwrap().len()), (&json!([0, 1, 2]), 1));
        let ran = beside(&elsewhere, &[command, path, "--json"]);
        assert_eq!((ran.code, &ran.json()["staged"]), (0, &json!([])));
    }
    assert_eq!(files(&pools).len(), 1 + RANKS, "looking changes nothing");
    // Once a job runs, the staged revision is not listed: the job has taken it over, or went on without it.
    space.config = config(elsewhere.path());
    space.run(|rank, session, _| {
        session.checkpoint().unwrap();
        session.wait().unwrap();
        if rank == 0 {
            assert_eq!(beside(&pools, &["ls", path, "--json"]).json()["staged"], json!([]));
        }
    });
    assert_eq!(beside(&pools, &["ls", path, "--json"]).json()["staged"], json!([]), "the job went on without it");
}

/// A revision that was staged for such a space was dropped. Its path was kept as text, with another letter in it.
#[test]
fn a_space_whose_name_is_no_text_is_salvaged_too() {
    let pools = memory();
    let mut space = Space { config: config(pools.path()), ..Space::new(1) };
    space.name = OsStr::from_bytes(b"sp\xe4ce").to_owned();
    kill_job(&space, &pools, "staged");
    let ran = salvage(&pools, &[]);
    assert!(ran.code == 0 && ran.out.matches("completed").count() == RANKS, "{ran:?}");
    assert_eq!((complete(&space), files(&pools).len()), (vec![2, 1], 0));
    kill_job(&space, &pools, "staged");
    holds_what_was_staged_as(&space, 4);
}

#[test]
fn another_spaces_pool_is_left_alone() {
    let pools = memory();
    let (space, other) = (killed(&pools), killed(&pools));
    let end = "1 pool removed; 1 pool left";
    let ran = salvage(&pools, &[space.path().to_str().unwrap()]);
    tells(&ran, 0, &space, "completed", end);
    assert_eq!((complete(&space), complete(&other)), (vec![2, 1], vec![1]));
    assert_eq!(files(&pools).len(), 1 + RANKS);
    let why = format!("it holds a shard of another space, {}; salvage that", other.path().display());
    leaves(&ran, &pool_in(&pools), &why);
    // Only that space can claim the pool.
    let ran = salvage(&pools, &[space.path().to_str().unwrap(), "--clean"]);
    let left = format!("left: {}: {why}\n0 pools removed; 1 pool left\n", pool_in(&pools).display());
    says(&ran, 0, &left);
    assert_eq!((complete(&other), files(&pools).len()), (vec![1], 1 + RANKS));
    // This holds also for a pool that cannot be used, such as a pool of another version of Mainstay.
    let pool = fs::OpenOptions::new().read(true).write(true).open(pool_in(&pools)).unwrap();
    let mut byte = [0];
    pool.read_exact_at(&mut byte, 41).unwrap();
    pool.write_all_at(&[!byte[0]], 41).unwrap();
    says(&salvage(&pools, &[space.path().to_str().unwrap(), "--clean"]), 0, &left);
    pool.write_all_at(&byte, 41).unwrap();
    tells(&salvage(&pools, &[]), 0, &other, "completed", "1 pool removed");
    holds_what_was_staged(&space);
    holds_what_was_staged(&other);
}

#[test]
fn of_several_spaces_all_are_completed() {
    let pools = memory();
    let spaces = [killed(&pools), killed(&pools)];
    let ran = salvage(&pools, &[]);
    for space in &spaces {
        tells(&ran, 0, space, "completed", "2 pools removed");
        assert_eq!(complete(space), [2, 1]);
    }
    assert_eq!(files(&pools).len(), 0);
}

#[test]
fn what_the_job_went_on_without_is_lost() {
    let (pools, kept, elsewhere) = (memory(), memory(), memory());
    let mut space = killed(&pools);
    copy(&pools, &kept);
    // The job runs on another node, which does not see that memory.
    space.config = config(elsewhere.path());
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, 1);
        state.copy_from_slice(&field(rank, 7));
        session.checkpoint().unwrap();
    });
    let why = "the job went on without it, or another did";
    tells(&salvage(&pools, &[]), 1, &space, &format!("lost: {why}"), "1 pool removed");
    copy(&kept, &pools);
    let ran = salvage(&pools, &["--json"]);
    assert_eq!((ran.code, ran.json()), (1, document(&pools, &space, "lost", Some(why), None)));
    assert_eq!(files(&pools).len(), 0);
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, 2);
        assert!(state == field(rank, 7), "the newer job's bytes are gone");
    });
}

#[test]
fn a_space_that_is_not_there_may_come_back() {
    let (pools, kept) = (memory(), memory());
    let space = killed(&pools);
    let expected = document(&pools, &space, "space_gone", None, Some(&gone(&space)));
    let away = space.directory.path().join("away");
    fs::rename(space.path(), &away).unwrap();
    let ran = salvage(&pools, &[]);
    tells(&ran, 0, &space, "left: its space is missing", "0 pools removed; 1 pool left");
    leaves(&ran, &pool_in(&pools), &gone(&space));
    let ran = salvage(&pools, &["--json"]);
    assert_eq!((ran.code, ran.json(), files(&pools).len()), (0, expected, 1 + RANKS));
    copy(&pools, &kept);
    let why = "its space is not there, and its pool was removed";
    tells(&salvage(&pools, &["--clean"]), 1, &space, &format!("lost: {why}"), "1 pool removed");
    assert_eq!(files(&pools).len(), 0);
    copy(&kept, &pools);
    let ran = salvage(&pools, &["--clean", "--json"]);
    let shard = &ran.json()["shards"][0];
    assert_eq!((ran.code, &shard["fate"], &shard["why"]), (1, &json!("lost"), &json!(why)));

    fs::rename(&away, space.path()).unwrap();
    tells(&salvage(&kept, &["--clean"]), 0, &space, "completed", "1 pool removed");
    holds_what_was_staged(&space);
}

/// A pool without staged data, and records without a pool.
#[test]
fn what_holds_nothing_is_removed() {
    let pools = memory();
    let space = killed_when(&pools, "saved");
    says(&salvage(&pools, &[space.path().to_str().unwrap()]), 0, "1 pool removed\n");
    kill_job(&space, &pools, "saved");
    fs::rename(space.path(), space.directory.path().join("away")).unwrap();
    let record = pools.path().join(format!("mainstay-pool-{:032x}.3", 1));
    fs::write(&record, []).unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(pools.path().join("something else"), []).unwrap();
    says(&salvage(&pools, &[]), 0, "2 pools removed\n");
    assert_eq!(files(&pools).len(), 1);
}

/// A damaged pool, and an empty one.
#[test]
fn what_is_damaged_is_left_until_it_is_cleaned_away() {
    let pools = memory();
    let space = killed(&pools);
    let damaged = pool_in(&pools);
    let (file, mut byte) = (fs::OpenOptions::new().read(true).write(true).open(&damaged).unwrap(), [0]);
    file.read_exact_at(&mut byte, 41).unwrap();
    file.write_all_at(&[!byte[0]], 41).unwrap();
    let empty = pools.path().join(format!("mainstay-pool-{:032x}", 1));
    fs::write(&empty, []).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = salvage(&pools, &[]);
    let unusable = |why: &str| format!("nothing in it can be used: {why}; --clean removes it");
    leaves(&ran, &damaged, &unusable("the checksum of its header does not match"));
    leaves(&ran, &empty, &unusable("its header cannot be read (failed to fill whole buffer)"));
    assert!(ran.code == 1 && ran.out.ends_with("0 pools removed; 2 pools left\n"), "{ran:?}");
    assert_eq!(files(&pools).len(), 2 + RANKS);
    says(&salvage(&pools, &["--clean"]), 0, "2 pools removed\n");
    assert_eq!((complete(&space), files(&pools).len()), (vec![1], 0));
}

/// A file is left if another user could have put it there or changed it. The command prints the reason.
#[test]
fn what_another_user_can_get_at_is_left() {
    let pools = memory();
    let space = killed(&pools);
    let record = files(&pools).into_iter().find(|path| path.extension().is_some()).unwrap();
    let pool = pool_in(&pools);
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let why = |path: &Path| {
        format!(
            "its mode is 644, not 600, so another user may have changed it; if none has, correct that (a mode by chmod \
             600), or remove it by hand: {}",
            path.display()
        )
    };
    set_mode(&pool, 0o644);
    for more in [&[][..], &["--clean"]] {
        let ran = salvage(&pools, more);
        says(&ran, 1, &format!("left: {}: {}\n0 pools removed; 1 pool left\n", pool.display(), why(&pool)));
    }
    set_mode(&pool, 0o600);
    set_mode(&record, 0o644);
    let ran = salvage(&pools, &[]);
    leaves(&ran, &pool, &why(&record));
    assert_eq!((complete(&space), files(&pools).len()), (vec![1], 1 + RANKS));
    set_mode(&record, 0o600);
    assert_eq!(salvage(&pools, &[]).code, 0);
    holds_what_was_staged(&space);
}

#[test]
fn beside_a_job_it_is_left_and_refused() {
    let (pools, elsewhere) = (memory(), memory());
    let mut space = killed(&pools);
    let expected = document(&pools, &space, "in_use", None, Some(&in_use(&space)));
    space.config = config(elsewhere.path());
    space.run(|rank, session, state| {
        if rank == 0 {
            let what = "left: a job has the space open";
            let end = "0 pools removed; 1 pool left";
            let ran = salvage(&pools, &[]);
            tells(&ran, 4, &space, what, end);
            leaves(&ran, &pool_in(&pools), &in_use(&space));
            tells(&salvage(&pools, &["--clean"]), 4, &space, what, "0 pools removed; 1 pool left");
            let ran = salvage(&pools, &["--json"]);
            assert_eq!((ran.code, ran.json()), (4, expected.clone()));
            assert_eq!(files(&pools).len(), 1 + RANKS);
            // The running job's own pool is not a pool of a dead job.
            says(&salvage(&elsewhere, &["--clean"]), 0, "0 pools removed\n");
            assert_eq!(files(&elsewhere).len(), 1 + RANKS);
        }
        state.copy_from_slice(&field(rank, 7));
        session.checkpoint().unwrap();
    });
    assert_eq!(salvage(&pools, &[]).code, 1, "the job went on without it");
}

#[test]
fn of_two_fates_the_one_that_can_be_tried_again_has_the_exit_code() {
    let (pools, elsewhere) = (memory(), memory());
    let (mut lost, mut open) = (killed(&pools), killed(&pools));
    (lost.config, open.config) = (config(elsewhere.path()), config(elsewhere.path()));
    lost.run(|_, session, _| assert_eq!(session.checkpoint().unwrap(), 2));
    open.run(|rank, _, _| {
        if rank == 0 {
            let ran = salvage(&pools, &[]);
            let end = "1 pool removed; 1 pool left";
            tells(&ran, 4, &lost, "lost: the job went on without it, or another did", end);
            tells(&ran, 4, &open, "left: a job has the space open", end);
        }
    });
}

#[test]
fn where_the_pools_are_is_said_on_the_line_or_in_the_environment() {
    let (pools, empty) = (memory(), memory());
    let space = killed(&pools);
    says(&salvage(&empty, &[]), 0, "0 pools removed\n");
    let at = |folder: &Path| ["--pool-directory".to_owned(), folder.to_str().unwrap().to_owned()];
    let (there, nowhere) = (at(pools.path()), at(&empty.path().join("nowhere")));
    says(&salvage(&pools, &[&nowhere[0], &nowhere[1]]), 0, "0 pools removed\n");
    assert_eq!(complete(&space), [1]);
    // The command line takes precedence over the environment.
    tells(&salvage(&empty, &[&there[0], &there[1]]), 0, &space, "completed", "1 pool removed");
    assert_eq!((complete(&space), files(&pools).len()), (vec![2, 1], 0));

    let file = space.layout();
    let ran = mainstay(&["salvage", "--all", "--pool-directory"], &file);
    ran.refused(4, &["listing", file.to_str().unwrap()]);
}

#[test]
fn what_is_no_space_is_told() {
    let pools = memory();
    for none in [pools.path(), &pools.path().join("not there")] {
        let ran = salvage(&pools, &[none.to_str().unwrap()]);
        assert_eq!(ran.code, 3, "{ran:?}");
    }
}
