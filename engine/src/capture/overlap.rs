//! Checks that regions do not overlap. A restore would fill overlapping bytes from both regions.
//!
//! Invariant: a region is refused only if it shares a byte with another. Regions that move or follow a pointer are
//! compared at the next restore, because programs that swap two regions move one after the other.

use super::region::Region;
use crate::error::{Error, Result};
use std::{collections::BTreeMap, ops::Range};

/// Regions with gaps are compared stretch by stretch, up to this many. Their gaps repeat, so an overlap shows early.
const STRETCHES_MAX: usize = 4096;

/// The places of regions. Finds, among many, the regions that a new one may overlap.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Regions without gaps: first byte, end, and number of regions with this span.
    rows: BTreeMap<(usize, usize), usize>,
    /// Regions with gaps, by first byte and name. Other regions may fill their gaps.
    spread: BTreeMap<(usize, String), Region>,
    /// Length of the longest region with gaps.
    longest: usize,
}

impl Places {
    pub(super) fn add(&mut self, region: &Region) {
        if !lies_apart(region) {
            return;
        }
        if region.row().is_some() {
            *self.rows.entry(span_of(region)).or_default() += 1;
            return;
        }
        self.longest = self.longest.max(region.reach());
        self.spread.insert((region.begins_at(), region.description.name.clone()), region.clone());
    }

    pub(super) fn remove(&mut self, region: &Region) {
        if !lies_apart(region) {
            return;
        }
        let span = span_of(region);
        if region.row().is_none() {
            self.spread.remove(&(span.0, region.description.name.clone()));
        } else if let Some(count) = self.rows.get_mut(&span) {
            *count -= 1;
            if *count == 0 {
                self.rows.remove(&span);
            }
        }
    }

    /// Whether `region` may overlap one of the others, judged by their last known places.
    pub(super) fn meet(&self, region: &Region) -> bool {
        lies_apart(region) && (self.meet_row(region) || self.meet_spread(region))
    }

    /// The number of regions that begin in this memory.
    pub(super) fn count_in(&self, memory: &Range<usize>) -> usize {
        let rows = self.rows.range((memory.start, 0)..(memory.end, 0)).map(|(_, count)| count).sum::<usize>();
        let [from, to] = [memory.start, memory.end].map(|address| (address, String::new()));
        rows + self.spread.range(from..to).count()
    }

    fn meet_row(&self, region: &Region) -> bool {
        let (begins, ends) = span_of(region);
        // The regions that begin inside, and the one before them, which may reach into it.
        for (begin, end) in self.rows.range(..(ends, 0)).rev().map(|(span, _)| *span) {
            if region.stretch_from(begin).is_some_and(|stretch| stretch.start < end) {
                return true;
            }
            if begin <= begins {
                break;
            }
        }
        false
    }

    fn meet_spread(&self, region: &Region) -> bool {
        let (begins, ends) = span_of(region);
        let [from, to] = [begins.saturating_sub(self.longest), ends].map(|address| (address, String::new()));
        self.spread.range(from..to).any(|(_, other)| common(region, other).is_some())
    }
}

/// The region's first byte, and the end of its last one.
fn span_of(region: &Region) -> (usize, usize) {
    (region.begins_at(), region.begins_at().saturating_add(region.reach()))
}

/// Whether no other region may share its bytes. False for a buffer that a checkpoint only reads, and for the program's
/// variables and heap: a part of those may be protected under its own name as well.
fn lies_apart(region: &Region) -> bool {
    region.description.bytes > 0 && !region.is_put() && !region.is_found_by_us()
}

/// The first bytes that both regions contain.
fn common(one: &Region, other: &Region) -> Option<Range<usize>> {
    let mut at = one.begins_at().max(other.begins_at());
    for _ in 0..STRETCHES_MAX {
        let (of_one, of_other) = (one.stretch_from(at)?, other.stretch_from(at)?);
        let (from, to) = (of_one.start.max(of_other.start), of_one.end.min(of_other.end));
        if from < to {
            return Some(from..to);
        }
        at = from;
    }
    None
}

/// An error if `region`, which is about to be protected, overlaps the protected region `other`.
pub(super) fn check_apart_from(region: &Region, other: &Region) -> Result<()> {
    let Some(common) = lies_apart(other).then(|| common(region, other)).flatten() else { return Ok(()) };
    debug_assert!(!common.is_empty(), "a region is refused that shares no byte");
    let name = &other.description.name;
    Err(region.refused(format!(
        "{} byte(s) of it, from {:#x} on, belong to {name:?} already: a restore would fill them twice; protect one region \
         for all of these bytes, or unprotect {name:?} first",
        common.len(),
        common.start
    )))
}

/// An error if two regions overlap after some have moved or point elsewhere (as `followed` regions may). Regions with
/// gaps are compared only if they begin at the same address, because they may fill each other's gaps.
pub(super) fn check_apart(regions: &[Region], followed: impl Fn(&Region) -> bool) -> Result<()> {
    let named = || regions.iter().filter(|region| lies_apart(region));
    for has_gaps in [false, true] {
        check_spans(named().filter(|region| region.row().is_none() == has_gaps))?;
    }
    let found = regions.iter().filter(|region| region.is_found_by_us());
    check_spans(found.chain(named().filter(|region| followed(region) && region.row().is_some())))
}

