//! Jobs of several ranks crash, restart, go back, fail, and write late at random, thousands of times. Every restore
//! gives one revision's bytes on all ranks, never older than the last acknowledged one.
//!
//! A failing test prints its seed; MAINSTAY_SEED=<number> runs that seed alone.

use crate::support::{
    often, one_or_all,
    schedule::{Tally, run},
};
use std::time::Instant;

fn campaign(seeds: std::ops::Range<u64>) {
    let (mut tally, started) = (Tally::default(), Instant::now());
    for seed in one_or_all(seeds) {
        match run(seed) {
            Ok(more) => tally += more,
            Err(why) => panic!("{why}\nMAINSTAY_SEED={seed} runs this schedule alone"),
        }
    }
    tell!("{tally:?} in {:.0?}", started.elapsed());
}

#[test]
fn no_schedule_mixes_or_loses_revisions() {
    campaign(0..often(12, 500));
}

#[test]
#[ignore = "long; make campaign runs it"]
fn no_schedule_of_very_many_mixes_or_loses_revisions() {
    campaign(1_000..4_000);
}
