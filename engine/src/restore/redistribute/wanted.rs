//! Selects the blocks of a shard that one rank needs and another rank sends.
//!
//! Invariant: the request that all ranks get is short, for any boxes; a block comes with everything needed to verify
//! it.

use super::{blocks_of, united};
use crate::space::{
    format::{BLOCK_BYTES, Entry, Frame, Manifest, blocks_for, frames_in},
    free::Blocks,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Stretches with gaps up to this size are merged; if more than `STRETCHES_MAX` remain, others are merged too.
const GAP_BYTES: u64 = BLOCK_BYTES;
const STRETCHES_MAX: usize = 64;

/// Bytes of an item that a rank reads, as ascending stretches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WantedItem {
    name: String,
    stretches: Vec<Range<u64>>,
}

impl WantedItem {
    pub(super) fn new(name: &str, stretches: Vec<Range<u64>>) -> WantedItem {
        let (mut gap, mut stretches) = (GAP_BYTES, united(stretches, GAP_BYTES));
        while stretches.len() > STRETCHES_MAX {
            gap = gap.saturating_mul(2);
            stretches = united(stretches, gap);
        }
        WantedItem { name: name.to_owned(), stretches }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stretches.iter().fold(0, |sum, range| sum.saturating_add(range.end.saturating_sub(range.start)))
    }
}

/// The blocks with the `wanted` bytes of the shard with this `manifest`, numbered as in its runs; ascending, not
/// adjacent.
pub(crate) fn blocks_wanted(manifest: &Manifest, wanted: &[WantedItem]) -> Vec<Range<u64>> {
    let item = |of: &WantedItem| manifest.items.iter().find(|item| item.name == of.name);
    let blocks = wanted.iter().filter_map(|of| Some((of, item(of)?)));
    united(blocks.flat_map(|(of, item)| blocks_of(&item.extents, of.stretches.iter().cloned())).collect(), 0)
}

