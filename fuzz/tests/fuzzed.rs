//! Every reader of foreign bytes survives hostile bytes: it does not panic, and takes little memory and time. Readers that are
//! wrong on purpose are found.

use mainstay_fuzz::{kept, targets};
use std::{
    env,
    process::{Command, Output},
    time::{Duration, Instant},
};
use tempfile::TempDir;

fn fuzz(words: &[&str]) -> Output {
    // Also after a crash nothing is left in memory.
    let scratch = TempDir::new_in("/dev/shm").unwrap();
    Command::new(env!("CARGO_BIN_EXE_mainstay-fuzz")).args(words).env("TMPDIR", scratch.path()).output().unwrap()
}

fn text(ran: &Output) -> String {
    [&ran.stdout[..], &ran.stderr].map(String::from_utf8_lossy).concat()
}

/// Each target with its usual number of inputs. The campaign goes on with other seeds for the time in
/// MAINSTAY_CAMPAIGN_SECONDS, or an hour.
#[test]
fn no_bytes_harm_a_reader() {
    let seconds = env::var("MAINSTAY_CAMPAIGN_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3600);
    let until = env::var_os("CAMPAIGN").map(|_| Instant::now() + Duration::from_secs(seconds));
    let mut round = 0;
    while round == 0 || until.is_some_and(|until| Instant::now() < until) {
        for target in targets::all() {
            let from = (round * target.count).to_string();
            let ran = fuzz(&["--target", target.name, "--from", &from]);
            assert!(ran.status.success(), "{} from {from}: {}", target.name, text(&ran));
        }
        round += 1;
    }
}

#[test]
fn wrong_readers_are_found() {
    for (target, says) in targets::wrong().zip([
        "out of range for slice",
        "attempt to add with overflow",
        "bytes of memory for an input of",
        "of processor time",
        "it changes when it is written and read again",
    ]) {
        let ran = fuzz(&["--target", target.name]);
        assert!(!ran.status.success() && text(&ran).contains(says), "{}: {}", target.name, text(&ran));
    }
}

/// A fault names the seed of its input. The input of a seed is the same each time, and is a fault as a file, too.
#[test]
fn a_fault_comes_back_from_its_seed() {
    let seed = text(&fuzz(&["--target", "wrong-bound"])).split([' ', ':']).nth(3).unwrap().to_owned();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("input");
    let path = path.to_str().unwrap();
    assert!(fuzz(&["--target", "wrong-bound", "--from", &seed, "--save", path]).status.success());
    for words in [["--from", &seed, "--count", "1"].as_slice(), &["--file", path]] {
        let ran = fuzz(&[&["--target", "wrong-bound"], words].concat());
        assert!(!ran.status.success() && text(&ran).contains("out of range for slice"), "{}", text(&ran));
    }
}

/// `make fuzz` finds the targets by their folders.
#[test]
fn each_target_has_kept_inputs() {
    let names = |targets: Vec<String>| targets.into_iter().collect::<std::collections::BTreeSet<_>>();
    let folders = std::fs::read_dir(kept::folder()).unwrap().map(|entry| entry.unwrap());
    let folders = folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string().unwrap());
    assert_eq!(names(folders.collect()), names(targets::all().map(|target| target.name.to_owned()).collect()));
}

#[test]
fn an_unknown_target_is_refused() {
    let ran = fuzz(&["--target", "perfect"]);
    assert!(!ran.status.success() && text(&ran).contains("there is no such target"), "{}", text(&ran));
}
