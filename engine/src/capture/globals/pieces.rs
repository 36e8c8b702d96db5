//! The program's variables as regions: one for each variable that the program's file names, and one each for the
//! remaining bytes of .data and .bss. In a stripped program, adjacent variables are one region.
//!
//! Invariant: each byte is in one region. The same program gives the same regions in each run.

use super::{addresses, image::Image, symbols::Symbol};
use crate::capture::{
    check_name,
    ranges::{Range, meet, without},
};
use std::{cmp::Reverse, collections::HashSet};

/// The prefix of the names of these regions.
const NAMES: &str = "globals/";
/// At most this many variables are named, the largest first: the list of items is written with each revision.
const NAMED_MAX: usize = 4000;

/// Variables that are one region.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) name: String,
    /// Its stretches, in the order of their addresses.
    pub(super) ranges: Vec<Range>,
}

/// The variables of the program without those in `out`.
pub(super) fn pieces(image: &Image, out: &[Range]) -> Vec<Piece> {
    let of = |kind: &str| -> Vec<Range> {
        let all = image.variables.iter().filter(|(of, _)| *of == kind);
        all.flat_map(|(_, range)| without(range.clone(), out)).collect()
    };
    let kinds = ["data", "bss"].map(|kind| (kind, of(kind)));
    if image.symbols.is_empty() {
        return kinds.into_iter().flat_map(|(kind, ranges)| in_rows(kind, ranges)).collect();
    }
    let all: Vec<Range> = kinds.iter().flat_map(|(_, ranges)| ranges.clone()).collect();
    let mut pieces = named(&image.symbols, &all);
    let taken: Vec<Range> = pieces.iter().flat_map(|piece| piece.ranges.clone()).collect();
    for (kind, ranges) in kinds {
        let ranges: Vec<Range> = ranges.into_iter().flat_map(|range| without(range, &taken)).collect();
        if !ranges.is_empty() {
            // No C variable has such a name.
            pieces.push(Piece { name: format!("{NAMES}{kind}-unnamed"), ranges });
        }
    }
    pieces
}

fn in_rows(kind: &str, ranges: Vec<Range>) -> impl Iterator<Item = Piece> {
    ranges.into_iter().enumerate().map(move |(index, range)| {
        let number = if index == 0 { String::new() } else { format!("-{}", index + 1) };
        Piece { name: format!("{NAMES}{kind}{number}"), ranges: vec![range] }
    })
}

/// A piece for each symbol, with its bytes in `ranges`, which ascend.
fn named(symbols: &[Symbol], ranges: &[Range]) -> Vec<Piece> {
    let mut largest: Vec<&Symbol> = symbols.iter().collect();
    largest.sort_by_key(|one| (Reverse(one.range.end - one.range.start), one.range.start, &one.source, &one.name));
    let mut ranges: Vec<Range> = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    let (mut names, mut pieces) = (HashSet::from([addresses::NAME.to_owned()]), Vec::new());
    let mut taken: Vec<Range> = Vec::new();
    for symbol in largest {
        // If one variable has several names, the first counts.
        let at = taken.partition_point(|range| range.start < symbol.range.start);
        let is_taken = |range: &Range| meet(range, &symbol.range);
        if taken[..at].last().is_some_and(is_taken) || taken.get(at).is_some_and(is_taken) {
            continue;
        }
        let parts = parts_in(&symbol.range, &ranges);
        if parts.is_empty() {
            continue;
        }
        let Some(name) = name_of(symbol, &names) else { continue };
        taken.insert(at, symbol.range.clone());
        names.insert(name.clone());
        pieces.push(Piece { name, ranges: parts });
        if pieces.len() == NAMED_MAX {
            break;
        }
    }
    pieces.sort_by_key(|piece| piece.ranges[0].start);
    pieces
}

/// The parts of `range` in `ranges`, which ascend with gaps.
fn parts_in(range: &Range, ranges: &[Range]) -> Vec<Range> {
    let first = ranges.partition_point(|one| one.end <= range.start);
    let meeting = ranges[first..].iter().take_while(|one| one.start < range.end);
    meeting.map(|one| one.start.max(range.start)..one.end.min(range.end)).collect()
}

/// A new name for the symbol's region, not among `names`. If several source files have a variable of this name, the
/// file's name or a number is added.
fn name_of(symbol: &Symbol, names: &HashSet<String>) -> Option<String> {
    let alone = format!("{NAMES}{}", symbol.name);
    let of_source = symbol.source.as_ref().map(|source| format!("{NAMES}{source}/{}", symbol.name));
    let numbered = (2..).map(|number| format!("{alone}-{number}"));
    let mut all = [alone.clone()].into_iter().chain(of_source).chain(numbered);
    let name = all.find(|name| !names.contains(name))?;
    check_name(&name).is_ok().then_some(name)
}
