//! `prune`: revisions that the rules keep stay, and no others.

use crate::support::{MAINSTAY, RANKS, Space, field, mainstay};
use mainstay_engine::{LevelPlace, MemoryAfter};
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
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
fn revisions_that_are_named_go_and_no_others() {
    for (named, left) in [(&["3"][..], &[6, 5, 4][..]), (&["5", "3"], &[6, 4]), (&["3", "4", "5"], &[6])] {
        let space = Space::with(3, 6);
        let words: Vec<&str> = named.iter().flat_map(|number| ["--revision", number]).collect();
        let dry = space.mainstay(&[&["prune", "--dry-run", "--json"], &words[..]].concat());
        assert_eq!((dry.code, complete(&space).len()), (0, 4), "{dry:?}");
        let ran = space.mainstay(&[&["prune", "--json"], &words[..]].concat());
        assert_eq!((ran.code, &dry.json()["revisions"]), (0, &ran.json()["revisions"]), "{ran:?}");
        assert_eq!((complete(&space), space.mainstay(&["verify"]).code), (left.to_vec(), 0));
        space.run(|rank, session, state| {
            assert_eq!(session.restore().unwrap().unwrap().revision, 6);
            assert!(state == field(rank, 6));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        });
    }
}

#[test]
fn revisions_that_have_to_stay_are_named_and_nothing_goes() {
    let space = Space::with(3, 6);
    assert_eq!(space.mainstay(&["hold", "--revision", "4"]).code, 0);
    for more in [&[][..], &["--dry-run"]] {
        let refused = |words: &[&str], code, says: &[&str]| {
            space.mainstay(&[&["prune"], words, more].concat()).refused(code, says);
            assert_eq!(complete(&space), [6, 5, 4, 3]);
        };
        refused(&["--revision", "3", "--revision", "4"], 4, &["revision 4 has to stay: it is held", "release SPACE"]);
        refused(&["--revision", "6"], 4, &["revision 6 has to stay", "newest", "mainstay rollback"]);
        refused(&["--revision", "3", "--revision", "9"], 1, &["there is no revision 9", "6, 5, 4, 3"]);
    }
    for words in [&["--revision", "3", "--keep", "1"][..], &["3"]] {
        space.mainstay(&[&["prune"], words].concat()).refused_usage();
    }
    let hint = Command::new(MAINSTAY).arg("prune").arg(space.path()).arg("3").output().unwrap();
    assert!(String::from_utf8(hint.stderr).unwrap().contains("--revision 3"));
    // The same rule by a shorter name.
    assert_eq!(space.mainstay(&["prune", "--keep", "2"]).code, 0);
    assert_eq!(complete(&space), [6, 5, 4]);
}

/// The memory keeps 7 and 6, the space 6 and 4: 6 is the newest in the space, and only 7 is in a single level.
#[test]
fn on_all_levels_or_nowhere() {
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
    let before = complete(&space);
    assert!(before.starts_with(&[7, 6]) && before.contains(&4), "{before:?}");
    space.mainstay(&["prune", "--revision", "6"]).refused(4, &["revision 6 has to stay", "one of its levels"]);
    // If a job has one of the levels open, the command removes nothing on any level.
    let level = fs::read_dir(space.directory.path().join("memory")).unwrap().map(|entry| entry.unwrap().path());
    let level = level.into_iter().find(|path| path.join("lock").exists()).unwrap();
    let lock = fs::File::options().write(true).open(level.join("lock")).unwrap();
    lock_first_byte(&lock);
    space.mainstay(&["prune", "--keep", "1"]).refused(4, &["in use"]);
    assert_eq!(complete(&space), before);
    drop(lock);
    let ran = space.mainstay(&["prune", "--revision", "4"]);
    assert!(ran.code == 0 && ran.out.contains("memory:") && ran.out.contains("space:"), "{ran:?}");
    assert_eq!(complete(&space), before.iter().copied().filter(|number| *number != 4).collect::<Vec<_>>());
    assert_eq!(space.mainstay(&["verify"]).code, 0);
}

/// Locks the byte as a job does, for as long as the file is open.
fn lock_first_byte(file: &fs::File) {
    let lock = libc::flock { l_type: libc::F_WRLCK as i16, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
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
            for words in [["prune", "--keep-last=1", "--dry-run"], ["rollback", "--revision=4", "--dry-run"]] {
                let told = space.mainstay(&words);
                assert!(
                    told.code == 0 && told.err.contains("is in use: this is refused as long as a job has it open"),
                    "{told:?}"
                );
            }
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

/// The command reports a removed layout even without a revision to list. A reservation was cut off before it removed
/// the layout that it replaces.
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
