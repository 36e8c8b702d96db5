//! Invariants of every write to a portion, checked as it is made, in release builds too. A fault in this code costs the
//! revision in progress, never a complete one.

use super::{Allocation, Kept, allocation::Referred};
use crate::{
    error::{Error, Result},
    mutant,
    space::{
        BlockSet,
        format::{Frame, Run},
        free::{Blocks, FreeMap, is_among, united},
    },
};
use std::sync::Arc;

/// Refuses `written`, the blocks of a revision or of a root, if a slot refers to one of them, or if one is outside
/// `from..to`.
pub(super) fn check_unreferred(
    (from, to): (u64, u64),
    slots: [Referred<'_>; 2],
    written: impl IntoIterator<Item = Blocks>,
) -> Result<()> {
    let free = FreeMap::new(from, to, slots.iter().flat_map(Referred::blocks));
    let taken = written.into_iter().find(|blocks| blocks.count > 0 && !free.has(*blocks));
    check(taken.is_none(), || format!("blocks {taken:?} were to be written, and are not free"))
}

/// Refuses runs that none of the `kept` shards has and that were not saved `early` for this revision, because their
/// blocks may have been reused. The stored bytes of their `frames` must be kept too.
pub(super) fn check_shared(
    kept: &[Arc<Kept>],
    range: (u64, u64),
    shared: &[Run],
    early: &[Blocks],
    frames: &[Frame],
) -> Result<()> {
    if shared.is_empty() {
        return Ok(());
    }
    let range = range.0..range.1;
    let mut all = BlockSet::within(range.clone());
    kept.iter().for_each(|kept| kept.add_to(&mut all, range.clone()));
    let early = united(early.to_vec());
    let is_kept = |run: &Run| all.has(run.stretch()) && all.has(run.row_blocks());
    let is_early = |run: &Run| is_among(&early, run.stretch()) && is_among(&early, run.row_blocks());
    let lost = shared.iter().find(|run| !is_kept(run) && !is_early(run));
    let lost_frame = frames.iter().find(|frame| !all.has(frame.room()));
    check(lost.is_none() && lost_frame.is_none(), || {
        format!("blocks {lost:?}, and the frame {lost_frame:?}, were to be shared, and are not kept")
    })
}

/// Refuses to write in `allocation` before the roots that free its blocks are durable. `newest`: the catalogue of the
/// newest slot; `None` if the slot refers to no revision.
pub(super) fn check_freed(allocation: &Allocation, newest: Option<Blocks>) -> Result<()> {
    let is_freed = |last: &Blocks| newest.is_none_or(|newest| newest.first == last.first);
    check(allocation.freeing.last().is_none_or(is_freed), || {
        "blocks were to be written before they were freed".to_owned()
    })
}

/// Refuses to write a root with `sequence` over slot `index`, unless that slot has the lower of the two sequences and
/// the new one is higher than both. A sequence of 0: the slot is not valid.
pub(super) fn check_overwritten(sequences: [u64; 2], index: usize, sequence: u64) -> Result<()> {
    let [overwritten, other] = [sequences[index], sequences[1 - index]];
    let is_older = overwritten < other || overwritten == 0;
    check(is_older && sequence > overwritten.max(other), || {
        format!("a root {sequence} was to be written over slot {index} of {sequences:?}")
    })
}

/// Fails unless `holds`. Wrong variants of the protocol pass: the tests must catch them by their consequences.
fn check(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds || mutant::is_any() { Ok(()) } else { Err(Error::Internal { what: what() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Referred<'_> = Referred { sequence: 1, kept: &[], catalogue: None };

    fn blocks(first: u64, count: u64) -> Blocks {
        Blocks { first, count }
    }

    #[test]
    fn a_block_that_either_slot_refers_to_is_not_written() {
        let slots = [NOTHING, Referred { catalogue: Some(blocks(20, 2)), ..NOTHING }];
        for slots in [slots, [slots[1], slots[0]]] {
            let write = |first, count| check_unreferred((10, 30), slots, [blocks(12, 1), blocks(first, count)]);
            for (first, count) in [(10, 10), (22, 8), (21, 0)] {
                write(first, count).unwrap();
            }
            for (first, count) in [(20, 1), (21, 1), (19, 2), (15, 10), (21, 5), (29, 2), (9, 1), (9, 30)] {
                assert!(matches!(write(first, count), Err(Error::Internal { .. })), "{first}, {count}");
            }
        }
    }

    #[test]
    fn nothing_is_written_before_the_last_freeing_root_is_the_newest() {
        let allocation = |freeing: &[u64]| Allocation {
            freeing: freeing.iter().map(|first| blocks(*first, 1)).collect(),
            catalogue: blocks(20, 1),
            meta: blocks(21, 1),
            data: Vec::new().into(),
            shared: Vec::new(),
            early: Vec::new(),
            is_outline: false,
            frames: Vec::new(),
            packing: None,
        };
        // A catalogue that was read from the medium may be shorter than its reserved blocks.
        for (freeing, newest) in [
            (&[][..], Some(blocks(11, 1))),
            (&[12], Some(blocks(12, 2))),
            (&[11, 12], Some(blocks(12, 1))),
            (&[12], None),
        ] {
            check_freed(&allocation(freeing), newest).unwrap();
        }
        assert!(check_freed(&allocation(&[12]), Some(blocks(11, 1))).is_err());
        assert!(check_freed(&allocation(&[11, 12]), Some(blocks(11, 1))).is_err());
    }

    #[test]
    fn only_the_slot_with_the_lower_sequence_is_overwritten_by_a_higher_one() {
        for (sequences, index, sequence) in [([0, 0], 0, 1), ([1, 0], 1, 2), ([5, 6], 0, 7), ([9, 4], 1, 12)] {
            check_overwritten(sequences, index, sequence).unwrap();
        }
        for (sequences, index, sequence) in
            [([1, 0], 0, 2), ([0, 1], 1, 2), ([5, 6], 1, 7), ([5, 5], 0, 6), ([5, 6], 0, 6), ([5, 6], 0, 3)]
        {
            assert!(check_overwritten(sequences, index, sequence).is_err(), "{sequences:?}, {index}, {sequence}");
        }
    }
}
