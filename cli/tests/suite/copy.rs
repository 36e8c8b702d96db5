//! `copy`: revisions become revisions of another space, even if the command is killed at any moment.

use crate::support::{MAINSTAY, RANKS, Ran, Space, field};
use mainstay_engine::{LevelPlace, MemoryAfter};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

fn copy(space: &Space, other: &Path, more: &[&str]) -> Ran {
    Command::new(MAINSTAY).arg("copy").arg(space.path()).arg(other).args(more).output().map(Ran::of).unwrap()
}

/// The space that the copies of `space` make, as a space for jobs.
fn other(space: &Space) -> (Space, PathBuf) {
    let other = Space::new(space.config.keep);
    let path = other.path();
    (other, path)
}

/// Complete revisions, newest first.
fn complete(space: &Space) -> Vec<u64> {
    let document = space.mainstay(&["ls", "--json"]).json();
    let complete = document["revisions"].as_array().unwrap().iter().filter(|r| r["state"] != "incomplete");
    complete.map(|r| r["revision"].as_u64().unwrap()).collect()
}

fn goes_on_from(space: &Space, revision: u64) {
    space.run(|rank, session, state| {
        assert_eq!(session.restore().unwrap().unwrap().revision, revision);
        assert!(state == field(rank, revision));
        for _ in 0..3 {
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
}

#[test]
fn copies_are_told_and_are_a_space_like_any_other() {
    let space = Space::with(2, 4);
    let (made, path) = other(&space);
    let there = complete(&space);
    let dry = copy(&space, &path, &["--dry-run", "--json"]);
    assert!(dry.code == 0 && !path.exists(), "{dry:?}");
    let ran = copy(&space, &path, &["--json"]);
    assert_eq!((ran.code, &dry.json()["revisions"]), (0, &ran.json()["revisions"]));
    let told = ran.json();
    let told: Vec<_> = told["revisions"].as_array().unwrap().iter().map(|r| (&r["revision"], &r["state"])).collect();
    assert!(told.iter().all(|(_, state)| *state == "copied") && told[0].0 == 4, "{told:?}");
    let again = copy(&space, &path, &[]);
    assert!(again.code == 0 && again.out.contains("was there already"), "{again:?}");
    assert!(again.out.contains("0 revisions, 0 B, copied and verified"), "{again:?}");
    assert_eq!(complete(&made), there);
    for words in [&["verify"][..], &["show"], &["ls"]] {
        assert_eq!(made.mainstay(words).code, 0, "{words:?}");
    }
    let (shown, copied) = (space.mainstay(&["ls", "--json"]).json(), made.mainstay(&["ls", "--json"]).json());
    assert_eq!(shown["revisions"], copied["revisions"]);
    let out = made.directory.path().join("out");
    let ran = Command::new(MAINSTAY).arg("export").arg(&path).arg(&out).args(["--format", "raw"]).output().unwrap();
    assert!(ran.status.success());
    let bytes: Vec<u8> = field(1, 4).iter().flat_map(|cell| cell.to_le_bytes()).collect();
    assert!(fs::read(out.join("shard/0001/field.raw")).unwrap() == bytes);
    goes_on_from(&made, 4);
    // The copied space goes on by itself.
    goes_on_from(&space, 4);
    copy(&space, &path, &[]).refused(2, &["give a directory of its own"]);
}

#[test]
fn revisions_are_chosen_by_their_numbers() {
    let space = Space::with(3, 5);
    let (made, path) = other(&space);
    assert_eq!(copy(&space, &path, &["--revision", "4"]).code, 0);
    assert_eq!(complete(&made), [4]);
    assert_eq!(copy(&space, &path, &["--revision", "3", "--revision", "5"]).code, 0);
    assert_eq!((complete(&made), made.mainstay(&["verify"]).code), (vec![5, 4, 3], 0));
    copy(&space, &path, &["--revision", "9"]).refused(1, &["there is no revision 9", "5, 4, 3"]);
    let wrong = copy(&space, &path, &["5"]);
    assert!(wrong.code == 2 && wrong.err.contains("--revision 5"), "{wrong:?}");
    goes_on_from(&made, 5);
}

/// The space and its memory keep different revisions. The copy has both.
#[test]
fn all_levels_are_copied_from() {
    let mut space = Space::new(2);
    space.config.memory = LevelPlace::At(space.directory.path().join("memory"));
    (space.config.memory_keep, space.config.pfs_every) = (2, 2);
    space.config.memory_after = MemoryAfter::Kept;
    space.run(|rank, session, state| {
        for step in 1..=7 {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    let (made, path) = other(&space);
    assert_eq!(copy(&space, &path, &[]).code, 0);
    assert_eq!((complete(&made)[0], complete(&made)), (7, complete(&space)));
    assert_eq!(made.mainstay(&["verify"]).code, 0);
    goes_on_from(&made, 7);
}

/// A copy that is killed at any moment leaves only whole revisions. A second run copies the rest, and its holds end.
#[test]
fn a_copy_that_is_killed_goes_on() {
    let space = Space::with(4, 6);
    let there = complete(&space);
    let (made, path) = other(&space);
    let mut killed = 0;
    for round in 0..40 {
        let mut child = Command::new(MAINSTAY);
        child.arg("copy").arg(space.path()).arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        thread::sleep(Duration::from_micros(round * 7_331 % 30_000));
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        if path.join("lock").exists() {
            let found = complete(&made);
            assert!(found.iter().all(|number| there.contains(number)), "{found:?}");
            let verified = made.mainstay(&["verify"]);
            // Possibly no revision is complete yet.
            assert!(verified.code == 0 || found.is_empty(), "{verified:?}");
        }
        if round % 10 == 9 {
            assert_eq!(copy(&space, &path, &[]).code, 0);
            assert_eq!((complete(&made), made.mainstay(&["verify"]).code), (there.clone(), 0));
            if round < 39 {
                fs::remove_dir_all(&path).unwrap();
            }
        }
    }
    assert!(killed > 10, "{killed}");
    goes_on_from(&made, 6);
}

#[test]
fn beside_a_job_what_is_there_is_copied() {
    let space = Space::with(2, 1);
    let (made, path) = other(&space);
    space.beside_a_job(|| {
        // The test waits until nothing is left of the job before this one. A copy of its revisions would belong to
        // another run by then.
        let is_new = || complete(&space).first().is_some_and(|newest| *newest > 5);
        assert!((0..500).any(|_| is_new()), "the job saves nothing");
        for _ in 0..5 {
            // The job may remove every revision before the copy can hold it.
            let ran = copy(&space, &path, &[]);
            let is_gone = ["removed the revision", "there is no revision"].iter().any(|says| ran.err.contains(says));
            assert!(ran.code == 0 || is_gone, "{ran:?}");
        }
    });
    assert_eq!(made.mainstay(&["verify"]).code, 0);
    assert!(!complete(&made).is_empty());
    assert_eq!(space.mainstay(&["ls", "--json"]).json()["holds"], serde_json::json!([]));
    let newest = complete(&made)[0];
    goes_on_from(&made, newest);
}

#[test]
fn damage_is_named_and_the_rest_is_copied() {
    let space = Space::with(2, 2);
    let (made, path) = other(&space);
    // A block of revision 1, somewhere in the data of any rank.
    let first = field(1, 1).iter().flat_map(|cell| cell.to_le_bytes()).take(64).collect::<Vec<u8>>();
    let mut bytes = fs::read(space.layout()).unwrap();
    let at = bytes.windows(64).position(|window| window == first).unwrap();
    bytes[at + 7] ^= 1;
    fs::write(space.layout(), bytes).unwrap();
    let ran = copy(&space, &path, &["--json"]);
    assert!(ran.code == 1 && ran.err.contains("revision 1 is not copied: shard 1"), "{ran:?}");
    let states = ran.json();
    assert_eq!(
        (&states["revisions"][0]["state"], &states["revisions"][1]["state"]),
        (&"copied".into(), &"lost".into())
    );
    assert_eq!(complete(&made), [2]);
    assert_eq!(made.mainstay(&["verify"]).code, 0);
}

#[test]
fn what_belongs_to_others_is_refused() {
    let (space, job) = (Space::with(1, 1), Space::with(1, 2));
    copy(&space, &job.path(), &[]).refused(2, &["revisions of another run", "nothing was changed"]);
    copy(&space, &space.path(), &[]).refused(2, &["give another directory"]);
    assert_eq!(complete(&job)[0], 2);
    let used = Space::new(1);
    used.run(|rank, _, _| {
        if rank == RANKS - 1 {
            copy(&space, &used.path(), &[]).refused(4, &["in use"]);
        }
    });
    // A failed copy removes the directory that it made.
    let file = space.directory.path().join("file");
    fs::write(&file, "").unwrap();
    copy(&space, &file.join("below"), &[]).refused(3, &["not a directory"]);
}
