//! The memory of ranks as regions of the session.
//!
//! Invariant: a region never outlives the pages that it began with. Fresh pages at the same addresses are a new region,
//! so an incremental checkpoint shares nothing with the old ones.
#![allow(unsafe_code)]

use crate::{
    Result,
    address::{PAGE, Slot, page_down},
    rank::{Rank, SavedRank, State},
    slot::{Area, Areas, Source},
};
use mainstay_engine::{Region, Session};
use std::{collections::BTreeMap, ops::Range};

/// Below the stack pointer lie bytes that a function without calls may use.
const RED_ZONE: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Regions(BTreeMap<String, Pages>);

/// The pages that a region has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pages {
    range: Range<usize>,
    id: u64,
}

/// The region of the area at `start` in the slot of `rank`.
pub(super) fn name(rank: u32, base: usize, start: usize) -> String {
    format!("v{rank}/{:x}", start - base)
}

/// The parts of a rank's memory that are saved, with the places where their areas begin. Of the stack, it is the part in
/// use.
fn saved<'a>(slot: Slot, stack: u64, areas: &'a Areas) -> impl Iterator<Item = (usize, u64, Range<usize>)> + 'a {
    let used = page_down((stack as usize).saturating_sub(RED_ZONE));
    let is_saved = |area: &Area| area.source == Source::Memory && area.protection & libc::PROT_READ != 0;
    areas.iter().filter(move |(_, area)| is_saved(area)).map(move |(start, area)| {
        let end = start + area.bytes;
        let begin = if slot.stack().contains(&start) { used.clamp(start, end) } else { start };
        (start, area.id, begin..end)
    })
}

pub(super) fn saved_places(slot: Slot, rank: &SavedRank) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
    saved(slot, rank.registers.stack, &rank.system.areas).map(|(start, _, range)| (start, range))
}

/// The parts of a rank's memory that are saved.
pub(crate) fn saved_parts(slot: Slot, rank: &SavedRank) -> impl Iterator<Item = Range<usize>> + '_ {
    saved_places(slot, rank).map(|(_, range)| range)
}

/// The pages of a rank as a region.
pub(super) fn region(name: &str, range: &Range<usize>) -> Result<Region> {
    // SAFETY: the memory belongs to a rank, which does not run while it is saved or filled. `follow` gives the region up
    // before a checkpoint reads it, if the rank has unmapped a part of it since.
    Ok(unsafe { Region::new(name, range.start as *mut u8, range.len() as u64)? }.self_contained())
}

impl Regions {
    /// Makes the regions of the session those of the ranks as they are now.
    pub fn follow(&mut self, session: &mut Session, ranks: &[Rank]) -> Result<()> {
        let mut wanted = BTreeMap::new();
        for rank in ranks.iter().filter(|rank| !matches!(rank.state, State::Ended(_))) {
            let slot = rank.system.slot;
            for (start, id, range) in saved(slot, rank.registers.stack, &rank.system.areas) {
                debug_assert!(range.start.is_multiple_of(PAGE), "a region begins at a page");
                wanted.insert(name(rank.number, slot.base, start), Pages { range, id });
            }
        }
        for name in self.0.keys().filter(|name| wanted.get(*name) != self.0.get(*name)) {
            session.unprotect(name)?;
        }
        for (name, pages) in wanted.iter().filter(|(name, pages)| self.0.get(*name) != Some(*pages)) {
            session.protect(region(name, &pages.range)?)?;
        }
        self.0 = wanted;
        Ok(())
    }

    /// A rank leaves this process.
    pub fn give_up(&mut self, session: &mut Session, rank: u32) -> Result<()> {
        let of_rank = format!("v{rank}/");
        let names: Vec<String> = self.0.keys().filter(|name| name.starts_with(&of_rank)).cloned().collect();
        for name in names {
            session.unprotect(&name)?;
            self.0.remove(&name);
        }
        Ok(())
    }

    pub fn clear(&mut self, session: &mut Session) -> Result<()> {
        for name in std::mem::take(&mut self.0).keys() {
            session.unprotect(name)?;
        }
        Ok(())
    }
}
