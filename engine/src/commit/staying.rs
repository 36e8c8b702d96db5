//! The shards that stay in a portion: future roots refer to them.

use super::{
    Allocation, Kept, Ledger, Need, RevisionKey,
    allocation::{Referred, allocate, catalogue_blocks},
};
use crate::{error::Result, space::free::Blocks};
use std::sync::Arc;

impl Ledger {
    /// Sets the held revisions, which stay in addition to those that a revision retains. Only while no revision is in
    /// progress: its blocks were found beside the revisions held then.
    pub(crate) fn set_held(&mut self, held: Vec<RevisionKey>) {
        (self.held, self.passing) = (held, Vec::new());
    }

    /// The same, with revisions that stay as long as something else needs them: room is sought beside them, but need
    /// not last beside them.
    pub(crate) fn set_staying(&mut self, held: Vec<RevisionKey>, passing: Vec<RevisionKey>) {
        self.held = held.iter().chain(&passing).copied().collect();
        self.passing = passing.into_iter().filter(|key| !held.contains(key)).collect();
    }

    pub(crate) fn held(&self) -> &[RevisionKey] {
        &self.held
    }

    /// Whether `kept` has all held revisions that are here.
    pub(super) fn keeps_held(&self, kept: &[Arc<Kept>]) -> bool {
        let is_kept = |held: &Arc<Kept>| kept.iter().any(|kept| kept.key() == held.key());
        self.retained(&[]).iter().all(is_kept)
    }

    /// Whether neither `retained` nor a held revision needs a block of `allocation`, and its roots have room for all of
    /// those.
    pub(crate) fn spares(&self, allocation: &Allocation, retained: &[RevisionKey]) -> bool {
        let staying = self.retained(retained);
        let taken = || staying.iter().flat_map(|kept| kept.blocks.iter());
        let is_free = |blocks: Blocks| taken().all(|taken| taken.end() <= blocks.first || blocks.end() <= taken.first);
        let is_long = |root: &Blocks, revisions: usize| root.count >= catalogue_blocks(revisions);
        // A root that repeats the newest one must refer to all of those.
        let in_newest = |kept: &Arc<Kept>| self.kept().iter().any(|other| other.key() == kept.key());
        let is_once_more = |first: &Blocks| self.newest().is_some_and(|root| root.leads_by(*first));
        let is_enough = !allocation.freeing.first().is_some_and(is_once_more) || staying.iter().all(in_newest);
        is_enough
            && allocation.freeing.iter().all(|root| is_long(root, staying.len()))
            && is_long(&allocation.catalogue, staying.len() + 1)
            && allocation.blocks().all(is_free)
    }

    /// Whether any revision of `keys` is here without a reference from the newest root.
    pub(crate) fn lacks(&self, keys: &[RevisionKey]) -> bool {
        let in_newest = |key: RevisionKey| self.kept().iter().any(|kept| kept.key() == key);
        self.found().iter().any(|kept| keys.contains(&kept.key()) && !in_newest(kept.key()))
    }

    /// The shards that the newest root keeps, and the held ones that only the other root refers to.
    pub(super) fn staying(&self) -> Vec<Arc<Kept>> {
        self.staying_with(&[])
    }

    /// The same, and those of `keys` that only the other root refers to.
    pub(super) fn staying_with(&self, keys: &[RevisionKey]) -> Vec<Arc<Kept>> {
        let in_newest = |key: RevisionKey| self.kept().iter().any(|kept| kept.key() == key);
        let stays =
            |kept: &Arc<Kept>| in_newest(kept.key()) || self.held.contains(&kept.key()) || keys.contains(&kept.key());
        self.found().into_iter().filter(stays).collect()
    }

    /// The shards of `keys` and the held ones, of either root.
    pub(super) fn retained(&self, keys: &[RevisionKey]) -> Vec<Arc<Kept>> {
        let stays = |key: &RevisionKey| keys.contains(key) || self.held.contains(key);
        self.found().into_iter().filter(|kept| stays(&kept.key())).collect()
    }

    /// Leaves only `keys` and held revisions in both slots, and ends normally: all other revisions are gone.
    pub(crate) fn keep_only(&mut self, keys: &[RevisionKey]) -> Result<()> {
        self.check_slots()?;
        let allocation = self.allocate(Need::ROOT, keys)?;
        self.free(&allocation, keys)?;
        self.write_catalogue(self.retained(keys), allocation.catalogue, false)?;
        self.end()
    }

    /// Whether `begin`, and `keep_only(keys)` after it, will find room; changes nothing.
    pub(crate) fn can_keep_only(&self, keys: &[RevisionKey]) -> Result<()> {
        let (staying, retained, mut slots) = (self.staying(), self.retained(keys), self.referred());
        let lower = usize::from(slots[1].sequence < slots[0].sequence);
        let newest = slots[1 - lower];
        let catalogue =
            if staying.len() == newest.kept.len() { newest.catalogue } else { Some(self.room_for_root(&staying)?) };
        slots[lower] = Referred { sequence: newest.sequence + 1, kept: &staying, catalogue };
        let need = Need { data: 0, meta: catalogue_blocks(retained.len()), packing: None };
        let room = allocate(&mut self.free_maps(), slots, &retained, &[], Need::ROOT);
        room.map(drop).ok_or_else(|| self.too_small(need, &retained, 0, retained.len()))
    }
}
