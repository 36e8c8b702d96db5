//! Shares blocks when a shard is saved again: on a farther level, or by the holder of a copy. These have an older
//! revision of their own, and a block that is the same there need not be carried again.
//!
//! Invariant: a block is shared only if its hash is the same. Each block of the older revision is shared at most once.

use super::{
    Base, BlockRun,
    block_runs::{add, runs_of, set_of, stored},
    limit_parts::too_many,
    region_plan::{more_blocks, once, runs},
    vacate::vacate,
};
use crate::{
    capture::{Contents, contents::extend},
    space::format::{BLOCK_BYTES, Extent, HASH_BYTES, Hashing, Item, Run},
};
use std::ops::Range;

/// A shard that shares blocks of an older revision in its portion.
#[derive(Debug)]
pub(crate) struct Delta {
    /// The contents, in a log of the carried blocks, followed by the shared ones.
    pub(crate) contents: Contents,
    pub(crate) shared: Vec<Run>,
    /// For each block of the whole log, its number in the log of carried blocks.
    places: Vec<u64>,
    /// The hashes of the shared blocks, in their order in the log.
    rows: Vec<u8>,
}

/// The blocks of the log of a shard with these `contents` that differ from the same blocks of the same items in `old`,
/// as ascending stretches. `rows`: the hashes of all blocks of the log.
pub(crate) fn differing(contents: &Contents, rows: &[u8], old: &Base) -> Vec<Range<u64>> {
    let lies = stored_of(contents);
    without(contents, &lies, &same(contents, &lies, rows, old))
}

/// The same, and the blocks in the emptiest segments of `old`'s portion, if it is in many parts.
pub(crate) fn differing_or_sparse(contents: &Contents, rows: &[u8], old: &Base) -> Vec<Range<u64>> {
    let lies = stored_of(contents);
    let mut same = same(contents, &lies, rows, old);
    if same.iter().any(|same| too_many(same) > 0) {
        let (more, mut shared) = (more_blocks(contents.blocks * BLOCK_BYTES, &same), set_of(&same).0);
        vacate(&mut same, more, &mut shared, &[]);
    }
    without(contents, &lies, &same)
}

/// By item, the places of its blocks in the log, without zeros, which are not carried.
fn stored_of(contents: &Contents) -> Vec<Vec<BlockRun>> {
    contents.items.iter().map(|item| stored(&runs_of(item))).collect()
}

/// By item, the blocks that are as in `old`, and their places there.
fn same(contents: &Contents, lies: &[Vec<BlockRun>], rows: &[u8], old: &Base) -> Vec<Vec<BlockRun>> {
    let hash_of = |block: u64| rows.get(block as usize * HASH_BYTES..(block as usize + 1) * HASH_BYTES);
    let same = contents.items.iter().zip(lies).map(|(item, lies)| {
        let mut same = Vec::<BlockRun>::new();
        each_pair(lies, &old.stored(&item.name), |block, at, old_at| {
            if hash_of(at).is_some_and(|hash| old.hash_at(old_at) == Some(hash)) {
                add(&mut same, BlockRun { block, at: old_at, count: 1 });
            }
        });
        same
    });
    once(same.collect(), old)
}

/// The blocks of the log without the `same` ones, as ascending stretches.
fn without(contents: &Contents, lies: &[Vec<BlockRun>], same: &[Vec<BlockRun>]) -> Vec<Range<u64>> {
    let mut is_same = vec![false; contents.blocks as usize];
    for (lies, same) in lies.iter().zip(same) {
        each_pair(lies, same, |_, at, _| is_same[at as usize] = true);
    }
    let mut differing = Vec::<Range<u64>>::new();
    for block in (0..contents.blocks).filter(|block| !is_same[*block as usize]) {
        match differing.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => differing.push(block..block + 1),
        }
    }
    differing
}

/// Calls `each` with the blocks that are in both: number in the item, place in the one, place in the other.
fn each_pair(one: &[BlockRun], other: &[BlockRun], mut each: impl FnMut(u64, u64, u64)) {
    let mut rest = other.iter().peekable();
    for lies in one {
        for inside in 0..lies.count {
            let block = lies.block + inside;
            while rest.next_if(|other| other.block + other.count <= block).is_some() {}
            if let Some(other) = rest.peek().filter(|other| other.block <= block) {
                each(block, lies.at + inside, other.at + (block - other.block));
            }
        }
    }
}

