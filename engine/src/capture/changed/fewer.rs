//! Keeping a shard from falling into too many parts: its shortest clean stretches are staged again.
//!
//! What must hold: nothing becomes clean that was not.

use super::Lies;

/// A region that falls into more parts than this has small clean ones rewritten: HDF5 takes about 2,700 of them.
const PARTS_MAX: usize = 2500;

/// How many clean stretches of a region make too many parts.
pub(super) fn too_many(clean: &[Lies]) -> usize {
    // Between two of them there is at most one that changed.
    (2 * clean.len() + 1).saturating_sub(PARTS_MAX).div_ceil(2).min(clean.len())
}

/// In so many revisions a region is to come to few parts; else its stretches are left as they are.
const REVISIONS_MAX: u64 = 4;

/// Whether a region comes to few parts where so many of its blocks are staged again, and `more` may be in each revision.
pub(super) fn comes_to_few(blocks: u64, more: u64) -> bool {
    blocks <= more.saturating_mul(REVISIONS_MAX)
}

/// How many blocks are staged again for a region with these clean stretches, which are too many, to come to few.
pub(super) fn shortest_blocks(clean: &[Lies]) -> u64 {
    let too_many = too_many(clean);
    let mut counts: Vec<u64> = clean.iter().map(|lies| lies.count).collect();
    if too_many > 0 {
        counts.select_nth_unstable(too_many - 1);
    }
    counts[..too_many].iter().sum()
}

/// Has short clean stretches of a region that falls into many parts staged again, as many blocks as `more` allows. Returns
/// `false`, and does nothing, if it would take too many revisions until the parts are few.
pub(super) fn merge(clean: &mut Vec<Lies>, more: &mut u64) -> bool {
    let too_many = too_many(clean);
    if too_many == 0 {
        return true;
    }
    let mut shortest: Vec<(u64, usize)> = clean.iter().enumerate().map(|(index, lies)| (lies.count, index)).collect();
    shortest.select_nth_unstable(too_many - 1);
    let shortest = &mut shortest[..too_many];
    if !comes_to_few(shortest.iter().map(|(count, _)| count).sum(), *more) {
        return false;
    }
    shortest.sort_unstable();
    for (count, index) in shortest {
        let Some(left) = more.checked_sub(*count) else { break };
        (*more, clean[*index].count) = (left, 0);
    }
    clean.retain(|lies| lies.count > 0);
    true
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
        let (clean, left) = of(500);
        assert_eq!((clean.len(), left), (count as usize - 500, 0));
        // It would take too many revisions.
        let (clean, left) = of(400);
        assert_eq!((clean.len(), left), (count as usize, 400));
    }
}