/// The stored form of `blocks` of a shard in its portion, with the data to verify them: the rows of hashes, and the
/// manifest itself. Ascending, not adjacent.
pub(crate) fn stored_blocks(entry: &Entry, manifest: &Manifest, blocks: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut stored: Vec<Range<u64>> = Vec::new();
    for range in blocks {
        let mut next = range.start;
        for frame in frames_in(&manifest.frames, Blocks { first: range.start, count: range.end - range.start }) {
            let Frame { first_block, stored_blocks, .. } = *frame;
            stored.extend(Some(next..first_block).filter(|plain| !plain.is_empty()));
            stored.push(first_block..first_block + stored_blocks);
            next = frame.room().end();
        }
        stored.extend(Some(next..range.end).filter(|plain| !plain.is_empty()));
    }
    for run in &manifest.runs {
        let first = blocks.partition_point(|range| range.end <= run.first_block);
        if blocks.get(first).is_some_and(|range| range.start < run.stretch().end()) {
            let row = run.row_blocks();
            stored.push(row.first..row.end());
        }
    }
    stored.push(entry.manifest_at / BLOCK_BYTES..blocks_for(entry.manifest_at + entry.manifest_bytes));
    united(stored, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::{Extent, Item, ItemKind, Run};
    use std::collections::BTreeSet;

    fn item(name: &str, extents: Vec<Extent>) -> Item {
        let bytes = extents.iter().map(|extent| extent.bytes).sum();
        Item {
            name: name.to_owned(),
            kind: ItemKind::Region,
            element: crate::space::format::ElementType::U8,
            bytes,
            shape: Vec::new(),
            place: None,
            same_on_all_ranks: false,
            extents,
        }
    }

    #[test]
    fn many_stretches_are_told_as_few_that_have_them_all() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200 {
            let count = random.usize(1..5000);
            let mut stretch = |_| {
                let from = random.u64(..1 << 30);
                from..from + random.u64(1..1 << 14)
            };
            let stretches: Vec<Range<u64>> = (0..count).map(&mut stretch).collect();
            let wanted = WantedItem::new("of many rows", stretches.clone());
            assert!(wanted.stretches.len() <= STRETCHES_MAX, "{} stretches", wanted.stretches.len());
            assert!(wanted.stretches.windows(2).all(|two| two[0].end + GAP_BYTES < two[1].start), "{wanted:?}");
            let has = |one: &Range<u64>| wanted.stretches.iter().any(|of| of.start <= one.start && one.end <= of.end);
            assert!(stretches.iter().all(has), "{wanted:?}");
        }
        let few = vec![0..10, 1 << 20..(1 << 20) + 1];
        assert_eq!(WantedItem::new("as they are", few.clone()).stretches, few);
    }

    /// Each wanted byte's block, its row and its frame are included.
    #[test]
    fn what_is_sent_is_what_is_read_with_all_that_it_is_verified_by() {
        let run =
            |first_block, blocks, hashes_at| Run { first_block, blocks, hashes_at, hashes_hash: Default::default() };
        let at = |block: u64| block * BLOCK_BYTES;
        let manifest = Manifest {
            items: vec![
                item("first", vec![Extent { at: at(40) + 7, bytes: at(3) }, Extent { at: at(60), bytes: at(20) }]),
                item("other", vec![Extent { at: at(90), bytes: at(1) }]),
            ],
            runs: vec![run(40, 4, at(200) + 100), run(60, 20, at(201) - 8), run(90, 1, at(300))],
            ..Manifest::default()
        };
        let entry = Entry { manifest_at: at(400) + 50, manifest_bytes: BLOCK_BYTES, ..entry() };
        let numbers = |ranges: Vec<Range<u64>>| ranges.into_iter().flatten().collect::<BTreeSet<u64>>();
        let asked = |name: &str, stretch: Range<u64>| {
            let blocks = blocks_wanted(&manifest, &[WantedItem::new(name, vec![stretch])]);
            (numbers(blocks.clone()), numbers(stored_blocks(&entry, &manifest, &blocks)))
        };
        // One byte in the second block of the first extent, and all hashes of the row.
        let one = at(1) - 7;
        assert_eq!(asked("first", one..one + 1), ([41].into(), [41, 200, 400, 401].into()));
        let (blocks, stored) = asked("first", at(3) + at(4)..at(3) + at(6));
        assert_eq!(blocks, [64, 65].into());
        assert_eq!(stored, [64, 65, 200, 201, 400, 401].into());
        assert_eq!(asked("other", 0..10).1, [90, 300, 400, 401].into());
        assert_eq!(asked("nobody's", 0..10), ([].into(), [400, 401].into()));
    }

    #[test]
    fn of_a_frame_comes_what_is_stored_of_it() {
        let frame = |first_block, blocks, stored_blocks| Frame { first_block, blocks, stored_blocks };
        let manifest = Manifest {
            runs: vec![Run {
                first_block: 40,
                blocks: 30,
                hashes_at: 200 * BLOCK_BYTES,
                hashes_hash: Default::default(),
            }],
            frames: vec![frame(42, 8, 3), frame(55, 4, 1)],
            ..Manifest::default()
        };
        let entry = Entry { manifest_at: 400 * BLOCK_BYTES, manifest_bytes: 10, ..entry() };
        let stored = |blocks: Range<u64>| stored_blocks(&entry, &manifest, &[blocks]);
        assert_eq!(stored(40..41), [40..41, 200..201, 400..401]);
        assert_eq!(stored(48..49), [42..45, 200..201, 400..401]);
        assert_eq!(stored(49..57), [42..45, 50..56, 200..201, 400..401]);
        assert_eq!(stored(41..60), [41..45, 50..56, 59..60, 200..201, 400..401]);
    }

    fn entry() -> Entry {
        let lineage = crate::space::format::Lineage { number: 1, id: [1; 16] };
        Entry {
            lineage,
            number: 1,
            shards: 1,
            shard: 0,
            bytes: 0,
            manifest_at: 0,
            manifest_bytes: 0,
            manifest_hash: Default::default(),
            meta_at: 0,
            meta_bytes: 0,
            phases: Default::default(),
        }
    }
}
