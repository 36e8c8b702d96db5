//! The interval between checkpoints that loses least time: each checkpoint costs time, and a failure costs the work
//! since the last.

use std::time::Duration;

/// J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974: sqrt(2 · cost ·
/// mtbf), between the end of one checkpoint and the beginning of the next. `cost`: the time that the program waits for
/// one checkpoint; `mtbf`: the mean time between failures.
pub fn young(cost: Duration, mtbf: Duration) -> Duration {
    seconds((2.0 * cost.as_secs_f64() * mtbf.as_secs_f64()).sqrt())
}

/// J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006, equation
/// 37. It is closer than [`young`] if the cost is not small beside `mtbf`. If the cost exceeds twice `mtbf`, the result
/// is `mtbf`.
pub fn daly(cost: Duration, mtbf: Duration) -> Duration {
    if cost >= 2 * mtbf {
        return mtbf;
    }
    let (cost, mtbf) = (cost.as_secs_f64(), mtbf.as_secs_f64());
    let ratio = cost / (2.0 * mtbf);
    seconds((2.0 * cost * mtbf).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost)
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_lost(interval: f64, cost: f64, mtbf: f64) -> f64 {
        // Daly 2006, equation 20, without the time of a restart: failures come at random, and also while saving.
        mtbf * ((interval + cost) / mtbf).exp_m1() / interval - 1.0
    }

    #[test]
    fn no_other_interval_loses_much_less() {
        for (cost, mtbf) in [(0.1, 86_400.0), (5.0, 3600.0), (60.0, 3600.0), (300.0, 1800.0)] {
            let best = (1..200_000).map(|i| share_lost(f64::from(i) * mtbf / 50_000.0, cost, mtbf));
            let best = best.fold(f64::INFINITY, f64::min);
            let of = |formula: fn(Duration, Duration) -> Duration| {
                let interval = formula(Duration::from_secs_f64(cost), Duration::from_secs_f64(mtbf));
                share_lost(interval.as_secs_f64(), cost, mtbf) / best
            };
            assert!(of(daly) < 1.01, "Daly loses {} of the least for {cost} s, {mtbf} s", of(daly));
            assert!(of(young) < 1.06 && of(daly) <= of(young) + 1e-3, "Young loses {}", of(young));
        }
    }

    #[test]
    fn the_extremes_are_defined() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        assert_eq!((daly(Duration::ZERO, hour), young(Duration::ZERO, hour)), (Duration::ZERO, Duration::ZERO));
        assert_eq!(daly(2 * hour, second), second);
        assert_eq!(daly(second, Duration::ZERO), Duration::ZERO);
    }
}
