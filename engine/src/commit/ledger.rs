//! The ledger of one portion: the contents of its slots, and the only code that writes them.

use super::{
    Kept, RevisionKey,
    allocation::{Allocation, Need, Referred, allocate, catalogue_blocks},
    free_maps::FreeMaps,
    protocol::{check_freed, check_overwritten, check_shared, check_unreferred},
    revision::frames_of,
};
use crate::{
    error::{Error, Result},
    mutant::{self, Mutant},
    space::{
        Portion,
        format::{BLOCK_BYTES, Catalogue, Frame, Lineage, PhaseRecord, Run, Slot, blocks_for, hash},
        free::{Blocks, FreeMap},
    },
};
use std::sync::Arc;

/// A root as stored in a slot.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) slot: Slot,
    pub(super) kept: Vec<Arc<Kept>>,
    pub(super) catalogue: Option<Blocks>,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(super) portion: Portion,
    /// The lineage under which this job writes.
    pub(super) lineage: Lineage,
    pub(super) slots: [Option<Root>; 2],
    /// The revisions that stay in every root written from now on.
    pub(super) held: Vec<RevisionKey>,
    /// The held revisions that stay only until the next one is complete in more places.
    pub(super) passing: Vec<RevisionKey>,
    /// Why nothing may be written to the portion any more.
    pub(super) stopped: Option<Error>,
    /// Whether a command, not a job, writes to the portion. Nothing is staged for it then, so each root is marked as
    /// ended normally.
    pub(super) is_tended: bool,
}

/// The contents of a portion, as opened.
#[derive(Debug)]
pub(crate) struct OpenedLedger {
    pub(crate) ledger: Ledger,
    /// Unreadable parts: both slots, catalogues, manifests.
    pub(crate) damage: Vec<String>,
    /// The one unreadable slot, while the other is readable: a crash interrupted its write, or it is damaged.
    pub(crate) damaged_slots: Vec<String>,
    /// Whether at least one slot refers to a catalogue, so that the portion may be written.
    pub(crate) usable: bool,
    pub(crate) clean: bool,
    /// The highest lineage in the slots.
    pub(crate) lineage: Option<Lineage>,
}

impl Ledger {
    /// Reads the portion. Notes damage; fails on an I/O error or a newer version.
    pub(crate) fn open(portion: Portion) -> Result<OpenedLedger> {
        let (mut damage, mut slots, mut lineage) = (Vec::new(), [None, None], None::<Lineage>);
        let (mut damaged_slots, mut is_new) = (Vec::new(), false);
        for (index, place) in slots.iter_mut().enumerate() {
            let read = portion.read_slot(index).or_else(|error| {
                is_new = portion.is_unwritten(index);
                // A job may have just written it.
                if is_new { Err(error) } else { portion.read_slot(index) }
            });
            let slot = match read {
                Ok(slot) => slot,
                Err(Error::Damaged { what }) => {
                    damaged_slots.extend(what);
                    continue;
                }
                Err(error) => return Err(error),
            };
            lineage = lineage.max(Some(slot.lineage));
            match Root::read(&portion, slot, &mut damage) {
                Ok(root) => *place = Some(root),
                Err(Error::Damaged { what }) => damage.extend(what),
                Err(error) => return Err(error),
            }
        }
        match slots.iter().flatten().map(|root| root.slot.sequence).max() {
            // The second slot of a new portion.
            Some(1) if is_new => damaged_slots.clear(),
            // No crash leaves two invalid slots.
            None if damaged_slots.len() == 2 => damage.append(&mut damaged_slots),
            _ => {}
        }
        damage.dedup();
        let own = Lineage { number: 0, id: [0; 16] };
        let ledger = Ledger {
            portion,
            lineage: own,
            slots,
            held: Vec::new(),
            passing: Vec::new(),
            stopped: None,
            is_tended: false,
        };
        let newest = ledger.newest();
        let (usable, clean) = (newest.is_some(), newest.is_some_and(|root| root.slot.clean));
        Ok(OpenedLedger { ledger, damage, damaged_slots, usable, clean, lineage })
    }

