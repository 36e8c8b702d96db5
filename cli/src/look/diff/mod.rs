//! `mainstay diff`: the items that differ between two revisions, and by how much.

mod content;
mod difference;
mod table;

use crate::{
    arguments::{self, Revision},
    document::{self, DiffSide, DiffState, ItemDiff, Key},
    exit::{Exit, Failure, say},
    output, progress,
    take::{Block, left_by},
};
use content::{Cells, Content, Settle, by_blocks, by_cells, cut_too_finely};
use mainstay_engine::{Reader, space::format::Item};
use std::collections::BTreeMap;

pub fn diff(wanted: &arguments::Diff) -> Result<Exit, Failure> {
    let open = |one: Revision| Reader::open(&wanted.space.path, one.number(), "mainstay diff");
    let (mut a, mut b) = (open(wanted.first)?, open(wanted.second)?);
    let items = compare(&mut a, &mut b, &|_, _, _, _| ())?;
    a.elsewhere().iter().chain(b.elsewhere()).for_each(|what| say(what));
    if wanted.space.json {
        let same = items.iter().all(|item| item.state == DiffState::Same);
        let (first, second) = (Key::of(a.key()), Key::of(b.key()));
        output::json(&document::Diff { space: a.path(), first, second, same, items })?;
    } else {
        output::text(&table::page([a.key(), b.key()], &items, wanted.shards))?;
    }
    Ok(Exit::Good)
}

/// Compares all items of two revisions, which may be of different spaces.
pub fn compare(a: &mut Reader, b: &mut Reader, settle: Settle) -> Result<Vec<ItemDiff>, Failure> {
    let pairs = pairs(a, b)?;
    let bar = progress::of_bytes(pairs.iter().map(Pair::bytes).sum());
    bar.set_message(format!("revisions {} and {}", a.key().number, b.key().number));
    let mut items = Vec::new();
    for pair in &pairs {
        items.push(pair.compare(a, b, settle)?);
        bar.inc(pair.bytes());
    }
    bar.finish_and_clear();
    Ok(items)
}

/// One comparison.
struct Pair {
    shard: u32,
    first: Option<Item>,
    second: Option<Item>,
    /// For a global array that is compared cell by cell: the cells that the other revision lacks.
    alone: Option<Vec<Block>>,
}

/// The items of one name, by shard.
type ByShard = BTreeMap<u32, Item>;

