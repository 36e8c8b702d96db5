//! The memory of a slot, as the rank has mapped it.
//!
//! Invariants: areas begin and end at page boundaries, lie in the slot, and do not overlap. An area that was ever
//! writable counts as memory, whatever file it came from: its bytes are saved. An area has a new `id` whenever its pages
//! are new ones, so a region of the engine never takes new pages for old ones.

use crate::address::PAGE;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Range};

/// Where the bytes of an area come from at a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// From the revision.
    Memory,
    /// From a file, which has never been writable here: its number in the list of the rank's mapped files, and the offset.
    File { file: u32, offset: u64 },
}

impl Source {
    fn after(&self, bytes: usize) -> Source {
        match self {
            Source::Memory => Source::Memory,
            Source::File { file, offset } => Source::File { file: *file, offset: offset + bytes as u64 },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Area {
    pub bytes: usize,
    /// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
    pub protection: i32,
    pub source: Source,
    pub id: u64,
}

/// The areas of a slot, by their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Areas {
    areas: BTreeMap<usize, Area>,
    next_id: u64,
}

impl Areas {
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Area)> {
        self.areas.iter().map(|(start, area)| (*start, area))
    }

    /// Enters fresh pages, in place of those that were at these addresses.
    pub fn insert(&mut self, range: Range<usize>, protection: i32, source: Source) {
        self.remove(range.clone());
        self.next_id += 1;
        let source = if protection & libc::PROT_WRITE == 0 { source } else { Source::Memory };
        self.areas.insert(range.start, Area { bytes: range.len(), protection, source, id: self.next_id });
        debug_assert!(range.start.is_multiple_of(PAGE) && range.len().is_multiple_of(PAGE));
    }

    pub fn remove(&mut self, range: Range<usize>) {
        for start in self.cut(&range) {
            self.areas.remove(&start);
        }
    }

    /// Sets the protection. False if a part of the range has no area.
    pub fn protect(&mut self, range: Range<usize>, protection: i32) -> bool {
        let starts = self.cut(&range);
        let mut mapped = 0;
        for start in starts {
            let area = self.areas.get_mut(&start).expect("an area begins here");
            mapped += area.bytes;
            area.protection = protection;
            if protection & libc::PROT_WRITE != 0 {
                area.source = Source::Memory;
            }
        }
        self.unite(&range);
        mapped == range.len()
    }

    /// The pages of the range are new ones, with the protection that they had. For memory that was dropped.
    pub fn renew(&mut self, range: Range<usize>) {
        for start in self.cut(&range) {
            self.next_id += 1;
            self.areas.get_mut(&start).expect("an area begins here").id = self.next_id;
        }
    }

    /// The area that has `address`.
    pub fn at(&self, address: usize) -> Option<(usize, &Area)> {
        let (start, area) = self.areas.range(..=address).next_back()?;
        (address < start + area.bytes).then_some((*start, area))
    }

    /// Whether all of the range has areas.
    pub fn covers(&self, range: &Range<usize>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let Some((start, area)) = self.at(at) else { return false };
            at = start + area.bytes;
        }
        true
    }

    /// The areas that lie in the range, wholly or in part.
    pub fn within(&self, range: &Range<usize>) -> Vec<(Range<usize>, Area)> {
        let mut found = Vec::new();
        let first = self.at(range.start).map_or(range.start, |(start, _)| start);
        for (start, area) in self.areas.range(first..range.end) {
            let part = range.start.max(*start)..range.end.min(start + area.bytes);
            if !part.is_empty() {
                found.push((part, area.clone()));
            }
        }
        found
    }

    /// The first free addresses for `bytes` bytes in `bounds`, with a free page behind them.
    pub fn free(&self, bounds: Range<usize>, bytes: usize) -> Option<usize> {
        let needed = bytes.checked_add(PAGE)?;
        let mut at = self.at(bounds.start).map_or(bounds.start, |(start, area)| start + area.bytes);
        for (start, area) in self.areas.range(bounds.start..bounds.end) {
            if *start >= at.checked_add(needed)? {
                break;
            }
            at = start + area.bytes;
        }
        (at.checked_add(needed)? <= bounds.end).then_some(at)
    }