impl Delta {
    /// A shard with `contents`. The blocks `carried` of its log are carried; `old` has all others at the places of the
    /// same items; `None` if it does not.
    pub(crate) fn new(contents: &Contents, carried: &[Range<u64>], old: &Base) -> Option<Delta> {
        const UNKNOWN: u64 = u64::MAX;
        let blocks = usize::try_from(contents.blocks).ok()?;
        let (mut comes, mut places, mut own) = (vec![false; blocks], vec![UNKNOWN; blocks], 0);
        for block in carried.iter().cloned().flatten() {
            *comes.get_mut(block as usize)? = true;
            places[block as usize] = own;
            own += 1;
        }
        let mut lie = Vec::new();
        for item in &contents.items {
            each_pair(&stored(&runs_of(item)), &old.stored(&item.name), |_, at, old_at| {
                if let (Some(false), Some(place @ &mut UNKNOWN)) = (comes.get(at as usize), places.get_mut(at as usize))
                {
                    *place = old_at;
                    lie.push(old_at);
                }
            });
        }
        lie.sort_unstable();
        let mut stretches = Vec::<BlockRun>::new();
        for at in lie {
            match stretches.last_mut() {
                Some(last) if at < last.at + last.count => return None,
                Some(last) if last.at + last.count == at => last.count += 1,
                _ => stretches.push(BlockRun { block: 0, at, count: 1 }),
            }
        }
        let (shared, numbers) = runs(set_of(&[stretches]).0, old)?;
        for (place, comes) in places.iter_mut().zip(&comes) {
            match (*place, comes) {
                (_, true) => {}
                (UNKNOWN, false) => return None,
                (at, false) => *place = own + numbers.of_block(at)?,
            }
        }
        let mut rows = Vec::new();
        for run in &shared {
            rows.extend_from_slice(old.hashes(run.first_block..run.stretch().end())?);
        }
        let shared_blocks: u64 = shared.iter().map(|run| run.blocks).sum();
        debug_assert!(places.iter().all(|place| *place < own + shared_blocks), "a block has no place");
        let items = contents.items.iter().map(|item| placed(item, &places)).collect::<Option<_>>()?;
        let shared_blocks = own..own + shared_blocks;
        let annex = contents.annex.clone();
        let contents = Contents { items, blocks: own, shared: shared_blocks, is_outline: false, annex };
        Some(Delta { contents, shared, places, rows })
    }

    /// The place in the log of carried blocks of a byte of the whole log, if it is carried.
    pub(crate) fn place(&self, at: u64) -> Option<u64> {
        let place = *self.places.get((at / BLOCK_BYTES) as usize)?;
        (place < self.contents.blocks).then(|| place * BLOCK_BYTES + at % BLOCK_BYTES)
    }

    /// For each block of this log, including the shared ones, its number in the whole log, if it has one.
    pub(crate) fn homes(&self) -> Vec<Option<u64>> {
        let shared: u64 = self.shared.iter().map(|run| run.blocks).sum();
        let mut homes = vec![None; (self.contents.blocks + shared) as usize];
        for (block, place) in self.places.iter().enumerate() {
            let other = homes[*place as usize].replace(block as u64);
            debug_assert_eq!(other, None, "two blocks have one place");
        }
        homes
    }

    /// The hash of the hashes of all blocks of the whole log. `carried`: the hashes of the carried blocks.
    pub(crate) fn hash_of_hashes(&self, carried: &[u8]) -> Option<[u8; HASH_BYTES]> {
        let mut all = Hashing::default();
        for place in &self.places {
            let (row, number) = match place.checked_sub(self.contents.blocks) {
                None => (carried, *place),
                Some(number) => (&self.rows[..], number),
            };
            all.add(row.get(number as usize * HASH_BYTES..(number as usize + 1) * HASH_BYTES)?);
        }
        Some(all.hash())
    }
}

