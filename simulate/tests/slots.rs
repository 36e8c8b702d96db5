//! The messages of ranks in slots in a simulated cluster: each arrives once and in order, as MPI matches it, while ranks
//! move, are saved, and come back on other hosts; and wrong variants of the messages are found.

use std::{
    env,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// Runs in one process. Threads of killed processes stay until its end.
const BATCH: u64 = 300;

/// Wrong variants, each with a seed that shows it. After a change of the plans, `--mutant NAME` finds another.
const FOUND: [(&str, u64); 5] =
    [("NewestFirst", 1), ("WaitingNotSaved", 24), ("TakenNotSaved", 81), ("MovedNotPlaced", 4), ("DrainedTooEarly", 0)];

fn simulate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mainstay-simulate")).args(["--kind", "slots"]).args(words).output().unwrap()
}

/// 300 seeds. The campaign goes on with others for the time in MAINSTAY_CAMPAIGN_SECONDS, or an hour.
#[test]
fn messages_arrive_under_every_schedule_and_fault() {
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
fn wrong_variants_of_messages_are_found() {
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