    /// The ledger of a portion that was just made, with `slot` as its first.
    pub(crate) fn fresh(portion: Portion, slot: Slot) -> Ledger {
        let lineage = slot.lineage;
        let root = Root { slot, kept: Vec::new(), catalogue: None };
        Ledger {
            portion,
            lineage,
            slots: [Some(root), None],
            held: Vec::new(),
            passing: Vec::new(),
            stopped: None,
            is_tended: false,
        }
    }

    /// The first root of a new portion.
    pub(crate) fn first_slot(layout_id: [u8; 16], rank: u32, lineage: Lineage) -> Slot {
        Slot {
            sequence: 1,
            layout_id,
            rank,
            lineage,
            clean: false,
            catalogue_at: 0,
            catalogue_bytes: 0,
            catalogue_hash: [0; 16],
        }
    }

    pub(crate) fn portion(&self) -> &Portion {
        &self.portion
    }

    /// The shards that the newest root refers to.
    pub(crate) fn kept(&self) -> &[Arc<Kept>] {
        self.newest().map_or(&[], |root| &root.kept)
    }

    /// All shards that either root refers to.
    pub(crate) fn found(&self) -> Vec<Arc<Kept>> {
        let mut found: Vec<Arc<Kept>> = self.kept().to_vec();
        for kept in self.slots.iter().flatten().flat_map(|root| &root.kept) {
            if !found.iter().any(|other| other.key() == kept.key()) {
                found.push(kept.clone());
            }
        }
        found
    }

    /// Fails, with the reason, if the ledger accepts no more writes.
    pub(crate) fn check(&self) -> Result<()> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// Stops all writes, because `error` left the file of this portion in doubt.
    pub(crate) fn doubt(&mut self, error: Error) {
        self.stop(error);
    }

    /// Sequence and lineage of the newest slot.
    pub(crate) fn position(&self) -> (u64, Lineage) {
        self.newest().map_or((0, self.lineage), |root| (root.slot.sequence, root.slot.lineage))
    }

    /// Whether the writer of the newest root ended normally.
    pub(crate) fn is_clean(&self) -> bool {
        self.newest().is_some_and(|root| root.slot.clean)
    }

    /// Whether the portion has only its first root.
    pub(crate) fn is_unused(&self) -> bool {
        matches!(&self.slots, [Some(root), None] if root.slot.sequence == 1)
    }

    /// Continues the lineage of a job that has died, from its last root.
    pub(crate) fn resume(&mut self, lineage: Lineage) -> Result<()> {
        self.lineage = lineage;
        // As in `begin`, the last root may not be durable.
        self.sync()
    }

    /// Takes the portion over for `lineage`. The new root keeps the revisions of the newest root and the held ones. It
    /// also keeps those of `complete` that only the overwritten slot refers to: a job that went back may go on from one
    /// of them.
    pub(crate) fn begin(&mut self, lineage: Lineage, complete: &[RevisionKey]) -> Result<()> {
        self.check_slots()?;
        // The root that was read may be the last write of a job that was killed before its sync. Make it durable before
        // the other slot, the only certain one, is overwritten.
        self.sync()?;
        self.lineage = lineage;
        let staying = self.staying_with(complete);
        if staying.len() == self.kept().len() {
            return self.newest_root().and_then(|root| self.write_root(root, false));
        }
        let blocks = self.room_for_root(&staying)?;
        self.write_catalogue(staying, blocks, false)
    }

    /// Like `begin`, for a command.
    pub(crate) fn begin_tended(&mut self, lineage: Lineage) -> Result<()> {
        self.is_tended = true;
        self.begin(lineage, &[])
    }

    /// Whether this job has written its own lineage to the portion.
    pub(crate) fn is_begun(&self) -> bool {
        self.lineage.number > 0
    }

    /// Notes the times of a checkpoint, for the next root that is written.
    pub(crate) fn note(&mut self, key: RevisionKey, phases: PhaseRecord) {
        for kept in self.slots.iter_mut().flatten().flat_map(|root| &mut root.kept) {
            if kept.key() == key {
                Arc::make_mut(kept).entry.phases = phases;
            }
        }
    }

