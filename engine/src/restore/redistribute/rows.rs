//! Cells that two boxes share, as rows of bytes in both: where each lies in the one and in the other.

use super::Cells;
use std::ops::Range;

/// Rows so close are read with what lies between them: a read costs as much as some blocks.
const GAP_BYTES: u64 = 16 << 10;

/// Rows of one length. Both boxes hold their cells in a row, the slowest side first.
#[derive(Debug)]
pub(crate) struct Rows {
    /// How many there are along each outer side, and how far apart in either box, in bytes.
    sides: Vec<Side>,
    bytes: u64,
    count: u64,
    /// Where the first one lies.
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
    /// `shared` cells of `element_bytes` each, which lie in `source` and in `target`. No product overflows:
    /// neither box has 2^63 bytes.
    pub(crate) fn new(shared: &Cells, source: &Cells, target: &Cells, element_bytes: u64) -> Rows {
        let (shape, of, into) = (shared.shape(), source.shape(), target.shape());
        let mut sides = Vec::with_capacity(shape.len());
        let (mut from, mut to, mut in_row) = (0, 0, true);
        let (mut bytes, mut source_bytes, mut target_bytes) = (element_bytes, element_bytes, element_bytes);
        for side in (0..shape.len()).rev() {
            from += (shared.from[side] - source.from[side]) * source_bytes;
            to += (shared.from[side] - target.from[side]) * target_bytes;
            // Up to the first side that either does not hold whole, the cells follow one another in both.
            if in_row {
                bytes *= shape[side];
                in_row = shape[side] == of[side] && shape[side] == into[side];
            } else {
                sides.push(Side { rows: shape[side], source: source_bytes, target: target_bytes });
            }
            source_bytes *= of[side];
            target_bytes *= into[side];
        }
        sides.reverse();
        let count = sides.iter().map(|side| side.rows).product();
        Rows { sides, bytes, count, source: from, target: to }
    }

    /// All of an item of so many bytes.
    pub(crate) fn whole(bytes: u64) -> Rows {
        Rows { sides: Vec::new(), bytes, count: 1, source: 0, target: 0 }
    }

    /// Where row `index` lies in the source and in the target.
    fn row(&self, mut index: u64) -> (u64, u64) {
        let (mut source, mut target) = (self.source, self.target);
        for side in self.sides.iter().rev() {
            let at = index % side.rows;
            (source, target, index) = (source + at * side.source, target + at * side.target, index / side.rows);
        }
        (source, target)
    }

    /// Gives `put` what belongs to the rows of `bytes`, which lie at `at` in the source: an offset in the
    /// target, and the bytes for it.
    pub(crate) fn each(&self, at: u64, bytes: &[u8], mut put: impl FnMut(u64, &[u8])) {
        let end = at + bytes.len() as u64;
        // Rows ascend in the source: the first that ends behind `at`.
        let (mut first, mut after) = (0, self.count);
        while first < after {
            let middle = first + (after - first) / 2;
            if self.row(middle).0 + self.bytes <= at { first = middle + 1 } else { after = middle }
        }
        for index in first..self.count {
            let (source, target) = self.row(index);
            let (from, to) = (source.max(at), (source + self.bytes).min(end));
            if from >= to {
                break;
            }
            put(target + (from - source), &bytes[(from - at) as usize..(to - at) as usize]);
        }
    }

    /// The stretches of the source to be read, ascending: all rows, and gaps that are not worth leaving out.
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

    /// Whatever parts the source comes in: the cells that both hold arrive, and nothing else changes.
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
                rows.each(at as u64, &from[at..end], |to, part| {
                    into[to as usize..][..part.len()].copy_from_slice(part)
                });
                at = end;
            }
            let in_shared = filled(&sides, &shared);
            let expected: Vec<u16> =
                filled(&sides, &target).into_iter().map(|n| if in_shared.contains(&n) { n } else { 0xffff }).collect();
            assert_eq!(into, bytes(&expected), "{shared} of {source} and {target}");
            // What is to be read holds every row.
            let read: Vec<Range<u64>> = rows.stretches().collect();
            for index in 0..rows.count {
                let row = rows.row(index).0;
                assert!(read.iter().any(|range| range.start <= row && row + rows.bytes <= range.end), "{rows:?}");
            }
            assert!(read.windows(2).all(|pair| pair[0].end <= pair[1].start), "{read:?}");
        }
    }

    /// A thin slice across a large box reads its own rows and not what lies between.
    #[test]
    fn what_lies_far_between_rows_is_not_read() {
        let all = Cells { from: vec![0; 3], to: vec![8, 1000, 1000] };
        let slice = Cells { from: vec![0, 500, 0], to: vec![8, 501, 1000] };
        let rows = Rows::new(&slice, &all, &slice, 8);
        let read: Vec<Range<u64>> = rows.stretches().collect();
        assert_eq!(read.len(), 8);
        assert!(read.iter().all(|range| range.end - range.start == 8000));
        // A column of single cells: rows so close that all of it is read at once.
        let column = Cells { from: vec![0, 0, 7], to: vec![8, 1000, 8] };
        assert_eq!(Rows::new(&column, &all, &column, 8).stretches().count(), 1);
    }
}
