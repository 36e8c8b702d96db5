//! Makes the layout of a space, and removes old ones.

use super::{
    changed::{PlannedShard, RoomBeside},
    epoch::{Epoch, same_id},
    layout_files::{FilesOfShards, lowest_alike, with_first_slots},
    level::{CurrentLayout, LayoutRepair, Level, LevelKind, Writers},
    need::with_total_need,
    places,
    ranks::Entered,
    shard_room::ShardSizes,
};
use crate::{
    capture::{OWN_RUNS_MAX, Size},
    commit::{Allocation, Complete, Ledger, Need, RUNS, RevisionKey},
    config::{Compress, Predictor},
    device::{Access, FileSystem, Stripes, stripe_bytes},
    error::{Error, Result},
    ground::lock,
    group::{Group, agree, gather_unequal},
    mutant::{self, Mutant},
    space::{
        Arrangement, LayoutFile, Making, Per, Portion, format::Codec, layout_name, make_unnamed, open_layout,
        probe_name, remove_layout, remove_layouts_of,
    },
};
use std::sync::{Arc, Mutex};

impl Level {
    /// Makes a layout for shards like this rank's `own`. Shards share a file if their writers should share one and see
    /// each other's files. If a layout is to be mended, makes only the portions that ranks lack. Collective.
    fn make_layout(&mut self, epoch: &Epoch, entry: &Entered, own: &Size) -> Result<()> {
        let (group, device) = (epoch.group.with(entry), &*self.location.device);
        let files = self.files(group, epoch.node)?;
        let written = self.location.writers.shards_of(group.rank());
        let lowest = written.first().map(|shard| files.lowest(*shard)).filter(|_| self.files.current.is_none());
        let mut arrangement = self.arrange(group, own)?;
        if self.files.mends.is_none() {
            self.check_memory(group, &arrangement.blocks)?;
        }
        if let Some(LayoutRepair { layout_number, layout_id }) = self.files.mends {
            (arrangement.layout_number, arrangement.layout_id) = (layout_number, layout_id);
        }
        let Arrangement { layout_id, layout_number, .. } = arrangement;
        let takes_holds = group.rank() == self.location.domain.leader()
            && !self
                .files
                .layouts
                .iter()
                .any(|layout| layout.header.layout_id == layout_id && layout.header.holds_bytes > 0);
        let first = |rank| Ledger::first_slot(layout_id, rank, epoch.lineage);
        let made = match lowest {
            Some(lowest) if self.location.writers.of(lowest) == group.rank() => {
                let sharers: Vec<usize> = (0..group.size()).filter(|shard| files.lowest(*shard) == lowest).collect();
                let header = arrangement.header(&sharers, takes_holds);
                let (allocate, stripes) = (self.location.config.allocate, self.stripes());
                let making = Making { allocate, stripes, when_mapped: self.files.makes_later, progress: &|_| () };
                make_unnamed(device, header, &making).map(Some)
            }
            _ => Ok(None),
        };
        let name = lowest.map(|lowest| layout_name(layout_number, lowest, layout_id));
        let first_of_own = |rank| (self.location.writers.of(rank as usize) == group.rank()).then(|| first(rank));
        let made = with_first_slots(group, device, made, (name.as_deref(), files.are_shared()), first_of_own);
        let own_file = made.as_ref().ok().and_then(Option::as_ref).cloned();
        let layout = match (agree(group, made), name) {
            (Ok(Some(layout)), _) => Ok(Some(layout)),
            // Without file locks, a newer job that took this one for dead may have removed the file.
            (Ok(None), Some(name)) => open_layout(device, name, Access::Write).map(Some),
            (Ok(None), None) => Ok(None),
            (Err(error), _) if self.files.mends.is_some() => {
                own_file.iter().for_each(|own| drop(remove_layout(device, own)));
                return Err(error);
            }
            (Err(error), _) => {
                // Another node could not make its file of the layout, so the files of this node go too.
                if group.rank() == self.location.domain.leader() {
                    let _ = remove_layouts_of(device, layout_number, layout_id);
                }
                return Err(with_total_need(group, &[self], own, error));
            }
        };
        let layout = agree(group, layout)?;
        let fresh = |shard: &usize| -> Result<Arc<Mutex<Ledger>>> {
            let portion =
                layout.iter().flat_map(LayoutFile::portions).find(|portion| portion.rank() as usize == *shard);
            let portion = portion.ok_or_else(|| Error::Internal { what: format!("a layout without shard {shard}") })?;
            portion.stay_open()?;
            let mut ledger = Ledger::fresh(portion, first(*shard as u32));
            self.keep_in(&mut ledger);
            Ok(Arc::new(Mutex::new(ledger)))
        };
        let lacking = if self.files.current.is_none() { written } else { Vec::new() };
        let ledgers = agree(group, lacking.iter().map(fresh).collect())?;
        if self.files.mends.take().is_none() {
            self.files.made = Some(layout_id);
        }
        // If the layout was mended, this rank's existing portions stay as they are.
        self.files.current.get_or_insert(CurrentLayout { layout_id, ledgers });
        self.files.layouts.extend(layout);
        self.files.outgrown.clear();
        Ok(())
    }

