//! Scans this rank's portions of a level, without any agreement between ranks.

use super::{
    super::{domain::Domain, level::layouts_of},
    newest::Newest,
    wanted::Wanted,
};
use crate::{
    commit::{Ledger, OpenedLedger},
    device::Access,
    error::Result,
    group::{Group, gather_unequal},
    restore::{DamagedShard, ShardSet, Sight, one},
    space::{LayoutFile, Stray, Strays, clear_away, layouts_and_strays, short},
};

/// The findings in this rank's portions.
pub(super) struct Scan {
    pub(super) layouts: Vec<LayoutFile>,
    pub(super) opened: Vec<OpenedLedger>,
    /// The findings in each layout, the newest last.
    pub(super) newest: Vec<Newest>,
    pub(super) sight: Sight,
}

impl Scan {
    /// The shards with portions of `layout` that any rank sees. Collective.
    pub(super) fn seen_in(&self, group: &dyn Group, layout: &Newest) -> Result<ShardSet> {
        let own = self.newest.iter().find(|own| own.is_of(layout)).map(|own| own.seen.clone()).unwrap_or_default();
        Ok(gather_unequal(group, &own)?.iter().flat_map(ShardSet::stretches).collect())
    }
}

pub(super) fn scan(group: &dyn Group, wanted: &Wanted, domain: &Domain, locks_work: bool) -> Result<Scan> {
    let Wanted { device, writers, back, .. } = wanted;
    let device = &**device;
    let (rank, written) = (group.rank(), writers.shards_of(group.rank()));
    if rank == domain.leader() {
        clear_away(device)?;
    }
    let (layouts, Strays { foreign, damaged }) = layouts_and_strays(device, Access::Write, wanted.has_others)?;
    let (mut opened, mut newest, mut sight) = (Vec::new(), Vec::<Newest>::new(), Sight::default());
    if rank == domain.leader() {
        sight.damaged_slots.extend(foreign);
        for Stray { text, of } in damaged {
            sight.damage.push(text);
            sight.damaged_shards.push(of.map(|(layout, shard)| DamagedShard { layout, shard }));
        }
    }
    sight.layouts = layouts_of(&layouts);
    let mut writable = 0;
    for layout in &layouts {
        let header = &layout.header;
        // A layout can have several files. A rank's portion is in one of them.
        let mut own = newest.pop_if(|last| last.layout_id == header.layout_id).unwrap_or_else(|| {
            writable = 0;
            let (layout_number, layout_id) = (header.layout_number, header.layout_id);
            Newest { layout_number, layout_id, ..Newest::default() }
        });
        if rank == domain.leader() {
            own.seen.extend(header.portions.iter().map(|place| one(place.rank)));
        }
        for portion in layout.portions().filter(|p| domain.looks_after(rank, writers.of(p.rank() as usize))) {
            let is_written = written.contains(&(portion.rank() as usize));
            let found = Ledger::open(portion)?;
            // Without locks, a job that was not seen to end may still be writing here.
            let alone = locks_work || found.clean;
            if is_written && header.ranks as usize == group.size() && found.usable && alone {
                writable += 1;
                own.writable = writable == written.len();
            }
            own.is_used |= !found.damage.is_empty() || !found.ledger.is_unused();
            if !found.damage.is_empty() {
                let portion = found.ledger.portion();
                sight
                    .damaged_shards
                    .push(Some(DamagedShard { layout: short(portion.layout_id()), shard: portion.rank() }));
            }
            sight.damage.extend(found.damage.iter().cloned());
            sight.damaged_slots.extend(found.damaged_slots.iter().cloned());
            sight.lineages.extend(found.lineage);
            sight.add(&found.ledger);
            opened.push(found);
        }
        newest.push(own);
    }
    sight.leave_out(back);
    Ok(Scan { layouts, opened, newest, sight })
}
