//! `prune`: what the rules keep stays, and nothing else.

use crate::support::{MAINSTAY, RANKS, Space, field, mainstay};
use std::{fs, process::Command};

/// Complete revisions, newest first.
fn complete(space: &Space) -> Vec<u64> {
    let document = space.mainstay(&["ls", "--json"]).json();
    let complete = document["revisions"].as_array().unwrap().iter().filter(|r| r["state"] != "incomplete");
    complete.map(|r| r["revision"].as_u64().unwrap()).collect()
}

#[test]
fn rules_unite() {
    for (rules, left) in [
        (&["--keep-last", "1"][..], &[6][..]),
        (&["--keep-last", "2"], &[6, 5]),
        (&["--keep-every", "3"], &[6, 3]),
        (&["--keep-last", "2", "--keep-every", "3"], &[6, 5, 3]),
        (&["--keep-every", "100"], &[6]),
        (&["--older-than", "1h"], &[6, 5, 4, 3]),
        (&["--older-than", "0s"], &[6]),
        (&["--older-than", "1h", "--keep-last", "1"], &[6, 5, 4, 3]),
        (&["--older-than", "0s", "--keep-last", "2"], &[6, 5]),
    ] {
        let space = Space::with(3, 6);
        assert_eq!(complete(&space), [6, 5, 4, 3]);
        let dry = space.mainstay(&[&["prune", "--dry-run", "--json"], rules].concat());
        assert_eq!((dry.code, complete(&space).len()), (0, 4), "{dry:?}");
        let ran = space.mainstay(&[&["prune", "--json"], rules].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(dry.json()["revisions"], ran.json()["revisions"]);
        assert_eq!(complete(&space), left, "{rules:?}");
        assert_eq!(space.mainstay(&["verify"]).code, 0);
        space.run(|rank, session, state| {
            assert_eq!(session.restore().unwrap().unwrap().revision, 6);
            assert!(state == field(rank, 6));
        });
    }
}

#[test]
fn what_is_held_stays_and_goes_once_it_is_released() {
    let space = Space::with(3, 6);
    assert_eq!(space.mainstay(&["hold", "--revision", "4"]).code, 0);
    let ran = space.mainstay(&["prune", "--keep-last", "1"]);
    assert!(ran.out.contains("stays: held") && ran.out.contains("2 went"), "{ran:?}");
    assert_eq!(complete(&space), [6, 4]);
    space.mainstay(&["release", "--all"]);
    space.mainstay(&["prune", "--keep-last", "1"]);
    assert_eq!(complete(&space), [6]);
    assert!(space.mainstay(&["prune", "--keep-last", "1"]).out.contains("0 went"));
}

#[test]
fn beside_a_job_nothing_is_pruned() {
    let space = Space::with(3, 6);
    space.run(|rank, _, _| {
        if rank == RANKS - 1 {
            space.mainstay(&["prune", "--keep-last", "1"]).refused(4, &["in use"]);
            assert_eq!(space.mainstay(&["prune", "--keep-last", "1", "--dry-run"]).code, 0);
        }
    });
    assert_eq!(complete(&space).len(), 4);
}

#[test]
fn without_a_rule_it_is_wrong_usage() {
    let space = Space::with(1, 2);
    for arguments in [&[][..], &["--dry-run"], &["--keep-last", "0"], &["--keep-every", "0"], &["--older-than", "7"]] {
        let code = Command::new(MAINSTAY).arg("prune").args(arguments).arg(space.path()).output().unwrap().status;
        assert_eq!(code.code(), Some(2), "{arguments:?}");
    }
    mainstay(&["prune", "--keep-last", "1"], space.directory.path()).refused(3, &["no layout"]);
    assert!(!space.directory.path().join("lock").exists());
}

/// Also where there is no revision to tell of: a reservation was cut off before it removed what it stands for.
#[test]
fn it_says_which_layouts_it_removed() {
    let space = Space::new(1);
    space.mainstay(&["reserve", "--ranks", "1", "--per-rank", "1KiB"]);
    let older = space.layout();
    let aside = space.directory.path().join("aside");
    fs::copy(&older, &aside).unwrap();
    space.mainstay(&["grow", "--per-rank", "2KiB"]);
    fs::rename(&aside, &older).unwrap();
    let ran = space.mainstay(&["prune", "--keep-last", "1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let removed = format!("{} was empty and is removed", older.file_name().unwrap().display());
    assert!(ran.out.contains("no revision") && ran.out.contains(&removed), "{ran:?}");
    assert!(!older.exists());
}
