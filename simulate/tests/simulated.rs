//! The engine in a simulated cluster: it keeps its promises, a seed gives the same run each time, and wrong variants of the
//! engine are found.

use std::{
    env,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Runs in one process. Threads of killed processes stay until its end.
const BATCH: u64 = 100;

/// Wrong variants, each with a seed that shows it. After a change of the plans, `--mutant NAME` finds another.
const FOUND: [(&str, u64); 29] = [
    ("SlotByParity", 26),
    ("SlotNotSynced", 4),
    ("DirectoryNotSynced", 4),
    ("NoId", 4),
    ("MinimumInsteadOfIntersection", 3),
    ("OlderDroppedAtOnce", 13),
    ("CommittedTooEarly", 0),
    ("PieceLeftOut", 1),
    ("CopiesNotAwaited", 9),
    ("CopyNotPublished", 1),
    ("CopyCountsTooEarly", 27),
    ("HolderBeside", 9),
    ("HolderInDomain", 42),
    ("LineageNotRenewed", 2),
    ("NumberUsedAgain", 3),
    ("MemoryFreedUnsaved", 4),
    ("LeftOnDisks", 4),
    ("LocksIgnored", 1),
    ("HoldsForgotten", 5),
    ("PruneTakesHeld", 23),
    ("SalvageWithoutChunks", 2),
    ("NoteNotSynced", 3),
    ("AgreementLeftOut", 2),
    ("SlotOverNewest", 26),
    ("LayoutDroppedEarly", 5),
    ("WaitsForNothing", 88),
    ("FailureNotTold", 76),
    ("RollbackLeavesNewest", 105),
    ("FartherNotAwaited", 141),
];

fn simulate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mainstay-simulate")).args(words).output().unwrap()
}

fn batch(from: u64, count: u64) {
    let ran = simulate(&["--from", &from.to_string(), "--count", &count.to_string()]);
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}

/// 200 seeds. The campaign goes on with others for the time in MAINSTAY_CAMPAIGN_SECONDS, or an hour.
#[test]
fn all_promises_are_kept_under_every_schedule_and_fault() {
    let seconds = env::var("MAINSTAY_CAMPAIGN_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3600);
    let until = env::var_os("CAMPAIGN").map(|_| Instant::now() + Duration::from_secs(seconds));
    let mut from = 0;
    while from < 2 * BATCH || until.is_some_and(|until| Instant::now() < until) {
        batch(from, BATCH);
        from += BATCH;
    }
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in ["3", "8", "21"] {
        let [one, other] = [(); 2].map(|()| simulate(&["--seed", seed]));
        assert!(one.status.success() && one.stdout.len() > 10_000, "seed {seed}");
        let [one, other] = [one, other].map(|ran| String::from_utf8(ran.stdout).unwrap());
        let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
}

#[test]
fn wrong_variants_of_the_engine_are_found() {
    let escaped: Vec<_> = FOUND
        .iter()
        .filter(|(name, seed)| {
            let ran = simulate(&["--mutant", name, "--from", &seed.to_string(), "--count", "1"]);
            // Also a crash of the process is a find: a wrong engine may do anything.
            ran.status.success()
        })
        .collect();
    assert!(escaped.is_empty(), "{escaped:?}");
    let known = String::from_utf8(simulate(&["--mutants"]).stdout).unwrap();
    assert!(FOUND.iter().all(|(name, _)| known.contains(&format!("{name}: "))));
}

/// The story of a wrong variant, whole and cut down.
#[test]
fn a_plan_that_fails_is_cut_down() {
    let stories = [&["--shrink"][..], &[]].map(|more| {
        let words = [&["--mutant", "OlderDroppedAtOnce", "--seed", "13"], more].concat();
        let ran = simulate(&words);
        assert!(!ran.status.success());
        String::from_utf8(ran.stdout).unwrap()
    });
    let [cut, whole] = stories.map(|story| story.lines().count());
    assert!(cut * 4 < whole * 3, "{cut} of {whole} lines");
}

#[test]
fn an_unknown_variant_is_refused() {
    let ran = simulate(&["--mutant", "Perfect"]);
    assert!(!ran.status.success());
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "there is no wrong variant Perfect; --mutants lists them\n");
}
