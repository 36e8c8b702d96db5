//! Cells shared by two places, as rows of bytes: the place of each row in both.

use super::Cells;
use std::ops::Range;

/// Gaps up to this length between rows are read with them, because a read costs as much as some blocks.
const GAP_BYTES: u64 = 16 << 10;

/// Rows of one length. In both places the slowest side comes first.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// For each outer side, the number of rows, and their distance in either place, in bytes.
    sides: Vec<Side>,
    bytes: u64,
    count: u64,
    /// The place of the first row.
    source: u64,
    target: u64,
}

#[derive(Debug, Clone, Copy)]
struct Side {
    rows: u64,
    source: u64,
    target: u64,
}

impl Rows {
    /// The rows of the `shared` cells, of `element_bytes` each, in the boxes `source` and `target`, which both hold their
    /// cells without gaps.
    pub(crate) fn new(shared: &Cells, source: &Cells, target: &Cells, element_bytes: u64) -> Rows {
        let [of, into] = [source, target].map(|cells| strides(&cells.shape(), element_bytes));
        let behind = |cells: &Cells, strides: &[u64]| {
            let sides = shared.from.iter().zip(&cells.from).zip(strides);
            sides.map(|((from, first), stride)| (from - first) * stride).sum()
        };
        let (source, target) = (behind(source, &of), behind(target, &into));
        Rows { source, target, ..Rows::strided(&shared.shape(), element_bytes, &of, &into) }
    }

    /// Cells in a row, of a box of this `shape`. In the other place, neighbours along each side are `target` bytes
    /// apart.
    pub(crate) fn spread(shape: &[u64], element_bytes: u64, target: &[u64]) -> Rows {
        Rows::strided(shape, element_bytes, &strides(shape, element_bytes), target)
    }

    fn strided(shape: &[u64], element_bytes: u64, source: &[u64], target: &[u64]) -> Rows {
        let (mut sides, mut bytes) = (Vec::with_capacity(shape.len()), element_bytes);
        for (side, cells) in shape.iter().enumerate().rev().filter(|(_, cells)| **cells != 1) {
            // Up to the first gap in either place, the cells are adjacent in both.
            if sides.is_empty() && source[side] == bytes && target[side] == bytes {
                bytes *= cells;
            } else {
                sides.push(Side { rows: *cells, source: source[side], target: target[side] });
            }
        }
        sides.reverse();
        let count = sides.iter().map(|side| side.rows).product();
        Rows { sides, bytes, count, source: 0, target: 0 }
    }

    /// All of an item of this many bytes.
    pub(crate) fn whole(bytes: u64) -> Rows {
        Rows { sides: Vec::new(), bytes, count: 1, source: 0, target: 0 }
    }

    /// The place of the bytes in the target, if they are one row.
    pub(crate) fn alone(&self) -> Option<u64> {
        self.sides.is_empty().then_some(self.target)
    }

    /// The place of the first row in the target.
    pub(crate) fn first(&self) -> u64 {
        self.target
    }

    /// The length of a row, in bytes.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.bytes
    }

    /// The place of row `index` in the source and in the target.
    fn row(&self, mut index: u64) -> (u64, u64) {
        let (mut source, mut target) = (self.source, self.target);
        for side in self.sides.iter().rev() {
            let at = index % side.rows;
            (source, target, index) = (source + at * side.source, target + at * side.target, index / side.rows);
        }
        (source, target)
    }

    /// The first row that ends behind `from` in the target, as its range there.
    pub(crate) fn row_from(&self, from: u64) -> Option<Range<u64>> {
        // Rows ascend in the target too.
        let (mut first, mut after) = (0, self.count);
        while first < after {
            let middle = first + (after - first) / 2;
            if self.row(middle).1 + self.bytes <= from { first = middle + 1 } else { after = middle }
        }
        let at = (first < self.count).then(|| self.row(first).1)?;
        Some(at..at + self.bytes)
    }

    /// Calls `put` for each part of the rows in `range` of the source: its place in the source, its place in the
    /// target, and its bytes.
    pub(crate) fn each(&self, range: Range<u64>, mut put: impl FnMut(u64, u64, usize)) {
        // Rows ascend in the source: this finds the first that ends after the beginning of the range.
        let (mut first, mut after) = (0, self.count);
        while first < after {
            let middle = first + (after - first) / 2;
            if self.row(middle).0 + self.bytes <= range.start { first = middle + 1 } else { after = middle }
        }
        for index in first..self.count {
            let (source, target) = self.row(index);
            let (from, to) = (source.max(range.start), (source + self.bytes).min(range.end));
            if from >= to {
                break;
            }
            put(from, target + (from - source), (to - from) as usize);
        }
    }

    /// The stretches of the source to read, ascending: all rows, with the gaps that are too short to leave out.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let (mut span, mut outer) = (self.bytes, self.sides.len());
        while let Some(side) = outer.checked_sub(1).map(|last| self.sides[last])
            && side.source - span.min(side.source) <= GAP_BYTES
        {
            span += side.source * (side.rows - 1);
            outer -= 1;
        }
        let inner: u64 = self.sides[outer..].iter().map(|side| side.rows).product();
        (0..self.count / inner).map(move |index| {
            let from = self.row(index * inner).0;
            from..from + span
        })
    }
}

