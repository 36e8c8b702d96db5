//! Making the layout of a space, and letting old ones go.

use super::inner::{Current, Inner};
use crate::{
    capture::Size,
    clock::unix_ns,
    commit::{Allocation, Complete, Ledger, RevisionKey},
    device::Access,
    error::{Error, Result},
    group::{agree, gather},
    place::{Plan, lock},
    space::{
        HOLDS_BYTES, LayoutFile, SLOT_STRIDE, create_layout, data_from, draw_id,
        format::{BLOCK_BYTES, Catalogue, Header, PortionPlace, blocks_for},
        layouts, remove_layout,
    },
};
use std::{
    io::ErrorKind,
    sync::{Arc, Mutex},
};

/// Portions begin and end on this.
const PORTION_ALIGNMENT: u64 = 64 << 10;
/// Stretches that a shard's data may fall into before its manifest needs more room.
pub(super) const RUNS: usize = 64;
/// Room in each manifest for notes and output files that come after the first checkpoint.
const ANNEX_BLOCKS: u64 = 1;

impl Inner {
    /// Makes a layout for shards of `size`, one file for the ranks that see each other's files.
    /// Collective.
    pub(super) fn make_layout(&mut self, size: &Size) -> Result<()> {
        let group = &*self.group;
        let bytes = match self.config.portion_bytes {
            0 => portion_bytes(&size.at_least(self.config.shard_bytes), self.config.keep),
            configured => configured.next_multiple_of(PORTION_ALIGNMENT),
        };
        let sizes: Vec<u64> = gather(group, &bytes)?;
        let mut id = agree(group, draw_id())?.to_vec();
        group.broadcast(0, &mut id)?;
        let mut number = [self.layouts.iter().map(|layout| layout.header.layout_number).max().unwrap_or(0) + 1];
        group.all_max(&mut number)?;

        let layout_id = id.try_into().map_err(|_| Error::GroupFailed { what: "an id of another length".to_owned() })?;
        let header = self.header(layout_id, number[0], &sizes);
        let first = |rank| Ledger::first_slot(layout_id, rank, self.lineage);
        let leader = self.domain.leader;
        let made = if group.rank() == leader {
            create_layout(&*self.device, header, leader, first).map(Some)
        } else {
            Ok(None)
        };
        let made = match agree(group, made) {
            Ok(Some(layout)) => Ok(layout),
            Ok(None) => self.find_layout(layout_id),
            Err(error) => {
                self.remove_made(layout_id);
                return Err(error);
            }
        };
        let layout = agree(group, made)?;
        let portion = layout.portions().find(|portion| portion.rank() as usize == group.rank());
        let portion =
            agree(group, portion.ok_or_else(|| Error::Internal { what: "a layout without this rank".into() }))?;

        let mut ledger = Ledger::fresh(portion, first(group.rank() as u32));
        ledger.set_held(self.holds.keys());
        debug_assert!(self.current.is_none(), "a layout is made only where there is none to go on with");
        self.current = Some(Current { layout_id, ledger: Arc::new(Mutex::new(ledger)) });
        self.layouts.push(layout);
        Ok(())
    }

    fn header(&self, layout_id: [u8; 16], layout_number: u64, sizes: &[u64]) -> Header {
        let holds_at = Header::bytes_for(self.domain.ranks.len());
        let mut at = (holds_at + HOLDS_BYTES).next_multiple_of(PORTION_ALIGNMENT);
        let portions = self.domain.ranks.iter().map(|rank| {
            let place = PortionPlace { rank: *rank as u32, at, bytes: sizes[*rank] };
            // Larger than any file: refused when it is made.
            at = at.saturating_add(place.bytes);
            place
        });
        let portions = portions.collect();
        Header {
            layout_id,
            layout_number,
            ranks: self.group.size() as u32,
            slot_stride: SLOT_STRIDE,
            holds_at,
            holds_bytes: HOLDS_BYTES,
            file_bytes: at,
            created_unix_ns: unix_ns(),
            portions,
        }
    }

    fn find_layout(&self, layout_id: [u8; 16]) -> Result<LayoutFile> {
        let found = layouts(&*self.device, Access::Write)?;
        let ours = found.into_iter().find(|layout| layout.header.layout_id == layout_id);
        // Without locks a newer job may have removed it: this one was thought dead.
        let gone = || {
            Error::io("opening", format!("the layout just made in {}", self.device.path()), ErrorKind::NotFound.into())
        };
        ours.ok_or_else(gone)
    }

    /// Another node could not make its file of the layout: ours goes too.
    fn remove_made(&self, layout_id: [u8; 16]) {
        if self.group.rank() == self.domain.leader
            && let Ok(layout) = self.find_layout(layout_id)
        {
            let _ = remove_layout(&*self.device, &layout);
        }
    }

    /// Removes older layouts once they hold nothing that is kept. Decided alike on all ranks.
    pub(super) fn drop_old_layouts(&mut self) {
        let Some(current) = self.current.as_ref().map(|current| current.layout_id) else { return };
        if self.complete.iter().all(|complete| complete.layout != current) {
            return;
        }
        let kept = self.complete.iter().chain(self.holds.held()).map(|complete| complete.layout);
        let kept: Vec<[u8; 16]> = kept.chain([current]).collect();
        let is_old = |id: &[u8; 16]| !kept.contains(id);
        self.others.retain(|ledger| !is_old(&ledger.portion().layout_id()));
        let (old, rest) = self.layouts.drain(..).partition(|layout| is_old(&layout.header.layout_id));
        self.layouts = rest;
        let old: Vec<LayoutFile> = old;
        if self.group.rank() == self.domain.leader {
            // One that stays is found at the next opening, and tried again then.
            old.iter().for_each(|layout| drop(remove_layout(&*self.device, layout)));
        }
    }

    /// Finds room for a shard of `size` beside the revisions that are `complete` and those that are held; `None`
    /// without a layout.
    pub(super) fn allocate(&self, size: &Size, complete: &[Complete]) -> Result<Option<Allocation>> {
        let Some(current) = &self.current else { return Ok(None) };
        let ledger = lock(&current.ledger);
        ledger.check()?;
        let retained: Vec<RevisionKey> = complete.iter().map(|complete| complete.key).collect();
        let mut runs = RUNS;
        loop {
            let allocation = ledger.allocate(Plan::need(size, runs), &retained)?;
            if allocation.data.len() <= runs {
                return Ok(Some(allocation));
            }
            runs = 2 * allocation.data.len();
        }
    }
}

/// Bytes of a portion with room for keep+2 shards of `size`.
fn portion_bytes(size: &Size, keep: u32) -> u64 {
    let (need, revisions) = (Plan::need(size, RUNS), u64::from(keep) + 2);
    // Each root has a catalogue of its own: two in the slots, two on the way.
    let catalogues = 4 * blocks_for(Catalogue::bytes_for(keep as usize + 2));
    let blocks = revisions * (need.data + need.meta + ANNEX_BLOCKS) + catalogues;
    (data_from(SLOT_STRIDE) + blocks * BLOCK_BYTES).next_multiple_of(PORTION_ALIGNMENT)
}
