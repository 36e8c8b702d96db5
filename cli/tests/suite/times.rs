//! Times are printed in the local time zone, or with `--utc` in UTC; documents have the same times in any zone.

use crate::support::{MAINSTAY, Ran, Space};
use std::process::Command;

fn run(space: &Space, zone: &str, words: &[&str]) -> Ran {
    let mut command = Command::new(MAINSTAY);
    command.env("TZ", zone).arg(words[0]).arg(space.path()).args(&words[1..]);
    let ran = command.output().map(Ran::of).unwrap();
    assert_eq!(ran.code, 0, "{words:?}: {ran:?}");
    ran
}

/// The seconds since midnight of the first time of day in `text`.
fn seconds(text: &str) -> i64 {
    let is_time = |word: &&str| word.len() == 8 && word.bytes().filter(|byte| *byte == b':').count() == 2;
    let time = text.split_whitespace().find(is_time).unwrap_or_else(|| panic!("no time in {text}"));
    time.split(':').fold(0, |sum, part| 60 * sum + part.parse::<i64>().unwrap())
}

#[test]
fn every_command_tells_times_in_the_local_zone_or_in_utc() {
    let space = Space::with(2, 2);
    assert_eq!(space.mainstay(&["hold", "--for", "7d"]).code, 0);
    let commands: [&[&str]; 6] = [
        &["ls"],
        &["show"],
        &["advise"],
        &["prune", "--keep-last", "1", "--dry-run"],
        &["hold", "--for", "3h", "--dry-run"],
        &["copy", "/nowhere/at/all", "--dry-run"],
    ];
    // Seven and a half hours before UTC, in a zone without a name.
    let zone = "<-0730>7:30";
    for words in commands {
        let (local, utc) = (run(&space, zone, words), run(&space, zone, &[words, &["--utc"]].concat()));
        assert!(local.out.contains("(local time)") && !local.out.contains("UTC"), "{local:?}");
        assert!(utc.out.contains("(UTC)") && !utc.out.contains("local"), "{utc:?}");
        assert_eq!(run(&space, "UTC0", words).out.lines().count(), local.out.lines().count());
        // The time of a hold with a duration begins anew with each look.
        let after = (seconds(&utc.out) - seconds(&local.out)).rem_euclid(86_400);
        assert!((27_000..27_060).contains(&after), "{after} s: {local:?} {utc:?}");
        if !words.contains(&"3h") {
            let documents = [zone, "UTC0"].map(|zone| run(&space, zone, &[words, &["--json"]].concat()).json());
            assert_eq!(documents[0], documents[1]);
        }
    }
    // A named zone, if the system knows it, and a nonsense zone, which means UTC.
    if std::path::Path::new("/usr/share/zoneinfo/Asia/Kolkata").exists() {
        assert!(run(&space, "Asia/Kolkata", &["ls"]).out.contains("saved (Asia/Kolkata)"));
    }
    assert!(run(&space, "UTC", &["ls"]).out.contains("saved (UTC)"));
}

#[test]
fn pages_tell_their_zone() {
    let mut space = Space::new(1);
    space.config.memory = mainstay_engine::LevelPlace::At(space.directory.path().join("memory"));
    space.run(|_, session, _| {
        session.checkpoint().unwrap();
    });
    let page = space.directory.path().join("page.html");
    for (more, zone) in [(&[][..], "local time"), (&["--utc"], "UTC")] {
        let words = [&["report", "-o", page.to_str().unwrap()], more].concat();
        run(&space, "<-0730>7:30", &words);
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(&format!("({zone}). All times are of this zone.")), "{zone}");
    }
    assert!(run(&space, "<-0730>7:30", &["status"]).out.contains("(local time)"));
}

/// The opening time was in UTC in every zone.
#[test]
fn who_has_a_space_open_is_told_in_the_zone_of_the_command() {
    let space = Space::with(1, 1);
    space.run(|_, _, _| {
        let refused = |more: &[&str]| {
            let mut command = Command::new(MAINSTAY);
            command.env("TZ", "<-0730>7:30").arg("prune").arg(space.path()).args(["--keep-last", "1"]).args(more);
            let ran = command.output().map(Ran::of).unwrap();
            ran.refused(4, &["in use by another job", "its rank 0, has had it open since 20"]);
            ran.err
        };
        let (local, utc) = (refused(&[]), refused(&["--utc"]));
        assert!(local.contains("(local time)") && utc.contains("(UTC)"), "{local} {utc}");
        assert_eq!((seconds(&utc) - seconds(&local)).rem_euclid(86_400), 27_000, "{local} {utc}");
    });
}
