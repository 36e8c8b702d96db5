//! Keeps a shard from falling into too many parts: its shortest clean stretches are staged again.
//!
//! Invariant: no block becomes clean that was not.

use super::BlockRun;

/// If a region has more parts than this, its short clean stretches are rewritten. HDF5 takes about 2,700 parts.
const PARTS_MAX: usize = 2500;

/// The number of clean stretches of a region beyond the limit.
pub(super) fn too_many(clean: &[BlockRun]) -> usize {
    // At most one changed stretch is between two clean ones.
    (2 * clean.len() + 1).saturating_sub(PARTS_MAX).div_ceil(2).min(clean.len())
}

/// A region is merged only if it reaches few parts within this many revisions.
const REVISIONS_MAX: u64 = 4;

/// Whether a region reaches few parts by staging `blocks` blocks again, `more` in each revision.
pub(super) fn comes_to_few(blocks: u64, more: u64) -> bool {
    blocks <= more.saturating_mul(REVISIONS_MAX)
}

/// The number of blocks to stage again until a region with too many clean stretches has few.
pub(super) fn shortest_blocks(clean: &[BlockRun]) -> u64 {
    let too_many = too_many(clean);
    let mut counts: Vec<u64> = clean.iter().map(|lies| lies.count).collect();
    if too_many > 0 {
        counts.select_nth_unstable(too_many - 1);
    }
    counts[..too_many].iter().sum()
}

/// Marks short clean stretches of a region in many parts as changed, up to `more` blocks. Returns `false` and does
/// nothing if it would take too many revisions to reach few parts.
pub(super) fn merge(clean: &mut Vec<BlockRun>, more: &mut u64) -> bool {
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
    let (blocks_before, more_before) = (blocks_in(clean), *more);
    for (count, index) in shortest {
        let Some(left) = more.checked_sub(*count) else { break };
        (*more, clean[*index].count) = (left, 0);
    }
    clean.retain(|lies| lies.count > 0);
    debug_assert_eq!(blocks_before - blocks_in(clean), more_before - *more, "a block became clean, or was not counted");
    true
}

fn blocks_in(clean: &[BlockRun]) -> u64 {
    clean.iter().map(|lies| lies.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_clean_stretches_go_while_there_are_too_many_and_bytes_allow() {
        let count = PARTS_MAX as u64;
        let lies = |index: u64| BlockRun { block: 10 * index, at: 10 * index, count: 1 + index % 3 };
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
