//! Boxes of cells in an array of n dimensions: the cells that two share, the cells that are left, and the boxes that
//! cover another.

use crate::space::format::PlaceInWhole;
use std::fmt;

/// A box is cut into at most this many pieces. No decomposition needs as many, but boxes in a forged space can.
const PIECES_MAX: usize = 1 << 16;

/// A box of cells: along each side, the first cell and the one after the last. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) from: Vec<u64>,
    pub(crate) to: Vec<u64>,
}

/// The reason why a box is not covered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Uncovered {
    /// The cells that are in no saved box.
    Missing(Cells),
    TooManyPieces,
}

impl Cells {
    /// The cells of a `place` that was checked; `None` if it has none.
    pub(crate) fn of(shape: &[u64], place: &PlaceInWhole) -> Option<Cells> {
        let to = place.offset.iter().zip(shape).map(|(from, cells)| from + cells).collect();
        Cells::between(place.offset.clone(), to)
    }

    fn between(from: Vec<u64>, to: Vec<u64>) -> Option<Cells> {
        from.iter().zip(&to).all(|(from, to)| from < to).then_some(Cells { from, to })
    }

    /// The number of cells along each side.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.from.iter().zip(&self.to).map(|(from, to)| to - from).collect()
    }

    /// The cells in both boxes.
    pub(crate) fn and(&self, other: &Cells) -> Option<Cells> {
        let from = self.from.iter().zip(&other.from).map(|(a, b)| *a.max(b)).collect();
        let to = self.to.iter().zip(&other.to).map(|(a, b)| *a.min(b)).collect();
        Cells::between(from, to)
    }

    /// The cells outside `inner`, a box within this one: at most two slabs for each side.
    fn without(mut self, inner: &Cells) -> Vec<Cells> {
        let mut left = Vec::new();
        for side in 0..self.from.len() {
            for (from, to) in [(self.from[side], inner.from[side]), (inner.to[side], self.to[side])] {
                if from < to {
                    let mut slab = self.clone();
                    (slab.from[side], slab.to[side]) = (from, to);
                    left.push(slab);
                }
            }
            (self.from[side], self.to[side]) = (inner.from[side], inner.to[side]);
        }
        left
    }
}

/// Covers `wanted` with boxes of `saved`: for each part, the index of the saved box and the cells. If several boxes
/// hold a cell, the first one gives it.
pub(crate) fn cover(wanted: &Cells, saved: &[Option<Cells>]) -> Result<Vec<(usize, Cells)>, Uncovered> {
    let (mut rest, mut parts) = (vec![wanted.clone()], Vec::new());
    for (index, saved) in saved.iter().enumerate() {
        let Some(saved) = saved.as_ref().filter(|saved| saved.and(wanted).is_some()) else { continue };
        let mut left = Vec::with_capacity(rest.len());
        for piece in rest {
            match piece.and(saved) {
                Some(part) => {
                    left.extend(piece.without(&part));
                    parts.push((index, part));
                }
                None => left.push(piece),
            }
        }
        rest = left;
        if rest.len() + parts.len() > PIECES_MAX {
            return Err(Uncovered::TooManyPieces);
        }
        if rest.is_empty() {
            break;
        }
    }
    match rest.into_iter().next() {
        Some(cells) => Err(Uncovered::Missing(cells)),
        None => {
            let count = |cells: &Cells| cells.shape().into_iter().map(u128::from).product::<u128>();
            let covered: u128 = parts.iter().map(|(_, part)| count(part)).sum();
            debug_assert_eq!(covered, count(wanted), "a cell is filled twice, or never");
            Ok(parts)
        }
    }
}

/// Writes a box in readable form: `[0..4, 8..16]`.
impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<String> = self.from.iter().zip(&self.to).map(|(from, to)| format!("{from}..{to}")).collect();
        write!(f, "[{}]", sides.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(sides: &[(u64, u64)]) -> Cells {
        let (from, to) = sides.iter().copied().unzip();
        Cells::between(from, to).unwrap()
    }

    /// Every cell of random boxes is given once, by the first saved box that holds it.
    #[test]
    fn each_cell_comes_from_the_first_box_that_holds_it() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..300 {
            let sides = random.usize(1..4);
            let all: Vec<u64> = (0..sides).map(|_| random.u64(1..7)).collect();
            let mut draw = |all: &[u64]| {
                let from: Vec<u64> = all.iter().map(|n| random.u64(0..*n)).collect();
                let to = from.iter().zip(all).map(|(from, n)| random.u64(*from + 1..=*n)).collect();
                Cells { from, to }
            };
            let wanted = draw(&all);
            let mut saved: Vec<Option<Cells>> = (0..5).map(|_| Some(draw(&all))).collect();
            saved.push(None);
            let holds = |cells: &Cells, at: &[u64]| {
                at.iter().zip(cells.from.iter().zip(&cells.to)).all(|(at, (from, to))| from <= at && at < to)
            };
            let first = |at: &[u64]| saved.iter().position(|saved| saved.as_ref().is_some_and(|s| holds(s, at)));
            let given = cover(&wanted, &saved);
            let mut at = wanted.from.clone();
            let mut missing = 0;
            loop {
                match (&given, first(&at)) {
                    (Ok(parts), expected) => {
                        let by: Vec<usize> = parts.iter().filter(|(_, c)| holds(c, &at)).map(|(i, _)| *i).collect();
                        assert_eq!(by, expected.into_iter().collect::<Vec<_>>(), "{at:?} of {wanted}");
                    }
                    (Err(Uncovered::Missing(uncovered)), None) => missing += u64::from(holds(uncovered, &at)),
                    (Err(Uncovered::Missing(uncovered)), Some(_)) => {
                        assert!(!holds(uncovered, &at), "{uncovered} is covered")
                    }
                    (Err(Uncovered::TooManyPieces), _) => panic!("few boxes are too many"),
                }
                let Some(side) = (0..sides).rev().find(|side| at[*side] + 1 < wanted.to[*side]) else { break };
                at[side] += 1;
                at[side + 1..].copy_from_slice(&wanted.from[side + 1..]);
            }
            assert!(given.is_ok() || missing > 0, "{given:?}");
        }
    }

    /// Combs along two sides cut a box into as many pieces as the product of their teeth.
    #[test]
    fn boxes_that_cut_too_finely_are_refused() {
        let all = 1 << 20;
        let teeth = |side: usize| {
            (0..400).map(move |tooth| {
                let mut sides = [(0, all), (0, all)];
                sides[side] = (2 * tooth, 2 * tooth + 1);
                Some(cells(&sides))
            })
        };
        let saved: Vec<_> = teeth(0).chain(teeth(1)).collect();
        assert_eq!(cover(&cells(&[(0, all), (0, all)]), &saved), Err(Uncovered::TooManyPieces));
    }

    #[test]
    fn an_array_without_dimensions_is_one_cell() {
        let place = PlaceInWhole { global_shape: vec![], offset: vec![] };
        let one = Cells::of(&[], &place).unwrap();
        assert_eq!(cover(&one, &[Some(one.clone())]), Ok(vec![(0, one.clone())]));
        assert_eq!(cover(&one, &[]), Err(Uncovered::Missing(one)));
        let none = PlaceInWhole { global_shape: vec![4, 0], offset: vec![0, 0] };
        assert_eq!(Cells::of(&[4, 0], &none), None);
    }
}
