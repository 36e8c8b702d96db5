//! The identity of an object.

use serde::{Deserialize, Serialize};

/// Bits of each coordinate of an index in two and in three dimensions.
const BITS: [u32; 4] = [64, 64, 32, 21];

/// An object: its kind, numbered in the order of registration, and its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub kind: u32,
    pub id: u64,
}

/// The index of the object at these coordinates, one to three, each below 2^64, 2^32 or 2^21; `None`: too many
/// coordinates, or too large.
pub fn id_of(coordinates: &[u64]) -> Option<u64> {
    let bits = *BITS.get(coordinates.len()).filter(|_| !coordinates.is_empty())?;
    let fits = |at: &u64| bits == 64 || *at < 1 << bits;
    let pack = |id: u64, at: &u64| if bits == 64 { *at } else { id << bits | at };
    coordinates.iter().all(fits).then(|| coordinates.iter().fold(0, pack))
}

/// The coordinates of an index in so many dimensions, one to three.
pub fn place_of(id: u64, dimensions: usize) -> Vec<u64> {
    let bits = BITS[dimensions.clamp(1, 3)];
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    (0..dimensions.clamp(1, 3) as u32).rev().map(|at| id >> (at * bits % 64) & mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_come_back_and_what_does_not_fit_is_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        for (dimensions, bits) in [(1, 64), (2, 32), (3, 21)] {
            for _ in 0..100 {
                let at: Vec<u64> = (0..dimensions).map(|_| random.u64(..) >> (64 - bits)).collect();
                assert_eq!(place_of(id_of(&at).unwrap(), dimensions), at);
            }
        }
        assert_eq!(
            (id_of(&[]), id_of(&[1, 1 << 32]), id_of(&[1 << 21, 0, 0]), id_of(&[0; 4])),
            (None, None, None, None)
        );
    }
}