    /// Ends normally: writes a root that says so, with the last times in a new catalogue. If the portion or the disk
    /// has no room for that, the ledger is left as a killed job leaves it; the saved revisions are there.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.check_slots()?;
        let staying = self.staying();
        let is_in_newest = staying.len() == self.kept().len();
        let written = match self.room_for_one_more(&staying) {
            Some(blocks) => self.root_of(staying, blocks).map(Some),
            None => Ok(None),
        };
        let root = match written {
            Ok(Some(root)) => root,
            Err(error) if !matches!(error, Error::DiskFull { .. }) => return Err(error),
            // Only the slot that the root would overwrite refers to held revisions.
            _ if !is_in_newest => return Ok(()),
            _ => self.newest_root()?,
        };
        match self.put_root(root, true) {
            Err(Error::DiskFull { .. }) => Ok(()),
            ended => ended.map_err(|error| self.stop(error)),
        }
    }

    /// Finds blocks for a catalogue of `kept` that neither slot refers to.
    pub(super) fn room_for_root(&self, kept: &[Arc<Kept>]) -> Result<Blocks> {
        let (from, to) = self.portion.data_blocks();
        let used = self.referred().into_iter().flat_map(|slot| slot.blocks().collect::<Vec<_>>());
        let need = Need { data: 0, meta: catalogue_blocks(kept.len()), packing: None };
        FreeMap::new(from, to, used).take_high(need.meta).ok_or_else(|| self.too_small(need, kept, 0, kept.len()))
    }

    /// Like `room_for_root`, but `None` unless enough is left for the next root.
    fn room_for_one_more(&self, kept: &[Arc<Kept>]) -> Option<Blocks> {
        let room = allocate(&mut self.free_maps(), self.referred(), kept, &[], Need::ROOT)?;
        room.freeing.is_empty().then_some(room.catalogue)
    }

    /// Finds room for a shard, beside the revisions `retained` and the held ones.
    pub(crate) fn allocate(&self, need: Need, retained: &[RevisionKey]) -> Result<Allocation> {
        let kept = self.retained(retained);
        self.allocate_beside(&mut self.free_maps(), need, &kept, &[], kept.len())
    }

    pub(super) fn free_maps(&self) -> FreeMaps {
        FreeMaps::new(self.portion.data_blocks())
    }

    /// Finds room for a shard beside `kept` and the blocks `aside`, for a job that keeps `keep` revisions.
    pub(super) fn allocate_beside(
        &self,
        maps: &mut FreeMaps,
        need: Need,
        kept: &[Arc<Kept>],
        aside: &[Blocks],
        keep: usize,
    ) -> Result<Allocation> {
        let room = allocate(maps, self.referred(), kept, aside, need);
        // There may be as many free blocks, but not in one stretch.
        let less = || self.left_beside(kept).min(need.blocks().saturating_sub(1));
        room.ok_or_else(|| self.too_small(need, kept, less(), keep))
    }

    /// Writes the roots that drop old revisions; called before the first block of the allocation is written.
    pub(crate) fn free(&mut self, allocation: &Allocation, retained: &[RevisionKey]) -> Result<()> {
        for catalogue in allocation.freeing.iter().filter(|_| !mutant::is(Mutant::RootsNotFreed)) {
            self.check_slots()?;
            match self.newest().filter(|root| root.leads_by(*catalogue)) {
                Some(root) => self.write_root(root.clone(), false)?,
                None => self.write_catalogue(self.retained(retained), *catalogue, false)?,
            }
        }
        self.check_freed(allocation)
    }

    /// Publishes a shard, beside `retained`, after its data and its manifest have been written.
    pub(crate) fn publish(&mut self, shard: Kept, allocation: &Allocation, retained: &[RevisionKey]) -> Result<()> {
        self.check_slots()?;
        self.check_freed(allocation)?;
        self.check_shared(allocation)?;
        let retained = if mutant::is(Mutant::OlderDroppedAtOnce) { &[] } else { retained };
        let mut kept = self.retained(retained);
        kept.push(Arc::new(shard));
        self.write_catalogue(kept, allocation.catalogue, false)
    }

    /// Checks that the blocks of `allocation` may be written, once `free` has freed them.
    fn check_freed(&mut self, allocation: &Allocation) -> Result<()> {
        let written = allocation.data.iter().chain([&allocation.meta]).chain(&allocation.early).copied();
        check_freed(allocation, self.newest().and_then(|root| root.catalogue))
            .and_then(|()| check_unreferred(self.portion.data_blocks(), self.referred(), written))
            .map_err(|error| self.stop(error))
    }

    /// Checks that the newest root keeps all blocks that a shard shares with older ones: until the shard is published,
    /// nothing else does.
    fn check_shared(&mut self, allocation: &Allocation) -> Result<()> {
        check_shared(self.kept(), self.portion.data_blocks(), &allocation.shared, &allocation.early, &allocation.frames)
            .map_err(|error| self.stop(error))
    }

    /// Whether the newest root keeps these runs and their rows, except those in `early`.
    pub(crate) fn keeps(&self, shared: &[Run], early: &[Blocks]) -> bool {
        check_shared(self.kept(), self.portion.data_blocks(), shared, early, &[]).is_ok()
    }

    /// The shard of `key`, if the newest root refers to it.
    pub(crate) fn kept_of(&self, key: RevisionKey) -> Option<Arc<Kept>> {
        self.kept().iter().find(|kept| kept.key() == key).cloned()
    }

    /// The frames with blocks of these runs, which the newest root keeps.
    pub(crate) fn frames_of(&self, shared: &[Run]) -> Vec<Frame> {
        frames_of(self.kept(), shared)
    }

    pub(super) fn write_catalogue(&mut self, kept: Vec<Arc<Kept>>, blocks: Blocks, clean: bool) -> Result<()> {
        let root = self.root_of(kept, blocks)?;
        self.write_root(root, clean)
    }

    /// Makes a root that refers to `kept`, with its catalogue in `blocks`, durable.
    fn root_of(&mut self, mut kept: Vec<Arc<Kept>>, blocks: Blocks) -> Result<Root> {
        kept.sort_by_key(|kept| kept.key());
        let bytes = Catalogue { entries: kept.iter().map(|kept| kept.entry.clone()).collect() }.build();
        let newest = self.newest().map(|root| root.slot.clone());
        let slot = Slot {
            catalogue_at: if bytes.is_empty() { 0 } else { blocks.first * BLOCK_BYTES },
            catalogue_bytes: bytes.len() as u64,
            catalogue_hash: hash(&bytes),
            ..newest.unwrap_or_else(|| Self::first_slot(self.portion.layout_id(), self.portion.rank(), self.lineage))
        };
        let catalogue = (!bytes.is_empty()).then_some(blocks);
        if !bytes.is_empty() {
            let lies = Blocks { count: blocks_for(bytes.len() as u64), ..blocks };
            check_unreferred(self.portion.data_blocks(), self.referred(), [lies]).map_err(|error| self.stop(error))?;
            self.portion.write_padded(blocks.first * BLOCK_BYTES, &bytes)?;
        }
        if !mutant::is(Mutant::SlotBeforeSync) {
            // Everything that the slot refers to must be durable before the slot is written: data and manifests, which
            // other threads wrote through the same file, and the catalogue.
            self.sync()?;
        }
        Ok(Root { slot, kept, catalogue })
    }

    fn newest_root(&self) -> Result<Root> {
        let none = || Error::Internal { what: "a portion without a root is written".into() };
        self.newest().cloned().ok_or_else(none)
    }

    /// Writes `root` over the slot with the lower sequence, and syncs.
    fn write_root(&mut self, root: Root, clean: bool) -> Result<()> {
        self.put_root(root, clean).map_err(|error| match error {
            // Nothing was written, so nothing is in doubt: only this root is lost, as with data that finds no room.
            Error::DiskFull { .. } if self.slots_are_known() => error,
            _ => self.stop(error),
        })
    }

    /// Like `write_root`, but the caller must stop the ledger: after an error the slot is in doubt.
    fn put_root(&mut self, mut root: Root, clean: bool) -> Result<()> {
        let sequences = self.slots.each_ref().map(|slot| slot.as_ref().map_or(0, |root| root.slot.sequence));
        root.slot.sequence = sequences[0].max(sequences[1]) + 1;
        root.slot.lineage = self.lineage;
        root.slot.clean = clean || self.is_tended;
        let mut lower = usize::from(sequences[1] < sequences[0]);
        if mutant::is(Mutant::SlotByParity) {
            lower = (root.slot.sequence % 2) as usize;
        }
        if mutant::is(Mutant::SlotOverNewest) {
            lower = 1 - lower;
        }
        check_overwritten(sequences, lower, root.slot.sequence)?;
        debug_assert!(mutant::is_any() || self.keeps_held(&root.kept), "a root drops a held revision");
        // Once the write has begun, the slot is in doubt until the sync has returned.
        self.portion.write_slot(lower, &root.slot)?;
        if !mutant::is(Mutant::SlotNotSynced) {
            self.portion.sync()?;
        }
        self.slots[lower] = Some(root);
        Ok(())
    }

    /// Makes all writes to the portion durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.portion.sync().map_err(|error| self.stop(error))
    }

    /// Stops the ledger. After a failed sync, or a write of a slot with an unknown result, the state of the medium is
    /// unknown until the space is opened again.
    fn stop(&mut self, error: Error) -> Error {
        let stopped = Error::SyncFailed { path: self.portion.path().to_owned(), cause: error.to_string() };
        self.stopped = Some(stopped.clone());
        stopped
    }

    /// Checks that the slots on the medium are those that this job wrote. Another lineage means that a newer job has
    /// taken over.
    pub(super) fn check_slots(&mut self) -> Result<()> {
        self.check()?;
        for index in 0..2 {
            let found = match self.portion.read_slot(index) {
                Ok(slot) => Some(slot),
                Err(Error::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            let known = self.slots[index].as_ref().map(|root| &root.slot);
            if found.as_ref() == known || (known.is_none() && self.lineage.number == 0) {
                continue;
            }
            let path = self.portion.path().to_owned();
            let error = match found {
                Some(slot) if slot.lineage != self.lineage => {
                    Error::Fenced { path, own: self.lineage.number, found: slot.lineage.number }
                }
                _ if mutant::is(Mutant::SlotByParity) => continue,
                _ => Error::SyncFailed { path, cause: format!("slot {index} is not what was written to it") },
            };
            self.stopped = Some(error.clone());
            return Err(error);
        }
        Ok(())
    }

    /// Whether both slots can be read and match this ledger.
    fn slots_are_known(&self) -> bool {
        self.slots.iter().enumerate().all(|(index, known)| match (self.portion.read_slot(index), known) {
            (Ok(found), Some(known)) => found == known.slot,
            (Err(Error::Damaged { .. }), None) => true,
            _ => false,
        })
    }

    pub(super) fn newest(&self) -> Option<&Root> {
        self.slots.iter().flatten().max_by_key(|root| root.slot.sequence)
    }

    pub(super) fn referred(&self) -> [Referred<'_>; 2] {
        self.slots.each_ref().map(|slot| match slot {
            Some(root) => Referred { sequence: root.slot.sequence, kept: &root.kept, catalogue: root.catalogue },
            None => Referred { sequence: 0, kept: &[], catalogue: None },
        })
    }
}

impl Root {
    /// Whether the root's catalogue is there. A catalogue that was read may be shorter than its reserved blocks.
    pub(super) fn leads_by(&self, catalogue: Blocks) -> bool {
        self.catalogue.is_some_and(|own| own.first == catalogue.first)
    }

    fn read(portion: &Portion, slot: Slot, damage: &mut Vec<String>) -> Result<Root> {
        let mut kept = Vec::new();
        for entry in portion.read_catalogue(&slot)?.entries {
            match portion.read_manifest(&entry) {
                Ok(manifest) => kept.push(Arc::new(Kept::of(entry, &manifest))),
                // A shard without its manifest is lost; the others are not.
                Err(Error::Damaged { what }) => damage.extend(what),
                Err(error) => return Err(error),
            }
        }
        let catalogue = (slot.catalogue_bytes > 0)
            .then(|| Blocks { first: slot.catalogue_at / BLOCK_BYTES, count: blocks_for(slot.catalogue_bytes) });
        Ok(Root { slot, kept, catalogue })
    }
}