/// The distance of neighbours along each side of an array without gaps, in bytes.
pub(super) fn strides(shape: &[u64], element_bytes: u64) -> Vec<u64> {
    let mut strides = vec![element_bytes; shape.len()];
    for side in (1..shape.len()).rev() {
        strides[side - 1] = strides[side] * shape[side];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A box, and the numbers of its cells in a global array of these sides, as bytes.
    fn filled(sides: &[u64], cells: &Cells) -> Vec<u16> {
        let (mut numbers, mut at) = (Vec::new(), cells.from.clone());
        loop {
            numbers.push(at.iter().zip(sides).fold(0, |number, (at, side)| number * side + at) as u16);
            let Some(side) = (0..sides.len()).rev().find(|side| at[*side] + 1 < cells.to[*side]) else { break };
            at[side] += 1;
            at[side + 1..].copy_from_slice(&cells.from[side + 1..]);
        }
        numbers
    }

    fn bytes(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// However the source is split, the cells in both boxes arrive, and nothing else changes.
    #[test]
    fn every_shared_cell_arrives_and_nothing_else() {
        let mut random = fastrand::Rng::with_seed(12);
        for _ in 0..500 {
            let sides: Vec<u64> = (0..random.usize(0..5)).map(|_| random.u64(1..7)).collect();
            let mut draw = || {
                let from: Vec<u64> = sides.iter().map(|n| random.u64(0..*n)).collect();
                let to = from.iter().zip(&sides).map(|(from, n)| random.u64(*from + 1..=*n)).collect();
                Cells { from, to }
            };
            let (source, target) = (draw(), draw());
            let Some(shared) = source.and(&target) else { continue };
            let rows = Rows::new(&shared, &source, &target, 2);
            let from = bytes(&filled(&sides, &source));
            let mut into = vec![0xff; bytes(&filled(&sides, &target)).len()];
            let mut at = 0;
            while at < from.len() {
                let end = random.usize(at + 1..=from.len());
                rows.each(at as u64..end as u64, |source, target, bytes| {
                    into[target as usize..][..bytes].copy_from_slice(&from[source as usize..][..bytes])
                });
                at = end;
            }
            let in_shared = filled(&sides, &shared);
            let expected: Vec<u16> =
                filled(&sides, &target).into_iter().map(|n| if in_shared.contains(&n) { n } else { 0xffff }).collect();
            assert_eq!(into, bytes(&expected), "{shared} of {source} and {target}");
            // The bytes to read contain every row.
            let read: Vec<Range<u64>> = rows.stretches().collect();
            for index in 0..rows.count {
                let row = rows.row(index).0;
                assert!(read.iter().any(|range| range.start <= row && row + rows.bytes <= range.end), "{rows:?}");
            }
            assert!(read.windows(2).all(|pair| pair[0].end <= pair[1].start), "{read:?}");
        }
    }

    /// A thin slice across a large box reads its own rows, not the bytes between them.
    #[test]
    fn what_lies_far_between_rows_is_not_read() {
        let all = Cells { from: vec![0; 3], to: vec![8, 1000, 1000] };
        let slice = Cells { from: vec![0, 500, 0], to: vec![8, 501, 1000] };
        let rows = Rows::new(&slice, &all, &slice, 8);
        let read: Vec<Range<u64>> = rows.stretches().collect();
        assert_eq!(read.len(), 8);
        assert!(read.iter().all(|range| range.end - range.start == 8000));
        // A column of single cells: the rows are so close that all of it is read at once.
        let column = Cells { from: vec![0, 0, 7], to: vec![8, 1000, 8] };
        assert_eq!(Rows::new(&column, &all, &column, 8).stretches().count(), 1);
    }
}
