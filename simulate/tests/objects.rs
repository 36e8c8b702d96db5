//! Objects in a simulated cluster: each is on one rank and has the right state after every move, recovery and restore, and
//! wrong variants of objects are found.

use std::{
    env,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Runs in one process. Threads of killed processes stay until its end.
const BATCH: u64 = 40;

/// Wrong variants, each with a seed that shows it. After a change of the plans, `--mutant NAME` finds another.
const FOUND: [(&str, u64); 5] =
    [("OlderEpochTaken", 260), ("MovedStays", 1), ("MoveNotNoted", 1), ("EpochNotAgreed", 21), ("MessagesNotSaved", 0)];

fn simulate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mainstay-simulate")).args(["--kind", "objects"]).args(words).output().unwrap()
}

/// 40 seeds. The campaign goes on with others for the time in MAINSTAY_CAMPAIGN_SECONDS, or an hour.
#[test]
fn objects_are_right_under_every_schedule_and_fault() {
    let seconds = env::var("MAINSTAY_CAMPAIGN_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3600);
    let until = env::var_os("CAMPAIGN").map(|_| Instant::now() + Duration::from_secs(seconds));
    let mut from = 0;
    while from == 0 || until.is_some_and(|until| Instant::now() < until) {
        let ran = simulate(&["--from", &from.to_string(), "--count", &BATCH.to_string()]);
        assert!(
            ran.status.success(),
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        );
        from += BATCH;
    }
}

#[test]
fn wrong_variants_of_objects_are_found() {
    let escaped: Vec<_> = FOUND
        .iter()
        .filter(|(name, seed)| {
            simulate(&["--mutant", name, "--from", &seed.to_string(), "--count", "1"]).status.success()
        })
        .collect();
    assert!(escaped.is_empty(), "{escaped:?}");
    let known = String::from_utf8(simulate(&["--mutants"]).stdout).unwrap();
    assert!(FOUND.iter().all(|(name, _)| known.contains(&format!("{name}: "))));
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let [one, other] = [(); 2].map(|()| {
        let ran = simulate(&["--seed", "21"]);
        assert!(ran.status.success() && ran.stdout.len() > 10_000);
        // The folder has another number while other simulations run.
        let lines = String::from_utf8(ran.stdout).unwrap();
        lines.lines().filter(|line| !line.contains("mainstay-simulated-")).map(str::to_owned).collect::<Vec<_>>()
    });
    let differs = one.iter().zip(&other).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert_eq!(one.len(), other.len());
}