/// All items of both revisions, by name and shard.
fn pairs(a: &Reader, b: &Reader) -> Result<Vec<Pair>, Failure> {
    let (mut first, mut second) = (by_name(a)?, by_name(b)?);
    let mut names: Vec<String> = first.keys().chain(second.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    let mut pairs = Vec::new();
    for name in names {
        let (mut here, mut there) = (first.remove(&name).unwrap_or_default(), second.remove(&name).unwrap_or_default());
        if is_cut_otherwise(&here, &there) {
            pairs.extend(by_box(&name, here, there)?);
            continue;
        }
        let mut shards: Vec<u32> = here.keys().chain(there.keys()).copied().collect();
        shards.sort_unstable();
        shards.dedup();
        pairs.extend(shards.into_iter().map(|shard| Pair {
            shard,
            first: here.remove(&shard),
            second: there.remove(&shard),
            alone: None,
        }));
    }
    Ok(pairs)
}

/// The boxes of the first revision, then those of the second with cells that the first lacks.
fn by_box(name: &str, here: ByShard, there: ByShard) -> Result<Vec<Pair>, Failure> {
    let all = |items: &ByShard| items.values().map(boxed).collect::<Vec<_>>();
    let (ours, theirs) = (all(&here), all(&there));
    let alone = |item: &Item, others: &[Block]| left_by(&boxed(item), others).ok_or_else(|| cut_too_finely(name));
    let mut pairs = Vec::new();
    for (shard, item) in here {
        pairs.push(Pair { shard, alone: Some(alone(&item, &theirs)?), first: Some(item), second: None });
    }
    for (shard, item) in there {
        let alone = alone(&item, &ours)?;
        if !alone.is_empty() {
            pairs.push(Pair { shard, alone: Some(alone), first: None, second: Some(item) });
        }
    }
    Ok(pairs)
}

/// The box of an item of a global array.
fn boxed(item: &Item) -> Block {
    let offset = item.place.as_ref().map_or_else(|| vec![0; item.shape.len()], |place| place.offset.clone());
    Block { offset, shape: item.shape.clone() }
}

fn by_name(reader: &Reader) -> Result<BTreeMap<String, ByShard>, Failure> {
    let mut names: BTreeMap<String, ByShard> = BTreeMap::new();
    for shard in 0..reader.shard_count() {
        for item in &reader.shard(shard)?.items {
            names.entry(item.name.clone()).or_default().insert(shard, item.clone());
        }
    }
    Ok(names)
}

/// True if both revisions have this global array in different boxes.
fn is_cut_otherwise(here: &ByShard, there: &ByShard) -> bool {
    let whole = |item: &Item| item.place.as_ref().map(|place| (item.element, place.global_shape.clone()));
    let Some(of) = here.values().next().and_then(whole) else { return false };
    let is_of = |item: &Item| whole(item).as_ref() == Some(&of);
    let boxes = |items: &ByShard| -> Vec<_> {
        items.iter().map(|(shard, item)| (*shard, item.shape.clone(), item.place.clone())).collect()
    };
    !there.is_empty() && here.values().chain(there.values()).all(is_of) && boxes(here) != boxes(there)
}

impl Pair {
    fn bytes(&self) -> u64 {
        [&self.first, &self.second].into_iter().flatten().map(|item| item.bytes).max().unwrap_or(0)
    }

    fn compare(&self, a: &mut Reader, b: &mut Reader, settle: Settle) -> Result<ItemDiff, Failure> {
        let shard = self.shard;
        if let (Some(alone), Some(item)) = (&self.alone, self.first.as_ref().or(self.second.as_ref())) {
            let cells = Cells { item, boxed: boxed(item), alone: alone.clone() };
            return Ok(match (&self.first, cells.are_all_alone()) {
                (None, _) => self.told(item, DiffState::OnlyInSecond, cells.uncompared()),
                (Some(_), true) => self.told(item, DiffState::OnlyInFirst, cells.uncompared()),
                (Some(_), false) => {
                    let content = by_cells(a, b, shard, &cells)?;
                    self.told(item, state_of(&content), content)
                }
            });
        }
        match (&self.first, &self.second) {
            (Some(item), Some(other)) => {
                let is_same_element = item.element == other.element;
                let is_alike = is_same_element && item.shape == other.shape && item.place == other.place;
                let content = if is_same_element {
                    by_blocks(a, b, shard, [item, other], settle)?
                } else {
                    Content::other(item.bytes.max(other.bytes))
                };
                let state = if is_alike { state_of(&content) } else { DiffState::Reshaped };
                Ok(self.told(item, state, content))
            }
            (Some(item), None) => Ok(self.told(item, DiffState::OnlyInFirst, Content::other(item.bytes))),
            (None, Some(item)) => Ok(self.told(item, DiffState::OnlyInSecond, Content::other(item.bytes))),
            (None, None) => Err(Failure::lost("internal error, please report it: nothing to compare".to_owned())),
        }
    }

    fn told(&self, item: &Item, state: DiffState, content: Content) -> ItemDiff {
        let Content { blocks, blocks_changed, difference, .. } = content;
        ItemDiff {
            item: item.name.clone(),
            shard: self.shard,
            global: self.alone.is_some(),
            state,
            first: self.first.as_ref().map(DiffSide::of),
            second: self.second.as_ref().map(DiffSide::of),
            blocks,
            blocks_changed,
            elements_changed: difference.changed,
            largest_difference: difference.largest.map(|(by, _)| by),
            largest_at: difference.largest.map(|(_, index)| indices(item, index)),
            not_finite: difference.not_finite,
            first_at: difference.first.as_ref().map(|first| indices(item, first.index)),
            first_values: difference.first.map(|first| first.values),
        }
    }
}

fn state_of(content: &Content) -> DiffState {
    if content.blocks_changed == 0 { DiffState::Same } else { DiffState::Changed }
}

/// The index of element `index` of an item in each dimension, in the global array if there is one.
fn indices(item: &Item, index: u64) -> Vec<u64> {
    let mut rest = index;
    let mut indices: Vec<u64> = item
        .shape
        .iter()
        .rev()
        .map(|length| {
            let length = (*length).max(1);
            let here = rest % length;
            rest /= length;
            here
        })
        .collect();
    indices.reverse();
    if let Some(place) = &item.place {
        indices.iter_mut().zip(&place.offset).for_each(|(index, offset)| *index += offset);
    }
    indices
}