    /// The same; if a layout cannot be mended, makes a new one. Collective.
    pub(super) fn mend_or_make_layout(&mut self, epoch: &Epoch, entry: &Entered, own: &Size) -> Result<()> {
        match self.make_layout(epoch, entry, own) {
            Err(error) if self.files.mends.is_some() && !matches!(error, Error::GroupFailed { .. }) => {
                self.leave_layout(epoch, entry, Ok(None))?;
                self.make_layout(epoch, entry, own)
            }
            made => made,
        }
    }

    /// The shards that share a file. `node`: the lowest rank of this rank's node. Collective.
    fn files(&self, group: &dyn Group, node: u32) -> Result<FilesOfShards> {
        if let Writers::Holders(holders) = &self.location.writers {
            return Ok(FilesOfShards::OfHolders(lowest_alike(holders)));
        }
        if self.location.config.per == Per::Rank {
            return Ok(FilesOfShards::Apart);
        }
        let file_system = if self.location.config.per == Per::Auto {
            self.location.device.directory().file_system()
        } else {
            FileSystem::Other
        };
        let of_file = match self.location.config.per {
            Per::Auto if !file_system.shares_badly() => self.location.domain.leader(),
            Per::Auto | Per::Node => node as usize,
            Per::App | Per::Rank => self.location.domain.leader(),
        };
        let all = gather_unequal(group, &(self.location.domain.leader(), of_file))?;
        Ok(if all.len() == 1 { FilesOfShards::One } else { FilesOfShards::Listed(lowest_alike(&all)) })
    }

    /// Chooses the places of the portions in a new layout. Collective.
    fn arrange(&self, group: &dyn Group, size: &Size) -> Result<Arrangement> {
        let device = &*self.location.device;
        let stripe = if group.rank() == self.location.domain.leader() {
            probe_name().and_then(|probe| {
                let stripe = stripe_bytes(device, self.stripes(), &probe);
                stripe.map_err(|e| Error::io("asking for the stripes of files in", device.path(), e))
            })
        } else {
            Ok(0)
        };
        let number = self.files.layouts.iter().map(|layout| layout.header.layout_number).max().unwrap_or(0) + 1;
        let mut numbers = [number, agree(group, stripe)?, u64::from(self.location.config.portion_bytes != 0)];
        group.all_max(&mut numbers)?;
        let layout_id = same_id(group)?;
        let [layout_number, stripe_bytes, sized] = numbers;
        let blocks = self.blocks_of_portions(group, size)?;
        Ok(Arrangement { layout_id, layout_number, stripe_bytes, is_sized: sized != 0, blocks })
    }

    fn stripes(&self) -> Stripes {
        Stripes { count: self.location.config.stripe_count, bytes: self.location.config.stripe_bytes }
    }

