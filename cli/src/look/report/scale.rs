//! Axes: the places of times and values in a picture, and their labels.

/// A quiet gap is cut out if it is longer than this share of the rest.
const GAP_PART: f64 = 0.25;
/// The width that remains of a cut in the picture.
const CUT_WIDTH: f64 = 24.0;
const TICKS: f64 = 8.0;

/// The axis of time: active periods, each as wide as it is long.
pub struct TimeScale {
    stretches: Vec<Stretch>,
}

/// Begin and end, in nanoseconds since 1970 and in the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    pub from_ns: u64,
    pub to_ns: u64,
    pub from: f64,
    pub to: f64,
}

impl TimeScale {
    /// An axis of periods, earliest first, from `left` to `right`.
    pub fn new(mut spans: Vec<(u64, u64)>, left: f64, right: f64) -> TimeScale {
        spans.sort_unstable();
        let mut united: Vec<(u64, u64)> = Vec::new();
        for (from, to) in spans {
            match united.last_mut() {
                Some((_, end)) if from <= *end => *end = to.max(*end),
                _ => united.push((from, to.max(from))),
            }
        }
        let busy = united.iter().map(|(from, to)| to - from).sum::<u64>().max(1_000_000) as f64;
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for (from, to) in united {
            match kept.last_mut() {
                Some((_, end)) if ((from - *end) as f64) < busy * GAP_PART => *end = to,
                _ => kept.push((from, to)),
            }
        }
        let total = kept.iter().map(|(from, to)| to - from).sum::<u64>().max(1) as f64;
        // With very many cuts, they would take all the room.
        let cut = CUT_WIDTH.min((right - left) / 2.0 / kept.len().max(1) as f64);
        let per_ns = (right - left - cut * kept.len().saturating_sub(1) as f64) / total;
        let mut x = left;
        let stretches = kept.iter().map(|(from_ns, to_ns)| {
            let from = x;
            let to = from + (to_ns - from_ns) as f64 * per_ns;
            x = to + cut;
            Stretch { from_ns: *from_ns, to_ns: *to_ns, from, to }
        });
        TimeScale { stretches: stretches.collect() }
    }

    pub fn x(&self, ns: u64) -> f64 {
        let at = self.stretches.partition_point(|stretch| stretch.from_ns <= ns).saturating_sub(1);
        let Some(stretch) = self.stretches.get(at) else { return 0.0 };
        let ns = ns.clamp(stretch.from_ns, stretch.to_ns);
        let length = (stretch.to_ns - stretch.from_ns).max(1) as f64;
        stretch.from + (stretch.to - stretch.from) * ((ns - stretch.from_ns) as f64 / length)
    }

    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Times to label: the time since the begin of the period, and the place.
    pub fn ticks(&self) -> Vec<(u64, f64)> {
        let busy: u64 = self.stretches.iter().map(|stretch| stretch.to_ns - stretch.from_ns).sum();
        let step = time_step(busy as f64 / TICKS);
        let mut ticks = Vec::new();
        for stretch in &self.stretches {
            let mut after = step;
            while stretch.from_ns + after <= stretch.to_ns && ticks.len() < 100 {
                let x = self.x(stretch.from_ns + after);
                // The begin has a label of its own.
                if x - stretch.from > 60.0 {
                    ticks.push((after, x));
                }
                after += step;
            }
        }
        ticks
    }
}

/// A round time of about `ns`.
fn time_step(ns: f64) -> u64 {
    const SECOND: f64 = 1e9;
    const ROUND: [f64; 20] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0,
        43_200.0, 86_400.0, 172_800.0, 432_000.0,
    ];
    if ns < SECOND {
        return round(ns) as u64;
    }
    let step = ROUND.iter().find(|step| **step * SECOND >= ns).map_or_else(|| round(ns), |step| step * SECOND);
    (step as u64).max(1)
}

/// The next 1, 2 or 5 times a power of ten, at least `value`.
fn round(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let zeros = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * zeros).find(|step| *step >= value * 0.999).unwrap_or(value)
}

/// The axis of values, from zero up.
pub struct ValueScale {
    pub max: f64,
    pub step: f64,
    bottom: f64,
    top: f64,
}

impl ValueScale {
    /// For values up to `max`, drawn from `bottom` up to `top`. With `base` 1024 the steps are round numbers of bytes.
    pub fn new(max: f64, base: f64, bottom: f64, top: f64) -> ValueScale {
        let max = if max > 0.0 { max } else { 1.0 };
        let unit = base.powf((max.log10() / base.log10()).floor().max(0.0));
        let step = round(max / unit / 4.0) * unit;
        ValueScale { max: (max / step).ceil() * step, step, bottom, top }
    }

    pub fn y(&self, value: f64) -> f64 {
        self.bottom + (self.top - self.bottom) * (value / self.max).clamp(0.0, 1.0)
    }

    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = (self.max / self.step).round() as u32;
        (0..=count).map(|at| f64::from(at) * self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn long_gaps_are_cut_out_and_short_ones_stay() {
        let spans = vec![(0, 100 * SECOND), (110 * SECOND, 200 * SECOND), (90_000 * SECOND, 90_100 * SECOND)];
        let scale = TimeScale::new(spans, 0.0, 324.0);
        assert_eq!(scale.stretches().len(), 2);
        assert_eq!(
            [0, 100, 200, 90_000, 90_100].map(|s| scale.x(s * SECOND).round()),
            [0.0, 100.0, 200.0, 224.0, 324.0]
        );
        // A time in a gap, or before or after all periods, is at its edge.
        assert_eq!([300, 90_200].map(|s| scale.x(s * SECOND).round()), [200.0, 324.0]);
        let ticks: Vec<u64> = scale.ticks().iter().map(|(after, _)| after / SECOND).collect();
        assert_eq!(ticks, [120, 180]);
    }

    #[test]
    fn no_time_at_all_is_a_picture_too() {
        for spans in [vec![], vec![(5, 5)], vec![(u64::MAX >> 2, u64::MAX >> 2)]] {
            let scale = TimeScale::new(spans, 10.0, 100.0);
            assert!(scale.x(5).is_finite() && scale.ticks().is_empty());
        }
    }

    #[test]
    fn values_end_at_a_round_one() {
        let scale = ValueScale::new(130.0, 1000.0, 100.0, 0.0);
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [0.0, 50.0, 100.0, 150.0]);
        assert_eq!((scale.y(0.0), scale.y(150.0), scale.y(1e9)), (100.0, 0.0, 0.0));
        let bytes = ValueScale::new(10.0 * 1024.0 * 1024.0, 1024.0, 100.0, 0.0);
        assert_eq!(bytes.step, 5.0 * 1024.0 * 1024.0);
    }
}
