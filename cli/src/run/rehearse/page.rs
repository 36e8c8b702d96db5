//! The result of a rehearsal, for people.

use crate::{
    document::{DiffState, ItemDiff},
    text::{self, Align, count},
};
use mainstay_engine::printable_path;
use std::path::Path;

/// Number of differences to show one by one.
const SHOWN_MAX: usize = 20;

const CAUSES: &str = "\
Usual causes:
- A part of the state is not protected, or not restored: a counter, a second time level, a random generator.
- The state depends on the time, on random numbers without a seed, on addresses, or on the order of messages.
- An output file is written to and not protected: after a restart the lines since the last checkpoint appear twice.
- Something is computed from the state before it is restored, and not again after that.
";

/// A space of both runs.
pub struct Pair {
    pub items: Vec<ItemDiff>,
    /// Both are the revisions of the close: at the same step, whenever the program saved by itself.
    pub are_ends: bool,
    pub ranks: u32,
}

/// All compared items and files, by name.
#[derive(Default)]
pub struct Compared {
    spaces: Vec<(String, Pair)>,
    /// The places of the differences.
    files: Vec<(String, Option<String>)>,
}

impl Compared {
    /// `None`: nothing was saved there.
    pub fn add_space(&mut self, name: &Path, pair: Option<Pair>) {
        self.spaces.extend(pair.map(|pair| (printable_path(name), pair)));
    }

    pub fn add_file(&mut self, name: &Path, difference: Option<String>) {
        self.files.push((printable_path(name), difference));
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.spaces.iter().all(|(_, pair)| pair.items.is_empty())
    }

    pub fn is_same(&self) -> bool {
        self.files.iter().all(|(_, difference)| difference.is_none()) && self.changed().next().is_none()
    }

    fn changed(&self) -> impl Iterator<Item = (&str, &ItemDiff)> {
        self.spaces.iter().flat_map(|(name, pair)| {
            pair.items.iter().filter(|item| item.state != DiffState::Same).map(move |item| (name.as_str(), item))
        })
    }
}

pub fn page(compared: &Compared, kills: u32, seed: u64) -> String {
    let kills = count(kills.into(), "kill");
    let names = |pair: &Pair| {
        let mut names: Vec<&str> = pair.items.iter().map(|item| item.item.as_str()).collect();
        names.dedup();
        names.len() as u64
    };
    let mut what: Vec<String> = compared
        .spaces
        .iter()
        .map(|(name, pair)| format!("{} of {} in {name}", count(names(pair), "item"), count(pair.ranks.into(), "rank")))
        .collect();
    what.extend((!compared.files.is_empty()).then(|| count(compared.files.len() as u64, "file")));
    let what = what.join(", ");
    let repeat = format!("to repeat the same moments: --seed {seed}\n");
    if compared.is_same() {
        return format!("the same after {kills}: {what}\n{repeat}");
    }
    let mut page = format!("different after {kills}: {what}\n\n");
    let changed: Vec<_> = compared.changed().collect();
    if !changed.is_empty() {
        page += &table(&changed, compared.spaces.len() > 1);
        if changed.len() > SHOWN_MAX {
            page += &format!("and {} more\n", changed.len() - SHOWN_MAX);
        }
    }
    for (name, difference) in &compared.files {
        page += &difference.iter().map(|difference| format!("{name} differs {difference}\n")).collect::<String>();
    }
    if compared.spaces.iter().any(|(_, pair)| !pair.are_ends && differs(pair)) {
        page += "These are the last revisions that the job saved by itself, which may be of different steps if time decides when one is due: try again with MAINSTAY_EVERY_STEPS\n";
    }
    page + "\n" + CAUSES + "\n" + &repeat
}

fn differs(pair: &Pair) -> bool {
    pair.items.iter().any(|item| item.state != DiffState::Same)
}

fn table(changed: &[(&str, &ItemDiff)], several: bool) -> String {
    let columns = [
        ("space", Align::Left),
        ("item", Align::Left),
        ("rank", Align::Right),
        ("first at", Align::Left),
        ("undisturbed", Align::Left),
        ("killed", Align::Left),
        ("elements that differ", Align::Right),
    ];
    let skipped = usize::from(!several);
    let row = |(space, item): &(&str, &ItemDiff)| {
        let at = item.first_at.iter().flatten().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let [one, other] = match (&item.first_values, item.state) {
            (_, DiffState::OnlyInFirst) => ["there".to_owned(), "missing".to_owned()],
            (_, DiffState::OnlyInSecond) => ["missing".to_owned(), "there".to_owned()],
            (Some(values), _) => values.clone(),
            (None, _) => [&item.first, &item.second]
                .map(|side| side.as_ref().map_or(String::new(), |side| text::bytes(side.bytes))),
        };
        let all = [(*space).to_owned(), item.item.clone(), item.shard.to_string(), at, one, other, elements(item)];
        all.into_iter().skip(skipped).collect::<Vec<String>>()
    };
    text::table(&columns[skipped..], changed.iter().take(SHOWN_MAX).map(row))
}

fn elements(item: &ItemDiff) -> String {
    if item.elements_changed > 0 { item.elements_changed.to_string() } else { String::new() }
}
