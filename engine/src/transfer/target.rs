//! The space that receives the copies: its locks, and the portions for shards.

use super::{
    portion_room::Rooms,
    transfer_plan::{Planned, TransferPlan},
};
use crate::{
    capture::Size,
    commit::{Allocation, Ledger, Need, RUNS, RevisionKey},
    device::{Access, Allocate, Device, Stripes},
    error::{Error, Result},
    ground::lock,
    place::Site,
    space::{LayoutFile, Locks, Per, format::Lineage, layouts},
    survey::SpaceSurvey,
    tend::{self, GoneOver, Reservation, Unseen, begin_all, lineage_after, make_room, open_all},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex},
};

pub(super) struct Destination<'a> {
    pub(super) device: &'a dyn Device,
    _locks: Locks,
    /// The lineage of all its new roots: newer than all lineages of both spaces.
    lineage: Lineage,
    complete: BTreeSet<RevisionKey>,
    layouts: Vec<Layout>,
}

/// A layout with only writable portions.
pub(super) struct Layout {
    id: [u8; 16],
    files: Vec<String>,
    /// By rank.
    ledgers: Vec<Arc<Mutex<Ledger>>>,
    /// For each rank, the shard that was last read from the medium whole.
    read: Mutex<BTreeMap<u32, RevisionKey>>,
}

impl<'a> Destination<'a> {
    /// Locks the space on `device`, as a job does. Errors: `InUse`; those of `Plan::check`, because the space may have
    /// changed meanwhile.
    pub(super) fn open(device: &'a dyn Device, plan: &TransferPlan) -> Result<Destination<'a>> {
        let locks = tend::lock(device)?;
        let survey = SpaceSurvey::open_on(device)?;
        plan.check(&survey)?;
        Unseen::Waits(&GoneOver::default()).check(&survey)?;
        let files = layouts(device, Access::Write)?;
        let opened = open_all(&files)?;
        let found = lineage_after(&opened)?;
        let lineage = Lineage { number: found.number.max(plan.lineage_max() + 1), ..found };
        let complete: BTreeSet<RevisionKey> =
            survey.revisions.iter().filter(|revision| revision.complete).map(|revision| revision.key).collect();
        let mut ledgers: Vec<Ledger> = opened.into_iter().filter(|one| one.usable).map(|one| one.ledger).collect();
        ledgers.iter_mut().for_each(|ledger| ledger.set_held(complete.iter().copied().collect()));
        begin_all(&mut ledgers, lineage)?;
        let layouts = whole(&files, ledgers);
        Ok(Destination { device, _locks: locks, lineage, complete, layouts })
    }

    pub(super) fn has(&self, revision: &Planned) -> bool {
        self.complete.contains(&revision.key)
    }

    /// The layout for the shards of `key`, which have these sizes: one that has some of them already, or the newest
    /// with enough room; `None` if there is none.
    pub(super) fn layout_for(&self, key: RevisionKey, sizes: &[Size]) -> Option<[u8; 16]> {
        let usable: Vec<&Layout> = self.layouts.iter().filter(|layout| layout.has_room(key, sizes)).collect();
        let begun = |layout: &&&Layout| (0..sizes.len()).any(|shard| layout.has(key, shard as u32));
        usable.iter().find(begun).or(usable.last()).map(|layout| layout.id)
    }

    pub(super) fn layout(&self, id: [u8; 16]) -> Result<&Layout> {
        let gone = || Error::Internal { what: "a layout that was made is missing".to_owned() };
        self.layouts.iter().find(|layout| layout.id == id).ok_or_else(gone)
    }

    /// A new layout with this much room.
    pub(super) fn make_layout(&mut self, rooms: &Rooms) -> Result<[u8; 16]> {
        // The layout promises no room: a copy takes less than a job that goes on from it.
        self.check_free(rooms.bytes)?;
        let wanted = Reservation {
            blocks: rooms.portions.clone(),
            per: Per::default(),
            ranks_per_node: None,
            allocate: Allocate::Sparse,
            stripes: Stripes::default(),
        };
        let removed = make_room(self.device, &wanted)?.removed;
        let files = layouts(self.device, Access::Write)?;
        let is_known = |file: &LayoutFile| self.layouts.iter().any(|layout| layout.id == file.header.layout_id);
        let new: Vec<LayoutFile> = files.into_iter().filter(|file| !is_known(file)).collect();
        // Empty layouts that were too small have been removed.
        self.layouts.retain(|layout| !layout.files.iter().any(|file| removed.contains(file)));
        let newest = new.last().map(|file| file.header.layout_id).unwrap_or_default();
        let new: Vec<LayoutFile> = new.into_iter().filter(|file| file.header.layout_id == newest).collect();
        let opened = open_all(&new)?;
        if opened.iter().any(|opened| !opened.usable) {
            // The layout just made differs from the one that was read.
            return Err(Error::Unreadable { what: opened.into_iter().flat_map(|opened| opened.damage).collect() });
        }
        let mut ledgers: Vec<Ledger> = opened.into_iter().map(|opened| opened.ledger).collect();
        begin_all(&mut ledgers, self.lineage)?;
        self.layouts.extend(whole(&new, ledgers));
        Ok(newest)
    }

    fn check_free(&self, bytes: u64) -> Result<()> {
        let free = self.device.directory().available_bytes();
        if free.is_none_or(|free| free >= bytes) {
            return Ok(());
        }
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        Err(Error::io("copying to", self.device.path(), full).for_want_of(bytes, || free))
    }
}

impl Layout {
    fn has_room(&self, key: RevisionKey, sizes: &[Size]) -> bool {
        self.ledgers.len() == sizes.len()
            && self.ledgers.iter().zip(sizes).all(|(ledger, size)| {
                let ledger = lock(ledger);
                leads_to(&ledger, key) || room_in(&ledger, size).is_ok()
            })
    }

