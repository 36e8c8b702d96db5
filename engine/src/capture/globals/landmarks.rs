//! The names of places in memory, noted in a rehearsal. Two runs have different addresses; pointers of both are the
//! same if they point to the same place.
//!
//! Invariant: an address that both runs can name is compared by name and offset.

use super::{addresses, image};
use crate::{
    capture::{heap, mappings, region::Region, snapshot::has_same_address},
    space::format::Note,
};
use std::{fmt::Write, io, ops::Range};

pub(super) const NOTE: &str = "globals/landmarks";
/// The limit of a note.
const BYTES_MAX: usize = 64 << 10;
const WORD: usize = 8;
/// Other numbers are not addresses. A program below this range has the same addresses in each run.
const ADDRESSES: Range<u64> = 1 << 32..1 << 56;

/// The text of the note: a line for each place, with its addresses and its name.
pub(super) fn text<'a>(handles: &[u64], regions: impl Iterator<Item = &'a Region>) -> io::Result<String> {
    let handles = handles.iter().enumerate().map(|(index, at)| (*at..at + 1, format!("/session-{index}")));
    let has_own = |at: usize| !has_same_address(at) && !heap::has_address(at);
    let mapped = mappings::named()?.into_iter().filter(|(pages, _)| has_own(pages.start));
    let mapped = mapped.map(|(pages, file)| (pages.start as u64..pages.end as u64, file));
    let regions = regions.map(|region| {
        let at = region.begins_at() as u64;
        (at..at + region.reach() as u64, region.description.name.clone())
    });
    let mut text = String::new();
    let program = (image::loaded(), "/program".to_owned());
    for (range, name) in [program].into_iter().chain(handles).chain(mapped).chain(regions) {
        let line = format!("{:x}-{:x} {name}\n", range.start, range.end);
        if ADDRESSES.contains(&range.start) && !range.is_empty() && text.len() + line.len() <= BYTES_MAX {
            let _ = text.write_str(&line);
        }
    }
    Ok(text)
}

/// The named places of the run that saved a shard.
#[derive(Debug, Default)]
pub struct Landmarks {
    /// Unsaved memory has no name.
    all: Vec<(Range<u64>, String)>,
}

impl Landmarks {
    /// Reads the `notes` of a shard; empty except in a rehearsal.
    pub fn of(notes: &[Note]) -> Landmarks {
        let text = notes.iter().find(|note| note.name == NOTE).map_or("", |note| &note.value);
        let place = |line: &str| {
            let (range, name) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let address = |text| u64::from_str_radix(text, 16).ok().filter(|at| ADDRESSES.contains(at));
            Some((address(start)?..address(end)?, name.to_owned()))
        };
        Landmarks { all: text.lines().filter_map(place).collect() }
    }

    /// Whether the item consists only of addresses.
    pub fn are_item(name: &str) -> bool {
        name == addresses::NAME
    }

    /// Copies each pointer of `ours` into `theirs`, an item of the other run, if both point to the same place. If
    /// neither run saves the memory that they point to, they count as the same.
    pub fn settle(&self, ours: &[u8], others: &Landmarks, theirs: &mut [u8]) {
        let length = ours.len().min(theirs.len());
        let mut at = 0;
        while let Some(differs) = (at..length).find(|at| ours[*at] != theirs[*at]) {
            let words = differs.saturating_sub(WORD - 1).max(at)..=differs;
            let is_same = |at: &usize| {
                let value = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.get(*at..*at + WORD)?.try_into().ok()?));
                let [one, other] = [
                    value(ours).and_then(|value| self.find(value)),
                    value(theirs).and_then(|value| others.find(value)),
                ];
                one.is_some() && one == other
            };
            at = match words.into_iter().find(is_same) {
                Some(word) => {
                    theirs[word..word + WORD].copy_from_slice(&ours[word..word + WORD]);
                    word + WORD
                }
                None => differs + 1,
            };
        }
    }

    /// The name of the smallest place that contains the address, and the offset there.
    fn find(&self, address: u64) -> Option<(&str, u64)> {
        let all = if ADDRESSES.contains(&address) { self.all.as_slice() } else { &[] };
        let there = all.iter().filter(|(range, _)| range.contains(&address));
        let (range, name) = there.min_by_key(|(range, _)| range.end - range.start)?;
        Some(if name.is_empty() { ("", 0) } else { (name, address - range.start) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landmarks(text: &str) -> Landmarks {
        Landmarks::of(&[Note { name: NOTE.to_owned(), value: text.to_owned() }])
    }

    #[test]
    fn pointers_are_the_same_that_lead_to_one_place() {
        let one = landmarks("7f0000000000-7f0000009000 \n7f0000001000-7f0000002000 a\n7f0000003000-7f0000004000 b\n");
        let other = landmarks("7f1000000000-7f1000009000 \n7f1000005000-7f1000006000 a\n7f1000007000-7f1000008000 b\n");
        let same = |a: u64, b: u64, before: usize| {
            let bytes = |value: u64| [vec![7; before], value.to_le_bytes().to_vec(), vec![9; 3]].concat();
            let (ours, mut theirs) = (bytes(a), bytes(b));
            one.settle(&ours, &other, &mut theirs);
            ours == theirs
        };
        for before in 0..9 {
            assert!(same(0x7f00_0000_1008, 0x7f10_0000_5008, before));
            assert!(same(0x7f00_0000_8010, 0x7f10_0000_0010, before), "both to unsaved memory");
            for [a, b] in [
                [0x7f00_0000_1008, 0x7f10_0000_5010],
                [0x7f00_0000_1008, 0x7f10_0000_7008],
                [0x7f00_0000_1008, 0x7f10_0000_0008],
                // It still points to a place of another run.
                [0x7f00_0000_1008, 0x7f00_0000_1010],
                [0x7f00_0000_1008, 0],
                [1, 2],
                [u64::MAX, 1],
            ] {
                assert!(!same(a, b, before), "{a:x} {b:x}");
            }
        }
    }

    #[test]
    fn notes_that_somebody_forged_name_no_places() {
        for text in ["", "\n", "x-y a", "7f0000002000-7f0000001000 a", "0-ffffffffffffffff ", "7f0000001000 a", "-"] {
            assert_eq!(landmarks(text).find(0x7f00_0000_1800), None, "{text}");
        }
    }
}
