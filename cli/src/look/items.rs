//! The items of a revision: each item of each shard, or the sum of each item over many shards.

use crate::{
    document::{ShownItem, ShownShard},
    text::{self, Align, count},
};
use std::collections::HashMap;

/// With more shards than this, one line sums up an item.
const LISTED_MAX: usize = 8;

pub fn items(shards: &[ShownShard], each: bool) -> String {
    if each || shards.len() <= LISTED_MAX { by_shard(shards) } else { by_item(shards) }
}

fn by_shard(shards: &[ShownShard]) -> String {
    let columns = [
        ("shard", Align::Right),
        ("item", Align::Left),
        ("kind", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
    ];
    let rows = shards.iter().flat_map(|shard| {
        shard.items.iter().map(|item| {
            let shape = match (&item.global_shape, &item.offset) {
                (Some(global), Some(offset)) => {
                    let own = joined(&item.shape, " × ");
                    format!("{own} at {} of {}", joined(offset, ", "), joined(global, " × "))
                }
                _ => shape(item),
            };
            vec![
                shard.shard.to_string(),
                item.name.clone(),
                item.kind.to_owned(),
                item.element_type.to_owned(),
                shape,
                text::bytes(item.bytes),
            ]
        })
    });
    text::table(&columns, rows)
}

/// In the order of the shards' lists.
fn by_item(shards: &[ShownShard]) -> String {
    let columns = [
        ("item", Align::Left),
        ("shards", Align::Right),
        ("kind", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
    ];
    let mut names: Vec<&str> = Vec::new();
    let mut all: Vec<Vec<&ShownItem>> = Vec::new();
    let mut places = HashMap::new();
    for item in shards.iter().flat_map(|shard| &shard.items) {
        let at = *places.entry(item.name.as_str()).or_insert_with(|| {
            names.push(&item.name);
            all.push(Vec::new());
            names.len() - 1
        });
        all[at].push(item);
    }
    let rows = names.iter().zip(&all).map(|(name, items)| {
        vec![
            (*name).to_owned(),
            format!("{} of {}", items.len(), shards.len()),
            alike(items, |item| item.kind.to_owned()),
            alike(items, |item| item.element_type.to_owned()),
            alike(items, shape),
            text::bytes(items.iter().map(|item| item.bytes).sum()),
        ]
    });
    let of = count(shards.len() as u64, "shard");
    format!("{}\nthe sums of {of}; give --shards to list each\n", text::table(&columns, rows))
}

/// The word, if all items have the same.
fn alike(items: &[&ShownItem], word: impl Fn(&ShownItem) -> String) -> String {
    let first = word(items[0]);
    if items.iter().all(|item| word(item) == first) { first } else { "various".to_owned() }
}

/// The shape of the global array for boxes, because the boxes may differ by a row.
fn shape(item: &ShownItem) -> String {
    match &item.global_shape {
        Some(global) => format!("boxes of {}", joined(global, " × ")),
        None if item.same_on_all_ranks => format!("{}, same on all ranks", joined(&item.shape, " × ")),
        None => joined(&item.shape, " × "),
    }
}

fn joined(numbers: &[u64], by: &str) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(by)
}