fn check_spans<'a>(regions: impl Iterator<Item = &'a Region>) -> Result<()> {
    let span = |region: &'a Region| (region.begins_at()..region.begins_at().saturating_add(region.row_bytes()), region);
    let mut spans: Vec<(Range<usize>, &Region)> = regions.map(span).collect();
    spans.sort_by_key(|(span, _)| span.start);
    // Of the regions that begin before this one, the one that reaches furthest.
    let mut furthest: Option<(usize, &Region)> = None;
    for (span, region) in spans {
        if let Some((_, other)) = furthest.filter(|(end, _)| span.start < *end) {
            return Err(same_memory(region, other));
        }
        if furthest.is_none_or(|(end, _)| end < span.end) {
            furthest = Some((span.end, region));
        }
    }
    Ok(())
}

fn same_memory(region: &Region, other: &Region) -> Error {
    region.refused(format!(
        "it overlaps {:?}, and a restore would fill that memory from both; let each point to memory of its own",
        other.description.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::format::ElementType;
    use std::{collections::BTreeSet, ptr};

    /// Cells of 4 bytes, never read, in rows of `shape` with these strides, from `address` on.
    fn region(address: usize, shape: &[u64], strides: &[u64]) -> Region {
        // SAFETY: nothing is read or written.
        #[allow(unsafe_code)]
        unsafe {
            let region = Region::array("r", ptr::without_provenance_mut(address), ElementType::U32, shape).unwrap();
            region.spread(strides).unwrap()
        }
    }

    /// The addresses of all bytes of a region.
    fn bytes(address: usize, shape: &[u64], strides: &[u64]) -> BTreeSet<usize> {
        let mut starts = vec![address];
        for (cells, stride) in shape.iter().zip(strides) {
            let of = |start: &usize| (0..*cells).map(|cell| *start + (cell * stride) as usize).collect::<Vec<_>>();
            starts = starts.iter().flat_map(of).collect();
        }
        starts.iter().flat_map(|start| *start..start + 4).collect()
    }

    /// With any gaps, exactly the overlapping regions are found, and the first byte that they share.
    #[test]
    fn just_those_meet_that_have_a_byte_in_common() {
        let mut random = fastrand::Rng::with_seed(18);
        let (mut met, mut apart) = (0, 0);
        for _ in 0..3000 {
            let mut draw = || {
                let address = 0x10000 + random.usize(0..300);
                let shape: Vec<u64> = (0..random.usize(1..4)).map(|_| random.u64(1..5)).collect();
                let (mut strides, mut span) = (vec![0; shape.len()], 4);
                for side in (0..shape.len()).rev() {
                    strides[side] = span + [0, 0, 4, 12][random.usize(0..4)];
                    span = strides[side] * shape[side];
                }
                (address, shape, strides)
            };
            let [one, other] = [draw(), draw()];
            let [of_one, of_other] = [&one, &other].map(|(at, shape, strides)| bytes(*at, shape, strides));
            let [one, other] = [&one, &other].map(|(at, shape, strides)| region(*at, shape, strides));
            let first = of_one.intersection(&of_other).next().copied();
            assert_eq!(common(&one, &other).map(|common| common.start), first, "{one:?}, {other:?}");
            let mut places = Places::default();
            places.add(&other);
            assert_eq!(places.meet(&one), first.is_some(), "{one:?}, {other:?}");
            assert_eq!(check_apart_from(&one, &other).is_err(), first.is_some());
            places.remove(&other);
            assert!(!places.meet(&one));
            if first.is_some() { met += 1 } else { apart += 1 }
        }
        assert!(met > 300 && apart > 300, "{met} met, {apart} did not");
    }

    /// Regions stand one behind the other.
    #[test]
    fn one_that_reaches_into_another_is_found_among_many() {
        let mut places = Places::default();
        (0..1000).for_each(|at| places.add(&region(0x10000 + 100 * at, &[10], &[4])));
        assert_eq!([0x10000..0x10000 + 1000, 0x10001..0x10000 + 100].map(|memory| places.count_in(&memory)), [10, 0]);
        for (address, cells, meets) in [
            (0x10000 + 40, 15, false),
            (0x10000 + 39, 1, true),
            (0x10000 + 140, 16, true),
            (0x10000 + 500, 1, true),
            (0x10000 - 4, 1, false),
            (0x10000 - 4, 2, true),
            (0x10000 + 99_940, 100, false),
        ] {
            assert_eq!(places.meet(&region(address, &[cells], &[4])), meets, "{address:#x}, {cells} cells");
        }
        // Single cells in all of the gaps.
        assert!(!places.meet(&region(0x10000 + 40, &[1000], &[100])));
        assert!(places.meet(&region(0x10000 + 38, &[1000], &[100])));
    }
}