    /// Whether the shard `shard` of `key` is there.
    pub(super) fn has(&self, key: RevisionKey, shard: u32) -> bool {
        self.ledgers.get(shard as usize).is_some_and(|ledger| leads_to(&lock(ledger), key))
    }

    /// The place for a shard of this size, beside all existing ones. If `shares`, it may share blocks with the newest
    /// one.
    pub(super) fn site(&self, device: &dyn Device, shard: u32, size: &Size, shares: bool) -> Result<Site> {
        let ledger = &self.ledgers[shard as usize];
        let (allocation, stays) = {
            let ledger = lock(ledger);
            (room_in(&ledger, size)?, kept(&ledger))
        };
        let keep = stays.len().max(1);
        let site = Site::new(device, ledger.clone(), allocation, stays);
        Ok(if shares { site.sharing(keep) } else { site })
    }

    /// Whether the newest shard of a rank is known to be whole on the medium.
    pub(super) fn is_sure(&self, shard: u32) -> bool {
        let newest = kept(&lock(&self.ledgers[shard as usize])).into_iter().max();
        newest.is_none() || newest.as_ref() == lock(&self.read).get(&shard)
    }

    /// Records that the shard `shard` of `key` was read from the medium, whole.
    pub(super) fn note_read(&self, shard: u32, key: RevisionKey) {
        lock(&self.read).insert(shard, key);
    }
}

fn kept(ledger: &Ledger) -> Vec<RevisionKey> {
    ledger.kept().iter().map(|kept| kept.key()).collect()
}

fn leads_to(ledger: &Ledger, key: RevisionKey) -> bool {
    ledger.kept().iter().any(|kept| kept.key() == key)
}

fn room_in(ledger: &Ledger, size: &Size) -> Result<Allocation> {
    let (stays, mut runs) = (kept(ledger), RUNS);
    loop {
        let allocation = ledger.allocate(Need::of(size, runs), &stays)?;
        if allocation.data.len() <= runs {
            return Ok(allocation);
        }
        runs = 2 * allocation.data.len();
    }
}

/// The layouts of `files`, the oldest first, if every portion has its ledger.
fn whole(files: &[LayoutFile], ledgers: Vec<Ledger>) -> Vec<Layout> {
    let mut of_layouts: BTreeMap<[u8; 16], BTreeMap<u32, Ledger>> = BTreeMap::new();
    for ledger in ledgers {
        let (id, rank) = (ledger.portion().layout_id(), ledger.portion().rank());
        of_layouts.entry(id).or_default().insert(rank, ledger);
    }
    let mut ids: Vec<([u8; 16], u32)> = files.iter().map(|file| (file.header.layout_id, file.header.ranks)).collect();
    ids.dedup();
    let layout = |(id, ranks): ([u8; 16], u32)| {
        let ledgers = of_layouts.remove(&id).filter(|ledgers| ledgers.len() == ranks as usize)?;
        let of_layout = files.iter().filter(|file| file.header.layout_id == id);
        Some(Layout {
            id,
            files: of_layout.map(|file| file.name.clone()).collect(),
            ledgers: ledgers.into_values().map(|ledger| Arc::new(Mutex::new(ledger))).collect(),
            read: Mutex::default(),
        })
    };
    ids.into_iter().filter_map(layout).collect()
}