    /// Removes older layouts without a kept revision. All ranks decide the same.
    pub(super) fn drop_old_layouts(&mut self, rank: usize) {
        let Some(current) = self.files.current.as_ref().map(|current| current.layout_id) else { return };
        if self.files.layouts.iter().all(|layout| layout.header.layout_id == current) {
            return;
        }
        if self.complete.iter().all(|complete| complete.layout != current) && !mutant::is(Mutant::LayoutDroppedEarly) {
            return;
        }
        // If copies of a revision were made again, its parts may be in any layout.
        if self.complete.iter().any(|complete| complete.layout == [0; 16]) {
            return;
        }
        let is_here = |key| self.complete.iter().any(|complete| complete.key == key && complete.layout == current);
        if !self.joint.iter().copied().all(is_here) {
            return;
        }
        let kept = self.complete.iter().chain(self.holds.held()).map(|complete| complete.layout);
        let fed = self.feeding.fed.iter().map(|(_, layout)| *layout);
        let mut kept: Vec<[u8; 16]> = kept.chain(fed).chain([current]).collect();
        if mutant::is(Mutant::LayoutDroppedEarly) {
            kept = vec![current];
        }
        self.remove_layouts(rank, |id| !kept.contains(id));
    }

    /// Removes the layouts of these ids.
    fn remove_layouts(&mut self, rank: usize, is_old: impl Fn(&[u8; 16]) -> bool) {
        self.files.others.retain(|ledger| !is_old(&ledger.portion().layout_id()));
        let (old, rest): (Vec<LayoutFile>, _) =
            self.files.layouts.drain(..).partition(|layout| is_old(&layout.header.layout_id));
        self.files.layouts = rest;
        // The leader knows all files from the opening; a newer file is known only to its maker.
        let made = |layout: &&LayoutFile| {
            let lowest = layout.header.portions.first().map(|place| self.location.writers.of(place.rank as usize));
            rank == self.location.domain.leader() || lowest == Some(rank)
        };
        // If a removal fails, the next opening finds the layout and tries again.
        old.iter().filter(made).for_each(|layout| drop(remove_layout(&*self.location.device, layout)));
    }

    /// Removes everything here, because there is a newer revision elsewhere. Does nothing if a revision is held.
    pub(super) fn drop_all(&mut self, rank: usize) {
        if !self.holds.held().is_empty() {
            return;
        }
        self.received = None;
        (self.files.others, self.files.layouts, self.complete) = (Vec::new(), Vec::new(), Vec::new());
        if rank == self.location.domain.leader() {
            places::remove(&*self.location.device);
        }
    }

