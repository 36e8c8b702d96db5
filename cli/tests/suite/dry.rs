//! `--dry-run` prints the later actions of the command, and changes nothing.

use crate::support::{MAINSTAY, Ran, Space};
use std::{fs, path::Path, process::Command, time::SystemTime};

/// All files below the folder, with their contents and times of change.
fn contents(folder: &Path) -> Vec<(String, SystemTime, Vec<u8>)> {
    let mut all = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = if path.is_dir() {
            all.extend(contents(&path));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        all.push((path.display().to_string(), path.metadata().unwrap().modified().unwrap(), bytes));
    }
    all.sort();
    all
}

/// The command with `--dry-run`, as text and as a document. Nothing changes.
fn dry(space: &Space, words: &[&str], says: &str) -> serde_json::Value {
    let run = |more: &[&str]| {
        let mut command = Command::new(MAINSTAY);
        command.arg(words[0]).arg(space.path()).args(&words[1..]).arg("--dry-run").args(more);
        command.current_dir(space.directory.path()).output().map(Ran::of).unwrap()
    };
    let before = contents(space.directory.path());
    let (text, json) = (run(&[]), run(&["--json"]));
    assert!(contents(space.directory.path()) == before, "{words:?} changed something");
    assert!(text.code == 0 && text.out.contains(says), "no {says:?}: {text:?}");
    let document = json.json();
    assert_eq!((json.code, &document["dry_run"]), (0, &true.into()), "{json:?}");
    document
}

fn really(space: &Space, words: &[&str]) -> serde_json::Value {
    let mut command = Command::new(MAINSTAY);
    command.arg(words[0]).arg(space.path()).args(&words[1..]).arg("--json").current_dir(space.directory.path());
    let ran = command.output().map(Ran::of).unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

#[test]
fn hold_and_release() {
    let space = Space::with(2, 5);
    let document = dry(&space, &["hold"], "revision 5 (lineage 1) would be held until it is released");
    assert_eq!((&document["revision"], &document["counts"]), (&5.into(), &true.into()));
    assert!(document["hold"].is_null());
    dry(&space, &["release", "--all"], "nothing was held");
    really(&space, &["hold"]);
    let would = dry(&space, &["release", "--all"], "revision 5 would be released");
    assert_eq!(would["released"], really(&space, &["release", "--all"])["released"]);
    let mut wrong = Command::new(MAINSTAY);
    let ran =
        wrong.arg("release").arg(space.path()).args(["--revision", "77", "--dry-run"]).output().map(Ran::of).unwrap();
    ran.refused(1, &["revision 77 in"]);
}

#[test]
fn prune_tells_of_the_layouts_that_would_go_too() {
    let space = Space::with(1, 3);
    really(&space, &["grow", "--ranks", "3", "--per-rank", "1MiB"]);
    space.run(|_, session, _| {
        assert_eq!((session.restore().unwrap().unwrap().revision, session.checkpoint().unwrap()), (3, 4))
    });
    let rules = ["prune", "--keep-last", "1"];
    let mut would = dry(&space, &rules, "nothing was changed");
    let done = really(&space, &rules);
    would["dry_run"] = false.into();
    assert_eq!(would, done);
}

#[test]
fn reserve_and_grow() {
    let space = Space::new(1);
    let sizes = ["--ranks", "3", "--per-rank", "320000"];
    let would = dry(&space, &[&["reserve"], &sizes[..]].concat(), "nothing was changed");
    assert!(!space.path().exists());
    let done = really(&space, &[&["reserve"], &sizes[..]].concat());
    let alike = |document: &serde_json::Value| {
        let file = &document["files"][0];
        (file["ranks"].clone(), file["bytes"].clone(), file["used_bytes"].clone(), document["layouts_removed"].clone())
    };
    assert_eq!(alike(&would), alike(&done));
    assert_eq!(would["files"][0]["file"], "layout-000001-000000-*.mainstay");
    // A layout without revisions is replaced.
    let again = dry(&space, &[&["reserve"], &sizes[..]].concat(), "holds nothing and would be removed");
    assert_eq!(again["layouts_removed"][0], done["files"][0]["file"]);

    space.run(|_, session, _| assert_eq!(session.checkpoint().unwrap(), 1));
    let ran = Command::new(MAINSTAY).arg("reserve").arg(space.path()).args(sizes).arg("--dry-run").output();
    ran.map(Ran::of).unwrap().refused(2, &["a job has saved to it"]);
    let more = ["grow", "--per-rank", "1MiB"];
    let would = dry(&space, &more, "layout-000002-000000-*.mainstay");
    assert_eq!(alike(&would), alike(&really(&space, &more)));
    space.run(|rank, _, _| {
        if rank == 0 {
            let ran = Command::new(MAINSTAY).args(["grow", "--ranks", "4", "--dry-run"]).arg(space.path()).output();
            ran.map(Ran::of).unwrap().refused(4, &["in use by another job"]);
        }
    });
}

#[test]
fn export_and_view() {
    let space = Space::with(1, 3);
    let export = ["export", "out", "--shard", "1"];
    let would = dry(&space, &export, "revision 3 (lineage 1): 1 file, 312 KiB, would be written, to out");
    assert_eq!(would["files"], really(&space, &export)["files"]);
    let refused = |words: &[&str]| {
        let mut command = Command::new(MAINSTAY);
        command.arg(words[0]).arg(space.path()).args(&words[1..]).current_dir(space.directory.path());
        command.arg("--dry-run").output().map(Ran::of).unwrap().refused(4, &["exists already"]);
    };
    refused(&export);
    let view = ["view", "--hdf5", "out.h5"];
    let would = dry(&space, &view, "would be shown by");
    assert_eq!(would["datasets"], really(&space, &view)["datasets"]);
    refused(&view);
}
