//! Room for data that is saved before its revision has begun.
//!
//! Invariant: neither slot refers to it. Everything that fits without it also fits beside the rest, or it is given up.

use super::{
    Ledger, Need,
    allocation::{Referred, catalogue_blocks},
    protocol::check_unreferred,
};
use crate::{
    error::Result,
    space::{
        format::{BLOCK_BYTES, HASH_BYTES, blocks_for},
        free::{Blocks, FreeMap},
    },
};

/// Free blocks for data, in ascending stretches, and for their rows of hashes.
#[derive(Debug)]
pub(crate) struct SpeculativeRoom {
    pub(crate) data: Vec<Blocks>,
    pub(crate) rows: Blocks,
}

impl Ledger {
    /// Finds room for as many of a shard's blocks as possible, while no revision is in progress; `None` if there is
    /// none. `whole`: the most that the next shard takes. Valid until any thread writes the next root.
    pub(crate) fn speculative_room(&self, whole: Need) -> Result<Option<SpeculativeRoom>> {
        self.check()?;
        let (from, to) = self.portion.data_blocks();
        let slots = self.referred();
        let mut free = FreeMap::new(from, to, slots.iter().flat_map(Referred::blocks));
        // The roots that follow, and the metadata of the next shard, each need one stretch.
        let revisions = slots.iter().map(|slot| slot.kept.len()).max().unwrap_or(0) + 2;
        for blocks in
            [whole.meta, catalogue_blocks(revisions), catalogue_blocks(revisions), catalogue_blocks(revisions)]
        {
            if free.take_high(blocks).is_none() {
                return Ok(None);
            }
        }
        let rows_for = |blocks: u64| blocks_for(blocks * HASH_BYTES as u64);
        let mut count = whole.data.min(free.count());
        count = count.min(free.count().saturating_sub(rows_for(count)));
        let found = free.take_high(rows_for(count)).filter(|_| count > 0);
        let Some(rows) = found else { return Ok(None) };
        let data = free.take_low(count.min(rows.count * BLOCK_BYTES / HASH_BYTES as u64));
        let room = data.map(|data| SpeculativeRoom { data, rows });
        let is_free = |room: &SpeculativeRoom| {
            let blocks = room.data.iter().chain([&room.rows]).copied();
            check_unreferred((from, to), self.referred(), blocks).is_ok()
        };
        debug_assert!(room.as_ref().is_none_or(is_free), "a slot refers to blocks that would be saved early");
        Ok(room)
    }
}