    /// Cuts areas at both ends of the range. Returns where the areas inside begin.
    fn cut(&mut self, range: &Range<usize>) -> Vec<usize> {
        for at in [range.start, range.end] {
            let Some((start, area)) = self.areas.range(..at).next_back() else { continue };
            let (start, before) = (*start, at - *start);
            if before < area.bytes {
                let rest = Area { bytes: area.bytes - before, source: area.source.after(before), ..area.clone() };
                self.areas.get_mut(&start).expect("it is there").bytes = before;
                self.areas.insert(at, rest);
            }
        }
        self.areas.range(range.start..range.end.max(range.start)).map(|(start, _)| *start).collect()
    }

    /// Unites neighbours around the range that are alike again.
    fn unite(&mut self, range: &Range<usize>) {
        let first = self.areas.range(..range.start).next_back().map_or(range.start, |(start, _)| *start);
        let starts: Vec<usize> = self.areas.range(first..=range.end).map(|(start, _)| *start).collect();
        let mut last: Option<usize> = None;
        for start in starts {
            if let Some(before) = last {
                let (left, right) = (&self.areas[&before], &self.areas[&start]);
                let is_next =
                    before + left.bytes == start && left.protection == right.protection && left.id == right.id;
                if is_next && right.source == left.source.after(left.bytes) {
                    let bytes = left.bytes + right.bytes;
                    self.areas.get_mut(&before).expect("it is there").bytes = bytes;
                    self.areas.remove(&start);
                    continue;
                }
            }
            last = Some(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{PROT_NONE, PROT_READ, PROT_WRITE};

    const BOTH: i32 = PROT_READ | PROT_WRITE;

    /// The same, page by page.
    fn pages(areas: &Areas) -> BTreeMap<usize, (i32, Source, u64)> {
        let mut all = BTreeMap::new();
        for (start, area) in areas.iter() {
            for at in (0..area.bytes).step_by(PAGE) {
                let page = (area.protection, area.source.after(at), area.id);
                assert!(all.insert(start + at, page).is_none(), "two areas have the page {:x}", start + at);
            }
        }
        all
    }

    #[test]
    fn areas_are_the_same_as_pages_treated_one_by_one() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut areas, mut model) = (Areas::default(), BTreeMap::new());
        for _ in 0..4000 {
            let start = random.usize(0..64) * PAGE;
            let range = start..start + random.usize(1..12) * PAGE;
            let each = range.clone().step_by(PAGE);
            match random.u8(0..4) {
                0 => {
                    let file = Source::File { file: 1, offset: random.u64(0..9) * PAGE as u64 };
                    let protection = [PROT_READ, BOTH][random.usize(0..2)];
                    areas.insert(range.clone(), protection, file.clone());
                    for at in each {
                        let source = if protection == BOTH { Source::Memory } else { file.after(at - start) };
                        model.insert(at, (protection, source, areas.next_id));
                    }
                }
                1 => {
                    areas.remove(range.clone());
                    each.for_each(|at| {
                        model.remove(&at);
                    });
                }
                2 => {
                    let protection = [PROT_NONE, PROT_READ, BOTH][random.usize(0..3)];
                    let whole = areas.protect(range.clone(), protection);
                    assert_eq!(whole, each.clone().all(|at| model.contains_key(&at)));
                    for at in each {
                        if let Some(page) = model.get_mut(&at) {
                            page.0 = protection;
                            if protection == BOTH {
                                page.1 = Source::Memory;
                            }
                        }
                    }
                }
                _ => {
                    let at = areas.free(0..100 * PAGE, range.len());
                    let is_free =
                        |at: usize| (at..at + range.len() + PAGE).step_by(PAGE).all(|page| !model.contains_key(&page));
                    assert_eq!(at, (0..100 * PAGE - range.len()).step_by(PAGE).find(|at| is_free(*at)));
                }
            }
            assert_eq!(pages(&areas), model);
            assert_eq!(areas.covers(&range), range.clone().step_by(PAGE).all(|at| model.contains_key(&at)));
        }
    }

    #[test]
    fn areas_that_are_alike_again_are_one() {
        let mut areas = Areas::default();
        areas.insert(0..16 * PAGE, BOTH, Source::Memory);
        areas.protect(4 * PAGE..8 * PAGE, PROT_READ);
        assert_eq!(areas.iter().count(), 3);
        areas.protect(4 * PAGE..8 * PAGE, BOTH);
        assert_eq!(areas.iter().count(), 1);
        areas.renew(0..PAGE);
        assert_eq!(areas.iter().count(), 2);
    }
}
