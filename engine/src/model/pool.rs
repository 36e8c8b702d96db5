//! The size of a pool that hides the writing of a checkpoint from the program.

use std::time::Duration;

/// Measurements of the ranks of a node in one checkpoint.
///
/// In paper 000, the pool's size determines the overlap of copying and writing (§IV.B.3), and the gain flattens where
/// they overlap fully (§V.B). D bytes are copied at the rate c = D / `copy`, while I/O threads write at w = D /
/// `write`. Once the pool's P bytes are full, the copy waits for the writes. The last byte is staged when D = P + w·t,
/// and not before D/c: t2 − t1 = max(D/c, (D − P)/w) + `rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staging {
    /// D.
    pub bytes: u64,
    /// The time to copy them if no rank waits for a chunk.
    pub copy: Duration,
    /// The time to write them, from the first byte to the last durable one.
    pub write: Duration,
    /// The time that does not depend on the pool: phases 1 and 3, and everything besides waiting and copying.
    pub rest: Duration,
}

impl Staging {
    /// t2 − t1 with a pool of this many bytes.
    pub fn perceived(&self, pool_bytes: u64) -> Duration {
        let outside = self.bytes.saturating_sub(pool_bytes) as f64 / self.bytes.max(1) as f64;
        let written = Duration::try_from_secs_f64(self.write.as_secs_f64() * outside).unwrap_or(Duration::MAX);
        self.copy.max(written).saturating_add(self.rest)
    }

    /// D · (1 − w/c): beyond this size, a larger pool gains nothing.
    pub fn flattens_at(&self) -> u64 {
        let hidden = self.copy.as_secs_f64() / self.write.as_secs_f64().max(f64::MIN_POSITIVE);
        (self.bytes as f64 * (1.0 - hidden).max(0.0)).ceil() as u64
    }
}

/// The smallest of these ascending sizes with a time at most 5 % longer than the shortest.
pub fn smallest_near_best(times: &[(u64, Duration)]) -> Option<u64> {
    let best = times.iter().map(|(_, time)| *time).min()?;
    times.iter().find(|(_, time)| time.as_secs_f64() <= best.as_secs_f64() * 1.05).map(|(size, _)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MS: Duration = Duration::from_millis(1);
    /// 200 MiB copied at 2000 MiB/s and written at 400 MiB/s.
    const STAGING: Staging = Staging {
        bytes: 200 * MIB,
        copy: Duration::from_millis(100),
        write: Duration::from_millis(500),
        rest: Duration::from_millis(7),
    };

    /// Chunk by chunk: copying takes a free chunk, and a written chunk becomes free.
    fn simulated(staging: &Staging, pool_bytes: u64) -> f64 {
        const CHUNK: u64 = 64 << 10;
        let chunks = (staging.bytes / CHUNK) as usize;
        let (copy, write) = (staging.copy.as_secs_f64() / chunks as f64, staging.write.as_secs_f64() / chunks as f64);
        let in_pool = (pool_bytes / CHUNK) as usize;
        let (mut now, mut written): (f64, Vec<f64>) = (0.0, Vec::new());
        for chunk in 0..chunks {
            let free_from = chunk.checked_sub(in_pool).map_or(0.0, |before| written[before]);
            now = now.max(free_from) + copy;
            written.push(now.max(written.last().copied().unwrap_or(0.0)) + write);
        }
        now + staging.rest.as_secs_f64()
    }

    #[test]
    fn the_formula_is_what_a_pool_does() {
        for mib in [16, 32, 64, 128, 160, 192, 256] {
            let (formula, simulated) = (STAGING.perceived(mib * MIB).as_secs_f64(), simulated(&STAGING, mib * MIB));
            assert!((formula / simulated - 1.0).abs() < 0.02, "{mib} MiB: {formula} s, and {simulated} s");
        }
    }

    #[test]
    fn the_gain_ends_where_the_writes_are_hidden() {
        assert_eq!(STAGING.flattens_at(), 160 * MIB);
        assert_eq!(STAGING.perceived(160 * MIB), 107 * MS);
        assert_eq!(STAGING.perceived(1 << 40), 107 * MS);
        assert!(STAGING.perceived(150 * MIB) > 107 * MS);
        assert_eq!(STAGING.perceived(0), 507 * MS);
    }

    #[test]
    fn the_extremes_are_defined() {
        let nothing = Staging { bytes: 0, copy: Duration::ZERO, write: Duration::ZERO, rest: MS };
        assert_eq!((nothing.perceived(MIB), nothing.flattens_at()), (MS, 0));
        let fast_device = Staging { write: 50 * MS, ..STAGING };
        assert_eq!((fast_device.perceived(0), fast_device.flattens_at()), (107 * MS, 0));
        let most = Staging { bytes: u64::MAX, copy: Duration::MAX, write: Duration::MAX, rest: Duration::MAX };
        assert_eq!((most.perceived(0), most.flattens_at()), (Duration::MAX, 0));
    }

    #[test]
    fn the_smallest_size_that_is_nearly_best_is_found() {
        let times = [(16, 300 * MS), (32, 105 * MS), (64, 100 * MS), (128, 101 * MS)];
        assert_eq!(smallest_near_best(&times), Some(32));
        assert_eq!(smallest_near_best(&[(16, 300 * MS), (32, 106 * MS), (64, 100 * MS)]), Some(64));
        assert_eq!((smallest_near_best(&[(16, MS); 2]), smallest_near_best(&[])), (Some(16), None));
    }
}
