//! The memory of ranks as regions of the session.
//!
//! Invariant: a region never outlives the pages that it began with. Fresh pages at the same addresses are a new region,
//! so an incremental checkpoint shares nothing with the old ones.
#![allow(unsafe_code)]

use crate::{
    Result,
    host::{Rank, State},
    slot::{Area, PAGE, Source, page_down},
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

/// The part of an area that is saved. Of the stack, it is the part in use. `None`: none is.
pub(super) fn saved_part(rank_stack: u64, is_stack: bool, start: usize, area: &Area) -> Option<Range<usize>> {
    let is_saved = area.source == Source::Memory && area.protection & libc::PROT_READ != 0;
    let used = if is_stack { page_down(rank_stack as usize - RED_ZONE).max(start) } else { start };
    is_saved.then_some(used..start + area.bytes)
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
            for (start, area) in rank.system.areas.iter() {
                let is_stack = slot.stack().contains(&start);
                if let Some(range) = saved_part(rank.registers.stack, is_stack, start, area) {
                    debug_assert!(range.start.is_multiple_of(PAGE));
                    wanted.insert(name(rank.number, slot.base, start), Pages { range, id: area.id });
                }
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

    pub fn clear(&mut self, session: &mut Session) -> Result<()> {
        for name in std::mem::take(&mut self.0).keys() {
            session.unprotect(name)?;
        }
        Ok(())
    }
}
