//! An index of a revision in many parts, made once the revision is saved. With it, the cost of the next outline depends
//! on the changes, not on the size of the state.

use super::{
    BlockRun,
    limit_parts::{shortest_blocks, too_many},
    vacate::{emptiest, segment_of},
};
use crate::space::{BlockSet, free::Blocks};
use std::{collections::HashMap, ops::Range};

/// An index of this many blocks and items, or fewer, is made at once. A larger one must have at least one part for so
/// many blocks, and so many parts for each item. With fewer parts, a plan part by part is as fast.
const BLOCKS_FEW: u64 = 4096;
const ITEMS_FEW: usize = 64;
const BLOCKS_A_PART: u64 = 256;
const PARTS_AN_ITEM: u64 = 4;

/// At most this fraction of all blocks is staged again: see `region_plan::more_of`.
const SPARSE_PART: u64 = 3;

/// Marks in place of a block of the portion: a block of zeros, and a block that is not stored as a whole block.
const ZEROS_MARK: u32 = u32::MAX - 1;
const HOLE_MARK: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Index {
    numbers: HashMap<String, usize>,
    items: Vec<Indexed>,
    /// The number of stretches of all items' whole blocks.
    pub(super) parts: u64,
    /// The number of those blocks with bytes in the portion.
    pub(super) stored: u64,
    /// The blocks in the emptiest segments, by item and number there; the emptiest segment first.
    sparse: Vec<(u32, u32)>,
    /// The end of each segment in `sparse`.
    ends: Vec<usize>,
}

/// The places of the whole blocks of an item.
#[derive(Debug)]
pub(super) struct Indexed {
    places: Vec<u32>,
    /// Blocks before the last one that have no place.
    pub(super) holes: Vec<Range<u64>>,
    /// The number of blocks to stage again until the item has few parts; `None` if it has.
    pub(super) to_merge: Option<u64>,
}

/// The place of a block of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Hole,
    Zeros,
    At(u64),
}

impl Index {
    /// The index of these items; `None` if they are in few parts, if the portion is too long for it, or if two items
    /// have one block, which no build saves.
    pub(super) fn of(items: &HashMap<String, Vec<BlockRun>>) -> Option<Index> {
        let parts: u64 = items.values().map(|lies| lies.len() as u64).sum();
        let blocks: u64 = items.values().filter_map(|lies| lies.last()).map(|last| last.block + last.count).sum();
        let is_long = |lies: &BlockRun| {
            let end = if lies.are_zeros() { lies.block } else { lies.at.max(lies.block) }.saturating_add(lies.count);
            end >= u64::from(ZEROS_MARK)
        };
        let are_many = parts.saturating_mul(BLOCKS_A_PART) >= blocks && parts >= PARTS_AN_ITEM * items.len() as u64;
        let is_worth_it = is_small(blocks, items.len()) || are_many;
        if !is_worth_it || items.values().flatten().any(is_long) {
            return None;
        }
        let stored = items.values().flatten().filter(|lies| !lies.are_zeros());
        let (set, are_apart) = BlockSet::of(stored.map(|lies| Blocks { first: lies.at, count: lies.count }));
        if !are_apart {
            return None;
        }
        let (mut numbers, mut all) = (HashMap::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (name, lies) in items {
            numbers.insert(name.clone(), all.len());
            all.push(Indexed::of(lies));
        }
        let (sparse, ends) = sparse(&all, &set);
        Some(Index { numbers, items: all, parts, stored: set.count(), sparse, ends })
    }

    /// The number of the item `name`, and its places.
    pub(super) fn item(&self, name: &str) -> Option<(usize, &Indexed)> {
        let number = *self.numbers.get(name)?;
        Some((number, &self.items[number]))
    }

    /// All items, in the order of their numbers.
    pub(super) fn items(&self) -> impl Iterator<Item = &Indexed> {
        self.items.iter()
    }

    /// The blocks in each of the emptiest segments of the portion, as numbers of items and of their blocks.
    pub(super) fn emptiest(&self) -> impl Iterator<Item = &[(u32, u32)]> {
        let mut from = 0;
        self.ends.iter().map(move |end| &self.sparse[std::mem::replace(&mut from, *end)..*end])
    }
}

impl Indexed {
    fn of(lies: &[BlockRun]) -> Indexed {
        let blocks = lies.last().map_or(0, |last| last.block + last.count);
        let (mut places, mut holes) = (vec![HOLE_MARK; blocks as usize], Vec::new());
        let mut end = 0;
        for part in lies {
            if end < part.block {
                holes.push(end..part.block);
            }
            end = part.block + part.count;
            let into = &mut places[part.block as usize..end as usize];
            match part.are_zeros() {
                true => into.fill(ZEROS_MARK),
                false => (part.at as u32..).zip(into).for_each(|(at, place)| *place = at),
            }
        }
        let to_merge = (too_many(lies) > 0).then(|| shortest_blocks(lies));
        Indexed { places, holes, to_merge }
    }

    /// The number of blocks up to the end of the last one.
    pub(super) fn blocks(&self) -> u64 {
        self.places.len() as u64
    }

    pub(super) fn place(&self, block: u64) -> Place {
        match self.places.get(block as usize) {
            None | Some(&HOLE_MARK) => Place::Hole,
            Some(&ZEROS_MARK) => Place::Zeros,
            Some(at) => Place::At((*at).into()),
        }
    }
}

/// Whether an index of this many blocks and items is made at once.
pub(super) fn is_small(blocks: u64, items: usize) -> bool {
    blocks <= BLOCKS_FEW && items <= ITEMS_FEW
}

/// The blocks in the emptiest segments of `stored`, which holds all items, and the end of each segment among them: as
/// many as one revision can stage again.
fn sparse(items: &[Indexed], stored: &BlockSet) -> (Vec<(u32, u32)>, Vec<usize>) {
    let (mut segments, mut left) = (emptiest(stored), stored.count() / SPARSE_PART);
    let most = segments.iter().position(|(_, count)| left.checked_sub(*count).map(|less| left = less).is_none());
    segments.truncate(most.unwrap_or(segments.len()));
    let last = segments.iter().map(|(segment, _)| *segment).max();
    let mut numbers = vec![usize::MAX; last.map_or(0, |last| last as usize + 1)];
    let (mut ends, mut end) = (Vec::with_capacity(segments.len()), 0);
    for (number, (segment, count)) in segments.into_iter().enumerate() {
        numbers[segment as usize] = number;
        ends.push(end);
        end += count as usize;
    }
    let mut sparse = vec![(0, 0); end];
    for (item, indexed) in (0..).zip(items) {
        for (block, at) in (0..).zip(&indexed.places).filter(|(_, at)| **at < ZEROS_MARK) {
            let number = numbers.get(segment_of((*at).into()) as usize);
            // Starts at the beginning of the segment in the list, and ends at its end.
            if let Some(next) = number.and_then(|number| ends.get_mut(*number)) {
                sparse[*next] = (item, block);
                *next += 1;
            }
        }
    }
    (sparse, ends)
}
