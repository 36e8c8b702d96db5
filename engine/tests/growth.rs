//! How a session grows with the ranks, by counting, with threads as ranks: messages, requests to file systems, and
//! memory a rank. No count may grow faster than the logarithm of the number of ranks, and none for one rank alone: of
//! each count, the rank with the most is taken. [`EXCEPTIONS`] lists the counts that grow faster, with reasons.
//!
//! The allocator counts, so this test is alone in its program.

#[path = "growth/allocated.rs"]
mod allocated;
#[path = "growth/counted_device.rs"]
mod counted_device;
#[path = "growth/counted_group.rs"]
mod counted_group;
#[path = "growth/counts.rs"]
mod counts;
#[path = "growth/exceptions.rs"]
mod exceptions;
#[path = "growth/job.rs"]
mod job;
#[macro_use]
mod support;

use counts::{Most, PHASES, QUANTITIES, Quantity};
use exceptions::EXCEPTIONS;
use std::sync::Mutex;

/// The counts of jobs of `sizes`, each four times as large as the one before, grow as stated. `on_node`: the most ranks of a
/// node.
fn grow(sizes: &[usize], on_node: usize) {
    // Two jobs at a time would count each other's mappings.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let jobs: Vec<Most> = sizes.iter().map(|ranks| job::counted(*ranks, on_node.min(ranks / 2))).collect();
    let mut wrong = Vec::new();
    for (phase, quantity) in PHASES.into_iter().flat_map(|phase| QUANTITIES.map(|quantity| (phase, quantity))) {
        let counts: Vec<u64> = jobs.iter().map(|most| most.of(phase, quantity)).collect();
        let told =
            format!("{phase}: {} {counts:?}, {:.1} for each further rank", quantity.name(), slope(sizes, &counts));
        println!("{told}");
        let excepted = EXCEPTIONS.iter().find(|exception| exception.is_of(phase, quantity));
        match excepted {
            None if !is_logarithmic(sizes, &counts, quantity, 0.0) => wrong.push(told),
            Some(stated) if !is_logarithmic(sizes, &counts, quantity, stated.each) => {
                wrong.push(format!("{told}, more than the exception ({}) states", stated.why));
            }
            // Slow growth shows only in large jobs.
            Some(stated) if sizes.len() > 3 && is_logarithmic(sizes, &counts, quantity, 0.0) => {
                wrong.push(format!("{told}, and the exception ({}) is not needed", stated.why));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "counts that do not grow as stated, with {sizes:?} ranks:\n{}", wrong.join("\n"));
}

/// Growth for each further rank, between the two largest jobs.
fn slope(sizes: &[usize], counts: &[u64]) -> f64 {
    let [.., few, many] = sizes else { return 0.0 };
    let [.., before, after] = counts else { return 0.0 };
    (*after as f64 - *before as f64) / (many - few) as f64
}

/// Whether the counts without `each` for every rank grow no faster than the logarithm. A logarithm grows by the same
/// amount from each size to the next, so no growth may be greater than the growth before it by more than half.
fn is_logarithmic(sizes: &[usize], counts: &[u64], quantity: Quantity, each: f64) -> bool {
    let rest: Vec<f64> = sizes.iter().zip(counts).map(|(size, count)| *count as f64 - each * *size as f64).collect();
    let growth: Vec<f64> = rest.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0)).collect();
    growth.windows(2).all(|pair| pair[1] <= 1.5 * pair[0] + quantity.tolerance())
}

#[test]
fn counts_grow_with_the_logarithm_of_the_ranks() {
    grow(&[4, 16, 64], 8);
}

#[test]
#[ignore = "long; make campaign runs it"]
fn counts_of_many_ranks_grow_with_the_logarithm() {
    // A rank opens the files of its node, and one process can open only so many.
    grow(&[4, 16, 64, 256, 1024], 2);
}
