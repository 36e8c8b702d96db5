//! Fills in the shared blocks of an outline, with the places that its base has for them.
//!
//! Invariant: an outline refers only to the same blocks of the item of the same name.

use super::{Base, BlockRun, block_runs::set_of, region_plan::runs};
use crate::{
    capture::{
        Contents,
        contents::{bytes_of, extend},
    },
    space::format::{BLOCK_BYTES, Extent, Item, ItemKind, Run},
};
use std::ops::Range;

impl Contents {
    /// The contents of an outline, with the blocks shared with `base` numbered behind the log, as an allocation has
    /// them, and their runs; `None` if the base lacks one.
    pub(crate) fn filled(&self, base: &Base) -> Option<(Contents, Vec<Run>)> {
        let (mut first, mut clean) = (self.shared.start, Vec::with_capacity(self.items.len()));
        for item in &self.items {
            let blocks = if item.kind == ItemKind::Stream { 0 } else { item.bytes / BLOCK_BYTES };
            clean.push(self.clean_of(item, first, base)?);
            first = first.checked_add(blocks)?;
        }
        if first != self.shared.end {
            return None;
        }
        let (set, are_apart) = set_of(&clean);
        let (shared, numbers) = runs(set, base).filter(|_| are_apart)?;
        let delta = shared.iter().map(|run| run.blocks).sum::<u64>();
        let items = self.items.iter().zip(clean).map(|(item, clean)| {
            let (mut extents, mut clean) = (Vec::with_capacity(item.extents.len() + clean.len()), clean.into_iter());
            for Extent { at, bytes } in &item.extents {
                if !self.is_left_to_base(*at) {
                    extend(&mut extents, *at, *bytes);
                    continue;
                }
                let mut left = bytes / BLOCK_BYTES;
                while left > 0 {
                    let lies = clean.next()?;
                    left = left.checked_sub(lies.count)?;
                    let at = match lies.are_zeros() {
                        true => Extent::ZEROS,
                        false => (self.blocks + numbers.of_block(lies.at)?) * BLOCK_BYTES,
                    };
                    extend(&mut extents, at, lies.count * BLOCK_BYTES);
                }
            }
            debug_assert_eq!(bytes_of(&extents), bytes_of(&item.extents), "an item gets other bytes from its base");
            Some(Item { extents, ..item.clone() })
        });
        let items = items.collect::<Option<Vec<Item>>>()?;
        let shared_blocks = self.blocks..self.blocks + delta;
        let filled = Contents {
            items,
            blocks: self.blocks,
            shared: shared_blocks,
            is_outline: false,
            annex: self.annex.clone(),
        };
        Some((filled, shared))
    }

    /// The places in `base` of the blocks of `item` that the outline shares, numbered from `first` on.
    fn clean_of(&self, item: &Item, first: u64, base: &Base) -> Option<Vec<BlockRun>> {
        let (mut offset, mut gaps) = (0_u64, Vec::<Range<u64>>::new());
        for Extent { at, bytes } in &item.extents {
            if self.is_left_to_base(*at) {
                let block = offset / BLOCK_BYTES;
                let is_there = *at == first.checked_add(block)?.checked_mul(BLOCK_BYTES)?
                    && offset.is_multiple_of(BLOCK_BYTES)
                    && bytes.is_multiple_of(BLOCK_BYTES);
                gaps.push(is_there.then_some(block..block + bytes / BLOCK_BYTES)?);
            }
            offset = offset.checked_add(*bytes)?;
        }
        if gaps.is_empty() {
            return Some(Vec::new());
        }
        let lies = base.lies(&item.name)?;
        let clean = inside(lies, &gaps);
        let found: u64 = clean.iter().map(|lies| lies.count).sum();
        (found == gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>()).then_some(clean)
    }

    fn is_left_to_base(&self, at: u64) -> bool {
        let block = at / BLOCK_BYTES;
        self.shared.contains(&block)
    }
}

/// The parts of `lies` inside these ranges, each in one range; all ascend.
fn inside(lies: &[BlockRun], ranges: &[Range<u64>]) -> Vec<BlockRun> {
    let mut inside = Vec::with_capacity(lies.len() + ranges.len());
    let mut lies = lies.iter().peekable();
    for range in ranges {
        while lies.next_if(|lies| lies.block + lies.count <= range.start).is_some() {}
        // The last one may reach into the next range.
        for part in lies.clone().take_while(|lies| lies.block < range.end) {
            let (from, to) = (part.block.max(range.start), range.end.min(part.block + part.count));
            inside.push(BlockRun { block: from, at: part.at + (from - part.block), count: to - from });
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capture::changed::item_of,
        space::format::{Annex, Manifest, hash},
    };

    /// A record beside a pool is not trusted: whatever it says, an outline refers only to the item's own bytes.
    #[test]
    fn an_outline_that_contradicts_its_base_is_not_filled_in() {
        let rows: Vec<u8> = (200..220_u128).flat_map(u128::to_le_bytes).collect();
        let run = Run { first_block: 200, blocks: 20, hashes_at: 9000 * BLOCK_BYTES, hashes_hash: hash(&rows) };
        let saved = item_of("a", vec![Extent { at: 200 * BLOCK_BYTES, bytes: 20 * BLOCK_BYTES }]);
        let manifest = Manifest { runs: vec![run], items: vec![saved], ..Manifest::default() };
        let base = Base::new(&manifest, rows).unwrap();
        let block = |at: u64, blocks: u64| Extent { at: at * BLOCK_BYTES, bytes: blocks * BLOCK_BYTES };
        let outline = |name: &str, blocks: u64, shared: Range<u64>, extents: Vec<Extent>| {
            let items = vec![item_of(name, extents)];
            assert_eq!(items[0].bytes, blocks * BLOCK_BYTES);
            Contents { items, blocks: 2, shared, is_outline: true, annex: Annex::default() }.filled(&base).is_some()
        };
        let right = || vec![block(50, 3), block(0, 2), block(55, 15)];
        assert!(outline("a", 20, 50..70, right()));
        assert!(!outline("b", 20, 50..70, right()), "another item");
        assert!(!outline("a", 20, 50..71, right()), "more blocks than the regions have");
        assert!(!outline("a", 20, 50..70, vec![block(51, 3), block(0, 2), block(55, 15)]), "another block");
        assert!(!outline("a", 21, 50..71, vec![block(50, 21)]), "a block that the base lacks");
        let split = vec![
            Extent { at: 50 * BLOCK_BYTES, bytes: 9 },
            Extent { at: 50 * BLOCK_BYTES + 9, bytes: 20 * BLOCK_BYTES - 9 },
        ];
        assert!(!outline("a", 20, 50..70, split), "parts of blocks");
    }
}
