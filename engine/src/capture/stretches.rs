//! Stretches of memory, of any length and distance, that together are one region.

use std::{ops::Range, sync::Arc};

/// Stretches in the order of their addresses.
#[derive(Debug, Clone)]
pub(super) struct Stretches(Arc<[Stretch]>);

#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// The offset of its bytes in the region.
    source: u64,
    /// The offset of its bytes in memory, from the region's address.
    target: u64,
    bytes: u64,
}

impl Stretches {
    /// The stretches at these addresses, which ascend with gaps. Offsets count from the first address.
    pub(super) fn new(addresses: &[Range<u64>]) -> Stretches {
        let first = addresses.first().map_or(0, |range| range.start);
        let mut source = 0;
        let stretch = |range: &Range<u64>| {
            let one = Stretch { source, target: range.start - first, bytes: range.end - range.start };
            source += one.bytes;
            one
        };
        Stretches(addresses.iter().map(stretch).collect())
    }

    /// The length of the first stretch.
    pub(super) fn first_bytes(&self) -> u64 {
        self.0.first().map_or(0, |one| one.bytes)
    }

    /// The end of the last stretch.
    pub(super) fn reach(&self) -> u64 {
        self.0.last().map_or(0, |one| one.target + one.bytes)
    }

    /// The first stretch that ends behind `from` in memory.
    pub(super) fn from(&self, from: u64) -> Option<Range<u64>> {
        let index = self.0.partition_point(|one| one.target + one.bytes <= from);
        self.0.get(index).map(|one| one.target..one.target + one.bytes)
    }

    /// Calls `put` for each part of `range`: its offset in the region, its offset in memory, and its bytes.
    pub(super) fn each(&self, range: Range<u64>, mut put: impl FnMut(u64, u64, usize)) {
        let first = self.0.partition_point(|one| one.source + one.bytes <= range.start);
        for one in self.0[first..].iter().take_while(|one| one.source < range.end) {
            let (from, to) = (one.source.max(range.start), (one.source + one.bytes).min(range.end));
            put(from, one.target + (from - one.source), (to - from) as usize);
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one")]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_the_stretches_is_given_once() {
        let all = Stretches::new(&[100..103, 110..111, 200..210]);
        assert_eq!((all.first_bytes(), all.reach()), (3, 110));
        let given = |range: Range<u64>| {
            let mut given = Vec::new();
            all.each(range, |source, target, bytes| given.push((source, target, bytes)));
            given
        };
        assert_eq!(given(0..14), [(0, 0, 3), (3, 10, 1), (4, 100, 10)]);
        assert_eq!(given(2..5), [(2, 2, 1), (3, 10, 1), (4, 100, 1)]);
        assert_eq!(given(6..8), [(6, 102, 2)]);
        assert_eq!(given(14..14), []);
        assert_eq!(
            [0, 3, 11, 109, 110].map(|from| all.from(from)),
            [Some(0..3), Some(10..11), Some(100..110), Some(100..110), None]
        );
    }
}
