//! `trace` passes its options on to the program that it becomes.

use crate::support::{MAINSTAY, Ran};
use std::{path::Path, process::Command};
use tempfile::TempDir;

fn trace(at: &Path, words: &[&str]) -> Ran {
    Command::new(MAINSTAY).arg("trace").args(words).current_dir(at).output().map(Ran::of).unwrap()
}

#[test]
fn the_program_is_told_where_and_how_often() {
    let folder = TempDir::new().unwrap();
    let at = folder.path().canonicalize().unwrap();
    let told = |words: &[&str]| {
        let program = ["--", "sh", "-c", "echo $MAINSTAY_TRACE $MAINSTAY_TICK_SECONDS; exit 7"];
        trace(&at, &[words, &program].concat())
    };
    let ran = told(&[]);
    assert_eq!((ran.code, ran.out.trim()), (7, at.join("trace").to_str().unwrap()));
    assert!(at.join("trace").is_dir());
    let ran = told(&["--out", "here/and there", "--every", "10ms"]);
    assert_eq!(ran.out.trim(), format!("{} 0.01", at.join("here/and there").display()));
}

#[test]
fn what_cannot_be_started_is_told_as_a_shell_does() {
    let folder = TempDir::new().unwrap();
    trace(folder.path(), &["--", "./none"]).refused(127, &["./none"]);
    trace(folder.path(), &["--", "/dev/null"]).refused(126, &["/dev/null"]);
    trace(folder.path(), &["--out", "/dev/null/x", "--", "true"]).refused(4, &["/dev/null/x"]);
    trace(folder.path(), &[]).refused_usage();
}

/// The tip was missing for a job without dashes, and the message called `./simulation` unexpected.
#[test]
fn a_job_without_dashes_in_front_is_told_the_right_call() {
    for command in ["run", "trace"] {
        let ran = Command::new(MAINSTAY).args([command, "./simulation", "input.toml"]).output().map(Ran::of).unwrap();
        let call = format!("mainstay {command} -- ./simulation ...");
        assert!(ran.code == 2 && ran.err.contains(&call), "{ran:?}");
    }
}
