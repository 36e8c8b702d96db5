//! `hold` and `release`, and their traces in `ls` and `show`.

use crate::support::{MAINSTAY, Ran, Space, field, mainstay};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    process::Command,
    thread,
    time::Duration,
};

#[test]
fn without_a_job_a_hold_counts_at_once_and_is_listed() {
    let space = Space::with(2, 5);
    let ran = space.mainstay(&["hold", "--revision", "4", "--note", "the good one", "--for", "2h"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("revision 4 (lineage 1) is held until 2"), "{}", ran.out);

    let document = space.mainstay(&["ls", "--json"]).json();
    let hold = &document["holds"][0];
    assert_eq!(
        (&hold["revision"], &hold["note"], &hold["state"]),
        (&4.into(), &"the good one".into(), &"counts".into())
    );
    let (from, until) = (hold["created_unix_ns"].as_u64().unwrap(), hold["expires_unix_ns"].as_u64().unwrap());
    assert!((until - from) / 1_000_000_000 >= 7199, "{hold}");
    let held: Vec<bool> = document["revisions"].as_array().unwrap().iter().map(|r| r["held"] == true).collect();
    assert_eq!(held[..3], [false, true, false]);
    for command in ["ls", "show"] {
        let page = space.mainstay(&[command]).out;
        assert!(page.contains("the good one") && page.contains("yes"), "{page}");
    }
    assert!(space.mainstay(&["ls"]).out.contains("complete, held"));
    assert!(space.mainstay(&["show", "--revision", "4"]).out.contains("complete, held"));

    space.mainstay(&["release", "--json"]).refused_usage();
    release(&space, "5").refused(1, &["revision 5 in", "is not held", "held: 4"]);
    let ran = release(&space, "4");
    assert_eq!((ran.code, ran.out.as_str()), (0, "revision 4 is released (it was held: the good one)\n"));
    release(&space, "4").refused(1, &["nothing is held"]);
    assert_eq!(space.mainstay(&["release", "--all"]).out, "nothing was held\n");
}

#[test]
fn several_revisions_are_released_at_once_or_none() {
    let mut space = Space::new(3);
    space.config.portion_bytes = 8 << 20;
    space.run(|_, session, _| {
        for step in 1..=5 {
            assert_eq!(session.checkpoint().unwrap(), step);
        }
    });
    for number in ["3", "4", "5"] {
        assert_eq!(space.mainstay(&["hold", "--revision", number]).code, 0);
    }
    let held = || {
        let document = space.mainstay(&["ls", "--json"]).json();
        document["holds"].as_array().unwrap().iter().map(|hold| hold["revision"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    space.mainstay(&["release", "--revision", "3", "--revision", "2"]).refused(1, &["revision 2", "held: 3, 4, 5"]);
    assert_eq!(held(), [3, 4, 5]);
    let words = ["release", "--revision", "3", "--revision", "5"];
    let dry = space.mainstay(&[&words[..], &["--dry-run", "--json"]].concat()).json();
    let ran = space.mainstay(&[&words[..], &["--json"]].concat()).json();
    assert_eq!((&dry["released"], held()), (&ran["released"], vec![4]));
}

#[test]
fn a_bare_number_is_told_as_what_it_was_meant() {
    let space = Space::with(2, 3);
    for words in [&["release"][..], &["hold"], &["show"], &["verify"], &["rollback"]] {
        let ran = Command::new(MAINSTAY).args(words).arg(space.path()).arg("2").output().map(Ran::of).unwrap();
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("name a revision by its number: --revision 2"), "{ran:?}");
    }
}

#[test]
fn what_is_no_number_is_told_with_the_nearest_call() {
    let space = Space::with(2, 3);
    for command in ["hold", "release", "prune", "show", "verify", "rollback"] {
        let both = space.mainstay(&[command, "--revision", "2,3"]);
        assert!(both.code == 2 && both.err.contains("--revision 2 --revision 3"), "{both:?}");
        let word = space.mainstay(&[command, "--revision", "latest"]);
        assert!(
            word.code == 2 && word.err.contains("nor the number of a revision") && word.err.contains("newest"),
            "{word:?}"
        );
    }
    let named = space.mainstay(&["diff", "--revision", "2", "--revision", "3"]);
    assert!(named.code == 2 && named.err.contains("mainstay diff SPACE 11 newest"), "{named:?}");
}

/// `newest` was refused as the name of a revision, although `ls` prints it.
#[test]
fn the_newest_is_named_alike_everywhere() {
    let space = Space::with(2, 3);
    let beside = |name: &str| space.directory.path().join(name).to_str().unwrap().to_owned();
    let (out, file, other) = (beside("out"), beside("out.h5"), beside("other"));
    let run = |command: &str, words: &[&str]| {
        Command::new(MAINSTAY).arg(command).arg(space.path()).args(words).output().map(Ran::of).unwrap()
    };
    let newest =
        |command: &str, words: &[&str]| run(command, &[words, &["--revision", "newest", "--json"]].concat()).json();
    assert_eq!(newest("show", &[])["revision"]["revision"], 3);
    assert_eq!(newest("export", &[&out])["revision"], 3);
    assert_eq!(newest("view", &["--hdf5", &file, "--no-hold"])["revision"], 3);
    assert_eq!(newest("hold", &[])["revision"], 3);
    for (command, words, list) in
        [("release", &[][..], "released"), ("verify", &[], "revisions"), ("copy", &[&other[..]], "revisions")]
    {
        let document = newest(command, words);
        let numbers: Vec<u64> =
            document[list].as_array().unwrap().iter().map(|one| one["revision"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [3], "{command}");
    }
    let difference = run("diff", &["newest", "2", "--json"]).json();
    assert_eq!((&difference["first"]["revision"], &difference["second"]["revision"]), (&3.into(), &2.into()));
    run("prune", &["--revision", "newest"]).refused(4, &["revision 3 has to stay"]);
    let back = run("rollback", &["--revision", "newest"]);
    assert!(back.code == 0 && back.out.contains("revision 3 is the newest, as before"), "{back:?}");
    let empty = Space::new(1);
    empty.run(|_, _, _| {});
    empty.mainstay(&["release", "--revision", "newest"]).refused(1, &["no complete revision"]);
    // A revision that was not asked for may be missing.
    assert_eq!(empty.mainstay(&["show", "--revision", "newest"]).code, 1);
    assert_eq!(empty.mainstay(&["show"]).code, 0);
}

fn release(space: &Space, number: &str) -> Ran {
    Command::new(MAINSTAY).arg("release").arg(space.path()).args(["--revision", number]).output().map(Ran::of).unwrap()
}

#[test]
fn beside_a_job_it_is_told_from_when_on_it_counts() {
    let space = Space::new(1);
    space.run(|rank, session, state| {
        let mut save = |step: u64| {
            state.copy_from_slice(&field(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        };
        save(1);
        if rank == 0 {
            let ran = space.mainstay(&["hold", "--wait", "0s"]);
            assert_eq!((ran.code, ran.out.as_str()), (0, ""));
            assert!(ran.err.contains("from the job's next checkpoint"), "{ran:?}");
            assert!(space.mainstay(&["ls"]).out.contains("from the job's next checkpoint on"));
        }
        save(2);
        if rank == 0 {
            let page = space.mainstay(&["ls"]).out;
            assert!(page.contains("complete, held") && page.contains("yes"), "{page}");
        }
        for step in 3..7 {
            save(step);
        }
        if rank == 0 {
            let ran = space.mainstay(&["verify", "--revision", "1"]);
            assert_eq!(ran.code, 0, "{ran:?}");
        }
    });
    assert_eq!(space.mainstay(&["release", "--all", "--json"]).json()["released"][0]["revision"], 1);
}

#[test]
fn who_waits_is_told_when_it_counts() {
    let space = Space::new(1);
    thread::scope(|scope| {
        space.run(|rank, session, state| {
            let mut save = |step: u64| {
                state.copy_from_slice(&field(rank, step));
                session.checkpoint().unwrap();
                session.wait().unwrap();
            };
            save(1);
            let holder = (rank == 0).then(|| scope.spawn(|| space.mainstay(&["hold", "--wait", "50s", "--json"])));
            while space.mainstay(&["ls", "--json"]).json()["holds"].as_array().unwrap().is_empty() {
                thread::sleep(Duration::from_millis(5));
            }
            save(2);
            if let Some(holder) = holder {
                let ran = holder.join().unwrap();
                assert_eq!((ran.code, &ran.json()["counts"]), (0, &true.into()), "{ran:?}");
            }
        });
    });
}

#[test]
fn what_cannot_be_held_is_refused() {
    let space = Space::with(1, 4);
    space.mainstay(&["hold", "--revision", "77"]).refused(1, &["no revision 77", "4, 3"]);
    assert_eq!(space.mainstay(&["hold"]).code, 0);
    // Room for keep+2 revisions, so one can be held in addition.
    let before = fs::read(space.layout()).unwrap();
    let path = space.path();
    let path = path.to_str().unwrap();
    let way_out = format!("mainstay grow {path} --like {path} --keep K");
    space
        .mainstay(&["hold", "--revision", "3"])
        .refused(4, &["no room", "release another (held: 4)", "export", &way_out]);
    assert!(fs::read(space.layout()).unwrap() == before, "a hold that was refused left something");
    for arguments in [&["--for", "3"][..], &["--note", "a\nb"], &["--revision", "x"], &["--wait", "soon"]] {
        space.mainstay(&[&["hold"], arguments].concat()).refused_usage();
    }
    let nowhere = space.directory.path().join("nowhere");
    for command in [&["hold"][..], &["release", "--all"]] {
        mainstay(command, &nowhere).refused(3, &["no such directory"]);
    }
    assert!(!nowhere.exists());
    // The command in the refusal makes room. The job's `keep` is 1.
    assert_eq!(space.mainstay(&["grow", "--like", path, "--keep", "2"]).code, 0);
    assert_eq!(space.mainstay(&["hold", "--revision", "3"]).code, 0);
}

/// A hold does not count if its note has bytes that would move a terminal's cursor, whatever wrote it.
#[test]
fn noise_in_the_holds_is_no_hold() {
    let space = Space::with(1, 2);
    space.mainstay(&["hold", "--note", "x"]);
    let at = space.holds_at();
    let file = File::options().write(true).open(space.layout()).unwrap();
    file.write_all_at(b"\x1b", at + 88).unwrap();
    let ran = space.mainstay(&["ls", "--json"]);
    assert_eq!((ran.code, ran.json()["holds"].as_array().unwrap().len()), (0, 0));
}
