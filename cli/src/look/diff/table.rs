//! The differences as tables.

use crate::{
    document::{DiffSide, DiffState, ItemDiff},
    text::{self, Align},
};
use mainstay_engine::RevisionKey;
use std::collections::BTreeMap;

pub fn page([a, b]: [RevisionKey; 2], items: &[ItemDiff], by_shard: bool) -> String {
    let differ = |rows: &[&ItemDiff]| rows.iter().any(|row| row.state != DiffState::Same);
    let mut groups: BTreeMap<(&str, Option<u32>), Vec<&ItemDiff>> = BTreeMap::new();
    for item in items {
        groups.entry((&item.item, by_shard.then_some(item.shard))).or_default().push(item);
    }
    let all = groups.len();
    let rows: Vec<Vec<String>> = groups.values().filter(|rows| differ(rows)).map(|rows| row(rows, by_shard)).collect();
    let same = all - rows.len();
    let of = |key: RevisionKey| format!("{} (lineage {})", key.number, key.lineage.number);
    let mut page = format!("revision {} beside revision {}\n\n", of(a), of(b));
    if !rows.is_empty() {
        let columns = [
            ("item", Align::Left),
            (if by_shard { "shard" } else { "shards" }, Align::Right),
            ("change", Align::Left),
            ("size", Align::Right),
            ("blocks", Align::Right),
            ("elements", Align::Right),
            ("largest difference", Align::Left),
        ];
        page += &text::table(&columns, rows);
        page += "\n";
    }
    let things = match (same, by_shard) {
        (1, false) => "1 item is",
        (_, false) => &format!("{same} items are"),
        (1, true) => "1 item of a shard is",
        (_, true) => &format!("{same} items of shards are"),
    };
    page + &format!("{things} the same\n")
}

/// The line of an item of one shard, or of all shards.
fn row(all: &[&ItemDiff], by_shard: bool) -> Vec<String> {
    let changed: Vec<&&ItemDiff> = all.iter().filter(|item| item.state != DiffState::Same).collect();
    let shards = if by_shard { all[0].shard.to_string() } else { format!("{} of {}", changed.len(), all.len()) };
    let sum = |number: fn(&ItemDiff) -> u64| all.iter().map(|item| number(item)).sum::<u64>();
    let elements = sum(|item| item.elements_changed);
    vec![
        all[0].item.clone(),
        shards,
        what(&changed),
        size(all),
        format!("{} of {}", sum(|item| item.blocks_changed), sum(|item| item.blocks)),
        if elements > 0 { elements.to_string() } else { String::new() },
        largest(all, by_shard),
    ]
}

fn what(changed: &[&&ItemDiff]) -> String {
    let shape = |side: &Option<DiffSide>| side.as_ref().map_or(String::new(), shape_of);
    let one = |item: &ItemDiff| match item.state {
        DiffState::Same | DiffState::Changed => "changed".to_owned(),
        DiffState::Reshaped => format!("{} → {}", shape(&item.first), shape(&item.second)),
        DiffState::OnlyInFirst => "only in the first".to_owned(),
        DiffState::OnlyInSecond => "only in the second".to_owned(),
    };
    let mut words: Vec<String> = Vec::new();
    for word in changed.iter().map(|item| one(item)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    const WORDS_MAX: usize = 2;
    if words.len() > WORDS_MAX {
        words.truncate(WORDS_MAX);
        words.push("…".to_owned());
    }
    words.join(", ")
}

fn shape_of(side: &DiffSide) -> String {
    let joined = |numbers: &[u64], by| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(by);
    let mut shape = format!("{} {}", side.element_type, joined(&side.shape, " × "));
    if let (Some(global), Some(offset)) = (&side.global_shape, &side.offset) {
        shape += &format!(" at {} of {}", joined(offset, ", "), joined(global, " × "));
    }
    shape.trim_end().to_owned()
}

/// The value of all shards in both revisions; once, if it is the same.
fn size(all: &[&ItemDiff]) -> String {
    let sum = |side: fn(&ItemDiff) -> &Option<DiffSide>| {
        all.iter().filter_map(|item| side(item).as_ref()).map(|side| side.bytes).reduce(|sum, bytes| sum + bytes)
    };
    match (sum(|item| &item.first), sum(|item| &item.second)) {
        (Some(a), Some(b)) if a != b => format!("{} → {}", text::bytes(a), text::bytes(b)),
        (a, b) => text::bytes(a.or(b).unwrap_or(0)),
    }
}

fn largest(all: &[&ItemDiff], by_shard: bool) -> String {
    let known = all.iter().filter_map(|item| Some((item.largest_difference?, item)));
    let mut text = match known.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        None => String::new(),
        Some((by, item)) => {
            let indices = item.largest_at.iter().flatten().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let mut text = number(by);
            if !indices.is_empty() {
                text += &format!(" at {indices}");
            }
            if !by_shard && all.len() > 1 {
                let of = if indices.is_empty() { "in" } else { "of" };
                text += &format!(" {of} shard {}", item.shard);
            }
            text
        }
    };
    let not_finite: u64 = all.iter().map(|item| item.not_finite).sum();
    if not_finite > 0 {
        let and = if text.is_empty() { "" } else { "; " };
        text += &format!("{and}{not_finite} infinite or NaN");
    }
    text
}

/// With four significant digits; whole numbers unchanged.
fn number(by: f64) -> String {
    const WHOLE_MAX: f64 = 1e15;
    match by {
        _ if by.fract() == 0.0 && by < WHOLE_MAX => format!("{by}"),
        0.001..10_000.0 => {
            let digits = 3 - by.log10().floor() as i32;
            let text = format!("{by:.*}", digits.max(0) as usize);
            // Zeros of a whole number are significant.
            if digits <= 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
        }
        _ => format!("{by:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn differences_read_well() {
        let all = [0.0, 2.0, 12_345.0, 0.5, 0.012_345_6, 1234.567, 3.2e-9, 1.5e300, 1e18].map(number);
        assert_eq!(all, ["0", "2", "12345", "0.5", "0.01235", "1235", "3.200e-9", "1.500e300", "1.000e18"]);
        assert_eq!(
            [1000.5, 1230.5, 9990.4, 9999.7, 100.04, 10.0].map(number),
            ["1000", "1230", "9990", "10000", "100", "10"]
        );
    }
}