/// The same item, in a log with each block at its place.
fn placed(item: &Item, places: &[u64]) -> Option<Item> {
    let mut extents = Vec::with_capacity(item.extents.len());
    for extent @ Extent { at, bytes } in &item.extents {
        if extent.is_zeros() {
            extents.push(*extent);
            continue;
        }
        let (mut at, end) = (*at, at + bytes);
        while at < end {
            let to = end.min((at / BLOCK_BYTES + 1) * BLOCK_BYTES);
            let place = places.get((at / BLOCK_BYTES) as usize)?;
            extend(&mut extents, place * BLOCK_BYTES + at % BLOCK_BYTES, to - at);
            at = to;
        }
    }
    Some(Item { extents, ..item.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capture::changed::item_of,
        space::format::{Annex, Manifest, hash},
    };

    /// Whatever differs, every byte of every item keeps its value, carried or shared, and the hash of all hashes is
    /// that of the whole. If there are many parts, blocks left in an empty segment are carried too.
    #[test]
    fn every_byte_is_carried_or_led_to() {
        const SEGMENT_AT: u64 = 1 << 20;
        for seed in 0..101 {
            let mut random = fastrand::Rng::with_seed(seed);
            let are_many = seed == 100;
            let count = if are_many { 5 << 10 } else { random.u64(1..200) };
            // The old revision: its blocks are at random places in a portion, in the item's order.
            let mut order: Vec<u64> = match are_many {
                true => (1 << 10..6 << 10).map(|at| if at % 512 == 7 { SEGMENT_AT + at / 512 } else { at }).collect(),
                false => (0..count).map(|index| 10 + 2 * index + index % 3 / 2).collect(),
            };
            let mut sorted = order.clone();
            sorted.sort_unstable();
            random.shuffle(&mut order);
            let old_content: Vec<u64> = (0..count).map(|_| random.u64(0..50)).collect();
            let extent = |block: &u64| Extent { at: block * BLOCK_BYTES, bytes: BLOCK_BYTES };
            let old_item = item_of("a", order.iter().map(extent).collect());
            let hash_of = |content: u64| hash(&content.to_le_bytes());
            let (mut runs, mut rows, mut at) = (Vec::new(), Vec::new(), 1 << 30);
            for block in &sorted {
                let content = old_content[order.iter().position(|other| other == block).unwrap()];
                rows.extend(hash_of(content));
                let hashes_hash = hash(&hash_of(content));
                runs.push(Run { first_block: *block, blocks: 1, hashes_at: at, hashes_hash });
                at += HASH_BYTES as u64;
            }
            let manifest = Manifest { runs, items: vec![old_item], ..Manifest::default() };
            let old = Base::new(&manifest, rows).unwrap();
            // The new revision, in its log; the item's end shares a block with another item.
            let mut log: Vec<u64> = (0..=count).collect();
            random.shuffle(&mut log);
            let odds = if are_many { 3 } else { random.u8(0..=20) };
            let mut content = old_content.clone();
            content.iter_mut().for_each(|content| *content += if random.u8(0..20) < odds { 100 } else { 0 });
            let mut extents: Vec<Extent> = Vec::new();
            log[..count as usize].iter().for_each(|block| extend(&mut extents, block * BLOCK_BYTES, BLOCK_BYTES));
            let last = log[count as usize] * BLOCK_BYTES;
            extents.push(Extent { at: last, bytes: 100 });
            let items = vec![item_of("a", extents), item_of("b", vec![Extent { at: last + 128, bytes: 50 }])];
            let contents =
                Contents { items, blocks: count + 1, shared: 0..0, is_outline: false, annex: Annex::default() };
            let mut new_rows = vec![0; (count as usize + 1) * HASH_BYTES];
            for (block, content) in log.iter().zip(content.iter().chain([&7777])) {
                new_rows[*block as usize * HASH_BYTES..][..HASH_BYTES].copy_from_slice(&hash_of(*content));
            }
            let find = if are_many { differing_or_sparse } else { differing };
            let carried = find(&contents, &new_rows, &old);
            let delta = Delta::new(&contents, &carried, &old).unwrap();
            let is_carried = |(content, at): (&u64, &u64)| *content >= 100 || are_many && *at >= SEGMENT_AT;
            let changed = content.iter().zip(&order).filter(|both| is_carried(*both)).count() as u64;
            assert_eq!(delta.contents.blocks, changed + 1, "seed {seed}");
            assert_eq!(delta.contents.shared.end - delta.contents.shared.start, count - changed);
            let mut own = vec![0; delta.contents.blocks as usize * HASH_BYTES];
            for block in carried.iter().cloned().flatten() {
                let place = (delta.place(block * BLOCK_BYTES).unwrap() / BLOCK_BYTES) as usize;
                own[place * HASH_BYTES..][..HASH_BYTES]
                    .copy_from_slice(&new_rows[block as usize * HASH_BYTES..][..HASH_BYTES]);
            }
            assert_eq!(delta.hash_of_hashes(&own), Some(hash(&new_rows)), "seed {seed}");
            let lies = runs_of(&delta.contents.items[0]);
            let found = lies.iter().flat_map(|lies| lies.at..lies.at + lies.count).map(|at| {
                match at.checked_sub(delta.contents.blocks) {
                    None => own[at as usize * HASH_BYTES..][..HASH_BYTES].to_vec(),
                    Some(number) => delta.rows[number as usize * HASH_BYTES..][..HASH_BYTES].to_vec(),
                }
            });
            assert!(found.eq(content.iter().map(|content| hash_of(*content).to_vec())), "seed {seed}");
            // A block that is neither carried nor present is noticed.
            if let Some(first) = carried.first().filter(|first| first.contains(&log[0])) {
                let less: Vec<_> = carried.iter().filter(|range| *range != first).cloned().collect();
                let less = Delta::new(&contents, &less, &old);
                assert!(less.is_none_or(|less| less.hash_of_hashes(&own) != Some(hash(&new_rows))), "seed {seed}");
            }
        }
    }
}
