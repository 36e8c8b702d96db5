//! The probability that a job fails, without checkpoints and with copies on two nodes. G. Zheng, L. Shi, L. V. Kalé,
//! FTC-Charm++, IEEE Cluster 2004 (paper 002), section 4.3: n nodes, each with the mean time between failures M = 1/λ;
//! a run of R without checkpoints, R' with them; C from one checkpoint to the next.
//!
//! λR stands for the probability that a node fails within R. This holds only while it is small. From 1 on it is not a
//! probability, and the formulas are refused. They are for two copies, on n/2 pairs of nodes that are only each other's
//! buddies. If a node's copies are on k others, there are up to 2k times as many pairs, and as many more possible
//! failures.

use crate::error::{Error, Result};
use std::time::Duration;

/// Formula (1): 1 − (1 − λR)ⁿ, the probability that any of `nodes` fails within `run`. `InvalidArgument`: the formula
/// does not hold for these numbers.
pub fn failure_without_checkpoints(nodes: u64, node_mtbf: Duration, run: Duration) -> Result<f64> {
    if nodes == 0 {
        return Err(Error::argument("nodes", "formula (1) needs at least one"));
    }
    Ok(any_of(nodes as f64, share("the run", run, node_mtbf)?))
}

/// Formula (2): 1 − (1 − λ²R'C)^(n/2), the probability that both nodes of any pair fail between two checkpoints.
/// `InvalidArgument`: the formula does not hold for these numbers.
pub fn failure_with_buddies(nodes: u64, node_mtbf: Duration, run: Duration, interval: Duration) -> Result<f64> {
    if nodes < 2 || !nodes.is_multiple_of(2) {
        return Err(Error::argument("nodes", "formula (2) is for pairs of nodes: an even number of them"));
    }
    if interval.is_zero() || interval > run {
        let why = "give more than 0 and at most the length of the run";
        return Err(Error::argument("the time from one checkpoint to the next", why));
    }
    let fails = share("the run", run, node_mtbf)?;
    // The interval is at most the length of the run, so it is within the limits of the formula.
    Ok(any_of(nodes as f64 / 2.0, fails * (interval.as_secs_f64() / node_mtbf.as_secs_f64())))
}

/// The probability that the loss of a node takes the last copy of a shard along: the other copies were on nodes that
/// were lost within `exposed` before. The time stands for C of section 4.3; λ·`exposed` is the probability that a node is
/// among those. As [`Buddies`](crate::group) chooses them, the copies of a node's ranks are on several others: a node is
/// in up to `copies` groups for each rank on it. `node_mtbf`: between losses of one node. 1 for a single copy.
pub fn last_copy_lost(nodes: u64, ranks_per_node: u64, copies: u64, node_mtbf: Duration, exposed: Duration) -> f64 {
    let others = nodes.saturating_sub(1) as f64;
    let groups_max = (1..copies).map(|one| (others + 1.0 - one as f64) / one as f64).product();
    let groups = f64::min(copies as f64 * others.min(ranks_per_node as f64), groups_max);
    let lost = (exposed.as_secs_f64() / node_mtbf.as_secs_f64()).powi(copies as i32 - 1).min(1.0);
    if copies <= 1 { 1.0 } else { any_of(groups, lost) }
}

/// λ times `time`.
fn share(what: &str, time: Duration, node_mtbf: Duration) -> Result<f64> {
    if time >= node_mtbf {
        let why =
            "it is as long as the mean time between failures of a node, or longer: formulas (1) and (2) do not hold";
        return Err(Error::argument(what, why));
    }
    Ok(time.as_secs_f64() / node_mtbf.as_secs_f64())
}

/// 1 − (1 − each)^count, accurate even if `each` is very small.
fn any_of(count: f64, each: f64) -> f64 {
    -(count * (-each).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// 5,000 nodes, 20 years of 8,760 hours each, 400 and 1,200 hours, 6 minutes.
    #[test]
    fn the_example_of_the_paper() {
        let node_mtbf = 20 * 8760 * HOUR;
        let without = failure_without_checkpoints(5000, node_mtbf, 400 * HOUR).unwrap();
        assert_eq!(format!("{:.4} %", 100.0 * without), "99.9989 %");
        let with = failure_with_buddies(5000, node_mtbf, 1200 * HOUR, HOUR / 10).unwrap();
        assert_eq!(format!("{:.6} %", 100.0 * with), "0.000977 %");
    }

    #[test]
    fn what_is_small_is_not_lost() {
        let year = 8760 * HOUR;
        let with = failure_with_buddies(2, 1000 * year, HOUR, Duration::from_nanos(1)).unwrap();
        let expected = (1.0 / 8.76e6) * (1e-9 / 3600.0 / 8.76e6);
        assert!((with / expected - 1.0).abs() < 1e-9, "{with}");
    }

    /// Formula (2) asks that both fail in the same C. If C begins with the first failure, it covers either order.
    #[test]
    fn one_pair_is_formula_2() {
        let (node_mtbf, run, exposed) = (8760 * HOUR, 100 * HOUR, HOUR / 10);
        let expected = failure_with_buddies(2, node_mtbf, run, 2 * exposed).unwrap();
        let losses = 2.0 * share("the run", run, node_mtbf).unwrap();
        let lost = last_copy_lost(2, 64, 2, node_mtbf, exposed);
        assert!((losses * lost / expected - 1.0).abs() < 1e-3, "{lost}");
        // A rank of each of 64 has its copy on another node, and holds the copy of another.
        let spread = last_copy_lost(1000, 64, 2, node_mtbf, exposed);
        assert!((spread / lost / 128.0 - 1.0).abs() < 1e-2, "{spread}");
        assert_eq!(last_copy_lost(1000, 64, 1, node_mtbf, exposed), 1.0);
        let third = last_copy_lost(1000, 64, 3, node_mtbf, exposed);
        assert!((third / (192.0 * (0.1 / 8760.0_f64).powi(2)) - 1.0).abs() < 1e-2, "{third}");
        // Three nodes are one group of three.
        assert!((last_copy_lost(3, 64, 3, HOUR, HOUR / 10) / 0.01 - 1.0).abs() < 1e-9);
        assert_eq!(last_copy_lost(2, 64, 2, HOUR, HOUR), 1.0);
    }

    #[test]
    fn where_they_do_not_hold_they_are_refused() {
        let why = |result: Result<f64>, words: &str| {
            let text = result.unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        };
        why(failure_without_checkpoints(0, HOUR, HOUR / 2), "at least one");
        why(failure_without_checkpoints(2, HOUR, HOUR), "do not hold");
        why(failure_without_checkpoints(2, Duration::ZERO, Duration::ZERO), "do not hold");
        why(failure_with_buddies(2, HOUR, 2 * HOUR, HOUR / 10), "do not hold");
        why(failure_with_buddies(3, HOUR, HOUR / 2, HOUR / 10), "pairs");
        why(failure_with_buddies(0, HOUR, HOUR / 2, HOUR / 10), "pairs");
        why(failure_with_buddies(2, HOUR, HOUR / 4, HOUR / 2), "at most the length of the run");
        why(failure_with_buddies(2, HOUR, HOUR / 4, Duration::ZERO), "more than 0");
    }
}
