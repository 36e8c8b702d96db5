//! Restores a revision to other ranks than those that saved it. It decides from which cells of which shard each rank's
//! boxes are filled, and handles items that are no boxes.
//!
//! Invariant: every cell of a box comes from the lowest shard that has it, or nothing is filled. An item without a
//! place in a global array is restored only if it is the same on all ranks, or only rank 0 had it.

mod share;
mod wanted;

pub(crate) use share::{Sharing, box_of, counts_as_same, share_of};
pub(crate) use wanted::{WantedItem, blocks_wanted, stored_blocks};

use super::{hash_rows::HashRows, pour::pour_blocks, scatter::Scatter};
use crate::{
    boxes::Rows,
    capture::Region,
    error::Result,
    space::{
        Portion,
        format::{BLOCK_BYTES, Entry, Extent, Item, Manifest, Note, OutputLength, Refusal, blocks_for},
    },
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Range};

/// A shard as ranks describe it to each other: without its extents, which only the ranks that read it need.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedShard {
    pub(crate) entry: Entry,
    pub(crate) items: Vec<Item>,
    pub(crate) notes: Vec<Note>,
    pub(crate) outputs: Vec<OutputLength>,
}

/// The bytes of shards that fill the regions of one rank.
#[derive(Default)]
pub(crate) struct Redistribution<'a> {
    by_shard: BTreeMap<u32, Vec<Move<'a>>>,
}

/// Rows of one item of a shard, and their region.
pub(super) struct Move<'a> {
    item: String,
    region: &'a Region,
    rows: Rows,
}

impl SavedShard {
    pub(crate) fn of(entry: &Entry, manifest: &Manifest) -> SavedShard {
        let items = manifest.items.iter().map(|item| Item { extents: Vec::new(), ..item.clone() }).collect();
        let annex = &manifest.annex;
        SavedShard { entry: entry.clone(), items, notes: annex.notes.clone(), outputs: annex.outputs.clone() }
    }

    pub(crate) fn item(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.name == name)
    }
}

impl<'a> Redistribution<'a> {
    pub(super) fn add(&mut self, shard: u32, item: &str, region: &'a Region, rows: Rows) {
        self.by_shard.entry(shard).or_default().push(Move { item: item.to_owned(), region, rows });
    }

    /// The shards to read.
    pub(crate) fn shards(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_shard.keys().copied()
    }

    /// Fills the regions from the shard of this `manifest` in `portion`; `rows` are its hashes.
    pub(crate) fn pour(&self, portion: &Portion, shard: u32, manifest: &Manifest, rows: &mut HashRows) -> Result<()> {
        let moves: &[Move<'_>] = self.by_shard.get(&shard).map_or(&[], Vec::as_slice);
        let (mut pairs, mut wanted) = (Vec::with_capacity(moves.len()), Vec::new());
        for one in moves {
            let Some(item) = manifest.items.iter().find(|item| item.name == one.item) else {
                return Err(portion.refuse(Refusal::Damaged("it is not the announced one".into()), "manifest"));
            };
            pairs.push((item, one));
            wanted.extend(blocks_of(&item.extents, one.rows.stretches()));
        }
        let scatter = Scatter::new(pairs);
        scatter.fill_zeros(|one, offset, zeros| one.put(offset, zeros, Region::put_zeros));
        pour_blocks(portion, manifest, rows, &united(wanted, 0), &|at, bytes| {
            scatter.fill(at, bytes, |one, offset, part| one.put(offset, part, Region::copy_in));
        })
    }

    /// The parts of a shard to read.
    pub(crate) fn wanted(&self, shard: u32) -> Vec<WantedItem> {
        let mut stretches: BTreeMap<&str, Vec<Range<u64>>> = BTreeMap::new();
        for one in self.by_shard.get(&shard).into_iter().flatten() {
            stretches.entry(&one.item).or_default().extend(one.rows.stretches());
        }
        stretches.into_iter().map(|(name, all)| WantedItem::new(name, all)).collect()
    }
}

impl Move<'_> {
    /// Calls `put` for the bytes of `part` that belong to the region; `part` begins at `offset` of the item.
    fn put(&self, offset: u64, part: &[u8], put: impl Fn(&Region, u64, &[u8])) {
        self.rows.each(offset..offset + part.len() as u64, |from, to, bytes| {
            put(self.region, to, &part[(from - offset) as usize..][..bytes]);
        });
    }
}

/// The blocks with these bytes of an item; both ascend.
fn blocks_of(extents: &[Extent], stretches: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let (mut blocks, mut extents, mut begins) = (Vec::<Range<u64>>::new(), extents.iter().peekable(), 0);
    for stretch in stretches {
        while let Some(extent) = extents.peek() {
            let (from, to) = (stretch.start.max(begins), stretch.end.min(begins + extent.bytes));
            if from < to && !extent.is_zeros() {
                let at = extent.at + (from - begins);
                let range = at / BLOCK_BYTES..blocks_for(at + (to - from));
                match blocks.last_mut() {
                    Some(last) if last.start <= range.start && range.start <= last.end => {
                        last.end = last.end.max(range.end);
                    }
                    _ => blocks.push(range),
                }
            }
            if stretch.end < begins + extent.bytes {
                break;
            }
            begins += extent.bytes;
            extents.next();
        }
    }
    blocks
}

/// The `ranges` in ascending order; ranges with gaps up to `gap` are merged.
fn united(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut united: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}