    /// Finds room for shards of these `sizes` beside the `complete` and the held revisions; `None` without a layout.
    /// `grows`: fail if later shards of the same sizes would find no room; the shards then go to a larger layout.
    pub(super) fn allocate(
        &self,
        sizes: ShardSizes<'_>,
        complete: &[Complete],
        grows: bool,
    ) -> Result<Option<Vec<Allocation>>> {
        let Some(current) = &self.files.current else { return Ok(None) };
        let retained: Vec<RevisionKey> = complete.iter().map(|complete| complete.key).collect();
        let planned = sizes.planned.and_then(|planned| self.allocate_planned(planned, sizes.own, complete));
        if let Some(allocation) = planned {
            return Ok(Some(vec![allocation]));
        }
        if let (Some(size), [ledger]) = (sizes.to_lead, &current.ledgers[..])
            && let Ok(allocation) = self.allocate_in(&lock(ledger), size, &retained, grows)
        {
            return Ok(Some(vec![allocation]));
        }
        let each = current.ledgers.iter().zip(sizes.written);
        each.map(|(ledger, size)| self.allocate_in(&lock(ledger), size, &retained, grows))
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Finds room for a shard that is staged as `planned` beside the `complete` revisions. `whole`: its size if it
    /// shares no blocks. `None` if there is no room for a plan.
    pub(super) fn allocate_planned(
        &self,
        planned: &PlannedShard,
        whole: &Size,
        complete: &[Complete],
    ) -> Option<Allocation> {
        let current = self.files.current.as_ref()?;
        let retained: Vec<RevisionKey> = complete.iter().map(|complete| complete.key).collect();
        let [ledger] = &current.ledgers[..] else { return None };
        if !planned.holds(current.layout_id, &retained) {
            return None;
        }
        if let Some(room) = planned.room.as_ref().filter(|room| room.is_beside(ledger, &retained)) {
            return Some(room.allocation().clone());
        }
        let mut each = [Some(planned), planned.without.as_deref()].into_iter().flatten();
        each.find_map(|planned| self.allocate_sharing(&lock(ledger), planned, whole, &retained))
    }

    /// `planned` with the room from `allocate_planned`; `None` if there is none.
    pub(super) fn with_room(&self, planned: PlannedShard, whole: &Size, complete: &[Complete]) -> Option<PlannedShard> {
        let allocation = self.allocate_planned(&planned, whole, complete)?;
        let retained = complete.iter().map(|complete| complete.key).collect();
        Some(planned.in_room(RoomBeside::new(self.current_ledgers().next()?, retained, allocation)))
    }

    /// `grows`: fail if a later shard of the same size would find no room.
    fn allocate_in(&self, ledger: &Ledger, size: &Size, retained: &[RevisionKey], grows: bool) -> Result<Allocation> {
        ledger.check()?;
        let (mut runs, keep) = (RUNS, self.keep());
        let lasts = ledger.check_lasting(Need::of(size, runs), retained, keep);
        if grows {
            lasts.clone()?;
        }
        loop {
            let need = Need::of(size, runs);
            // A compressed shard takes more room, for its list of frames. If shards of this size find room now and
            // later (a granted hold promises it), they must still do so after this shard. An older portion may lack the
            // extra room.
            let then = lasts.is_ok().then_some(need);
            let packed =
                self.packed(need).and_then(|packed| ledger.allocate_lasting(packed, then, retained, keep).ok());
            let allocation = packed.map_or_else(|| ledger.allocate_lasting(need, None, retained, keep), Ok)?;
            if allocation.data.len() <= runs {
                return Ok(allocation);
            }
            runs = 2 * allocation.data.len();
        }
    }

    /// Finds room for a shard that shares blocks; `whole` is its size without sharing. `None` if it has to be saved
    /// whole.
    fn allocate_sharing(
        &self,
        ledger: &Ledger,
        planned: &PlannedShard,
        whole: &Size,
        retained: &[RevisionKey],
    ) -> Option<Allocation> {
        ledger.check().ok()?;
        let (shares, plan) = (planned.shares()?, &planned.plan);
        let (whole, mut runs) = (Need::of(whole, RUNS), RUNS);
        while runs <= OWN_RUNS_MAX {
            let need = Need::of(&plan.size, runs);
            let found = |need| ledger.allocate_sharing(need, shares, whole, retained, self.keep());
            let allocation = self.packed(need).and_then(found).or_else(|| found(need))?;
            if allocation.data.len() <= runs {
                return Some(allocation);
            }
            runs = 2 * allocation.data.len();
        }
        None
    }

    /// The compression on this level. Memory is not compressed: it is copied once and mapped.
    pub(super) fn codec(&self) -> Option<Codec> {
        match self.location.config.compress {
            Compress::Lz4 if self.location.kind != LevelKind::Memory => Some(Codec::Lz4),
            Compress::Zstd if self.location.kind != LevelKind::Memory => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The same `need` with compression; `None` if this level does not compress.
    fn packed(&self, need: Need) -> Option<Need> {
        self.codec().map(|codec| need.packed(Some(codec)))
    }

    /// Whether shards of these `sizes` find room beside the held revisions, now and later.
    pub(super) fn lasts_beside_held(&self, sizes: ShardSizes<'_>) -> bool {
        let complete: Vec<RevisionKey> = self.complete.iter().map(|complete| complete.key).collect();
        let lasts = |(ledger, size): (&Arc<Mutex<Ledger>>, &Size)| {
            lock(ledger).lasts_beside_held(Need::of(size, RUNS), &complete, self.keep())
        };
        self.current_ledgers().zip(sizes.written).all(lasts)
    }

    /// The number of shards that a portion has room for: the kept ones and the next one. On storage there is one more:
    /// freeing a revision takes a root and a sync, and the extra room makes this rarer. One more is for early saving,
    /// and one for each level that is fed from here.
    pub(super) fn shards_at_once(&self) -> u32 {
        let is_storage = self.location.kind != LevelKind::Memory;
        let early = is_storage
            && self.location.config.capture.is_incremental()
            && self.location.config.predictor != Predictor::Off;
        self.location.config.keep + 1 + u32::from(is_storage) + u32::from(early) + self.feeding.feeds
    }

    /// Whether a checkpoint without room goes to a larger layout. It does not if the user has set the size of portions.
    /// The same on all ranks.
    pub(super) fn grows(&self) -> bool {
        (self.files.current.is_some() || self.files.mends.is_some()) && self.location.config.portion_bytes == 0
    }

    /// Removes the layout `left` if it was made for smaller shards and never used: there may be no room for both.
    /// Returns whether it did.
    pub(super) fn remove_unused(&mut self, epoch: &Epoch, left: [u8; 16]) -> bool {
        let is_unused =
            self.files.made == Some(left) && !epoch.attempted && !self.has_any() && self.holds.held().is_empty();
        if is_unused {
            self.remove_layouts(epoch.group.rank(), |id| *id == left);
        }
        is_unused
    }

    /// Leaves the current layout if `room` failed only for want of room. Like a layout of another number of ranks, it
    /// stays until none of its revisions is kept. Collective.
    pub(super) fn leave_layout(
        &mut self,
        epoch: &Epoch,
        entry: &Entered,
        room: Result<Option<Vec<Allocation>>>,
    ) -> Result<()> {
        let group = epoch.group.with(entry);
        let other = room.err().filter(|error| !matches!(error, Error::PortionTooSmall { .. }));
        agree(group, other.map_or(Ok(()), Err))?;
        let leave = |ledger: &Arc<Mutex<Ledger>>| {
            let mut before = lock(ledger);
            // A revision that only the older slot names may later be held, or restored. The last root of this portion
            // includes it.
            let found: Vec<RevisionKey> = before.found().iter().map(|kept| kept.key()).collect();
            // Without room for such a root, the slots stay as read below.
            if let Err(error @ (Error::Fenced { .. } | Error::SyncFailed { .. })) = before.begin(epoch.lineage, &found)
            {
                return Err(error);
            }
            let mut left = Ledger::open(before.portion().clone())?.ledger;
            // A failed sync of the portion counts for both of its ledgers.
            left.resume(epoch.lineage).inspect_err(|error| before.doubt(error.clone()))?;
            Ok(left)
        };
        let current = self.files.current.iter().flat_map(|current| &current.ledgers);
        let left = agree(group, current.map(leave).collect::<Result<Vec<Ledger>>>())?;
        let blocks = |ledger: &Ledger| {
            let (from, to) = ledger.portion().data_blocks();
            (ledger.portion().rank() as usize, to - from)
        };
        self.files.outgrown = left.iter().map(blocks).collect();
        (self.files.current, self.files.mends) = (None, None);
        self.files.others.extend(left);
        Ok(())
    }

    /// Goes on in the layout `left`, because no larger one can be made. It is still valid, and has room for smaller
    /// shards.
    pub(super) fn return_to(&mut self, left: CurrentLayout) {
        let of = |portion: &Portion| (portion.layout_id(), portion.rank());
        let own: Vec<_> = left.ledgers.iter().map(|ledger| of(lock(ledger).portion())).collect();
        self.files.others.retain(|other| !own.contains(&of(other.portion())));
        self.files.outgrown.clear();
        self.files.current = Some(left);
    }
}
