//! A global array as one file: the places of a shard's box in it.

use super::super::cover::{Block, blocks_of_their_own};
use mainstay_engine::space::format::{ElementType, Item};
use std::ops::Range;

/// A box of a global array: runs of its bytes that are contiguous in the whole array, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Offset of the box in the whole array, in bytes.
    begin: u64,
    /// Bytes of a run.
    stretch: u64,
    /// The dimensions over the runs, slowest first: the length of the box, and the distance of two neighbours in bytes.
    outer: Vec<(u64, u64)>,
}

impl Spread {
    /// `check` has made sure that the box fits into the whole array.
    fn new(element_bytes: u64, global: &[u64], offset: &[u64], shape: &[u64]) -> Spread {
        let mut strides = vec![element_bytes; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim].saturating_mul(global[dim]);
        }
        // A single cell, without sides, is one run.
        let Some(mut last) = shape.len().checked_sub(1) else {
            return Spread { begin: 0, stretch: element_bytes, outer: Vec::new() };
        };
        while last > 0 && shape[last] == global[last] {
            last -= 1;
        }
        Spread {
            begin: offset
                .iter()
                .zip(&strides)
                .fold(0, |begin: u64, (at, stride)| begin.saturating_add(at.saturating_mul(*stride))),
            stretch: shape[last].saturating_mul(strides[last]),
            outer: shape.iter().copied().zip(strides).take(last).collect(),
        }
    }

    /// The places of the `bytes` bytes at `offset` of the box: each a place in the whole array and a range of these
    /// bytes.
    pub fn stretches(&self, offset: u64, bytes: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done >= bytes {
                return None;
            }
            let at = offset + done as u64;
            let (mut row, within) = (at / self.stretch, at % self.stretch);
            let mut place = self.begin + within;
            for (length, stride) in self.outer.iter().rev() {
                place += row % length * stride;
                row /= length;
            }
            let range = done..bytes.min(done + usize::try_from(self.stretch - within).unwrap_or(usize::MAX));
            done = range.end;
            Some((place, range))
        })
    }
}

/// The shape of the whole array `name`, and the place of each part in it. `parts` has the shards with an item of that
/// name. Fails if they are no array, or do not fill it.
pub fn spread(parts: &[(u32, &Item)]) -> Result<(ElementType, Vec<u64>, Vec<Spread>), String> {
    let [(first, head), ..] = parts else { return Err("no shard has it".to_owned()) };
    let Some(whole) = &head.place else {
        return Err(format!("shard {first} has it as an item of its own, not as part of an array"));
    };
    let (element, global) = (head.element, &whole.global_shape);
    let product = |shape: &[u64]| shape.iter().try_fold(element.size(), |total, n| total.checked_mul(*n));
    let all = product(global).filter(|bytes| i64::try_from(*bytes).is_ok());
    let all = all.ok_or_else(|| "it is larger than any file".to_owned())?;
    let (mut blocks, mut spreads) = (Vec::new(), Vec::new());
    for (shard, item) in parts {
        let place = item.place.as_ref().filter(|place| item.element == element && place.global_shape == *global);
        let place = place.ok_or_else(|| format!("shards {first} and {shard} disagree on its type or its shape"))?;
        let (offset, shape) = (&place.offset, &item.shape);
        let fits = |dim: usize| offset[dim].checked_add(shape[dim]).is_some_and(|end| end <= global[dim]);
        let is_box = offset.len() == global.len() && shape.len() == global.len();
        if !is_box || !(0..shape.len()).all(fits) || product(shape) != Some(item.bytes) {
            return Err(format!("the part in shard {shard} is outside of it"));
        }
        blocks.push(Block { offset: offset.clone(), shape: shape.clone() });
        spreads.push(Spread::new(element.size(), global, offset, shape));
    }
    let own = blocks_of_their_own(&blocks).ok_or_else(|| "its parts overlap too often".to_owned())?;
    let held: u64 = own.iter().flatten().filter_map(|block| product(&block.shape)).sum();
    if held != all {
        let [held, all] = [held, all].map(|bytes| bytes / element.size());
        return Err(format!("these shards hold {held} of its {all} elements"));
    }
    Ok((element, global.clone(), spreads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::space::format::{ItemKind, PlaceInWhole};

    fn part(global: &[u64], offset: &[u64], shape: &[u64]) -> Item {
        let place = Some(PlaceInWhole { global_shape: global.to_vec(), offset: offset.to_vec() });
        let bytes = shape.iter().product::<u64>() * 4;
        let (name, kind, element) = ("t".to_owned(), ItemKind::Region, ElementType::F32);
        Item { name, kind, element, bytes, shape: shape.to_vec(), place, same_on_all_ranks: false, extents: Vec::new() }
    }

    /// Compares each byte's place with plain loops over the cells.
    #[test]
    fn each_byte_lies_where_its_cell_does() {
        for (global, offset, shape) in [
            (&[5_u64, 6, 7][..], &[1_u64, 2, 3][..], &[2_u64, 3, 4][..]),
            (&[5, 6, 7], &[1, 2, 0], &[3, 2, 7]),
            (&[5, 6, 7], &[2, 0, 0], &[3, 6, 7]),
            (&[9], &[4], &[5]),
            (&[4, 4], &[3, 1], &[1, 1]),
        ] {
            let spread = Spread::new(4, global, offset, shape);
            let cells: u64 = shape.iter().product();
            let place = |byte: u64| {
                let (mut cell, mut at, mut stride) = (byte / 4, byte % 4, 4);
                for dim in (0..shape.len()).rev() {
                    at += (offset[dim] + cell % shape[dim]) * stride;
                    cell /= shape[dim];
                    stride *= global[dim];
                }
                at
            };
            for from in 0..cells * 4 {
                let found = spread.stretches(from, (cells * 4 - from) as usize);
                let found: Vec<u64> = found.flat_map(|(at, range)| at..at + range.len() as u64).collect();
                assert_eq!(found, (from..cells * 4).map(place).collect::<Vec<_>>(), "{shape:?} from {from}");
            }
        }
    }

    /// A number that all ranks have, as a box without sides.
    #[test]
    fn a_single_cell_is_a_whole() {
        let step = part(&[], &[], &[]);
        let (_, shape, spreads) = spread(&[(0, &step), (1, &step)]).unwrap();
        assert_eq!((shape, spreads[1].stretches(0, 4).collect::<Vec<_>>()), (vec![], vec![(0, 0..4)]));
    }

    #[test]
    fn what_does_not_fill_an_array_is_told() {
        let global: &[u64] = &[4, 6];
        let [upper, lower, left] =
            [([0, 0], [2, 6]), ([2, 0], [2, 6]), ([0, 0], [4, 3])].map(|(offset, shape)| part(global, &offset, &shape));
        assert_eq!(spread(&[(0, &upper), (1, &lower), (2, &left)]).unwrap().1, global);
        let mut other = lower.clone();
        other.element = ElementType::I32;
        let alone = Item { place: None, ..upper.clone() };
        for (parts, says) in [
            (vec![(0, &upper), (2, &left)], "18 of its 24"),
            (vec![(0, &upper), (1, &other)], "shards 0 and 1 disagree"),
            (vec![(0, &alone)], "shard 0 has it as an item of its own"),
            (vec![(3, &part(global, &[3, 0], &[2, 6]))], "shard 3 is outside of it"),
            (vec![(0, &part(&[u64::MAX, 8], &[0, 0], &[1, 8]))], "larger than any file"),
        ] {
            let why = spread(&parts).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
