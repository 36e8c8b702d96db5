//! Keeping a shard from falling into too many parts: its shortest clean stretches are staged again.
//!
//! What must hold: nothing becomes clean that was not.

use super::Lies;

/// A region that falls into more parts than this has small clean ones rewritten: HDF5 takes about 2,700 of them.
const PARTS_MAX: usize = 2500;

/// Has short clean stretches of a region that falls into many parts staged again, as many blocks as `more` allows.
pub(super) fn merge(clean: &mut Vec<Lies>, more: &mut u64) {
    // Between two clean stretches there is at most one that changed.
    let mut parts = 2 * clean.len() + 1;
    if parts <= PARTS_MAX || *more == 0 {
        return;
    }
    let mut shortest: Vec<usize> = (0..clean.len()).collect();
    shortest.sort_by_key(|index| clean[*index].count);
    for index in shortest {
        let count = clean[index].count;
        if parts <= PARTS_MAX || count > *more {
            break;
        }
        (*more, parts, clean[index].count) = (*more - count, parts.saturating_sub(2), 0);
    }
    clean.retain(|lies| lies.count > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_clean_stretches_go_while_there_are_too_many_and_bytes_allow() {
        let count = PARTS_MAX as u64;
        let lies = |index: u64| Lies { block: 10 * index, at: 10 * index, count: 1 + index % 3 };
        let of = |more: u64| {
            let (mut clean, mut left) = ((0..count).map(lies).collect::<Vec<_>>(), more);
            merge(&mut clean, &mut left);
            (clean, left)
        };
        let (clean, left) = of(u64::MAX);
        assert!(2 * clean.len() < PARTS_MAX && 2 * clean.len() + 3 > PARTS_MAX, "{}", clean.len());
        assert_eq!(clean.iter().filter(|lies| lies.count == 1).count(), 0, "the short ones go first");
        assert!(left < u64::MAX);
        let (clean, left) = of(10);
        assert_eq!((clean.len(), left), (count as usize - 10, 0));
        assert_eq!(of(0).0.len(), count as usize);
    }
}
