//! What stays in a portion: which shards the roots that are written from now on lead to.

use super::{Kept, Ledger, Need, RevisionKey};
use crate::{error::Result, space::free::Blocks};
use std::sync::Arc;

impl Ledger {
    /// What is held, besides what a revision retains. Only while no revision is under way: its blocks
    /// were found beside what was held then.
    pub(crate) fn set_held(&mut self, held: Vec<RevisionKey>) {
        self.held = held;
    }

    pub(crate) fn held(&self) -> &[RevisionKey] {
        &self.held
    }

    /// Whether no block of `blocks` is needed by `retained` or by what is held.
    pub(crate) fn spares(&self, mut blocks: impl Iterator<Item = Blocks>, retained: &[RevisionKey]) -> bool {
        let staying = self.retained(retained);
        let taken = || staying.iter().flat_map(|kept| kept.blocks.iter());
        blocks.all(|blocks| taken().all(|taken| taken.end() <= blocks.first || blocks.end() <= taken.first))
    }

    /// Whether any of `keys` is here and the newest root does not lead to it.
    pub(crate) fn lacks(&self, keys: &[RevisionKey]) -> bool {
        let in_newest = |key: RevisionKey| self.kept().iter().any(|kept| kept.key() == key);
        self.found().iter().any(|kept| keys.contains(&kept.key()) && !in_newest(kept.key()))
    }

    /// What the newest root keeps, and what is held and stands only in the other.
    pub(super) fn staying(&self) -> Vec<Arc<Kept>> {
        let in_newest = |key: RevisionKey| self.kept().iter().any(|kept| kept.key() == key);
        let stays = |kept: &Arc<Kept>| in_newest(kept.key()) || self.held.contains(&kept.key());
        self.found().into_iter().filter(stays).collect()
    }

    /// What either root leads to of `keys` and of what is held.
    pub(super) fn retained(&self, keys: &[RevisionKey]) -> Vec<Arc<Kept>> {
        let stays = |key: &RevisionKey| keys.contains(key) || self.held.contains(key);
        self.found().into_iter().filter(|kept| stays(&kept.key())).collect()
    }

    /// Leaves only `keys` and what is held in both slots, and ends in order: whatever else was here is gone.
    pub(crate) fn keep_only(&mut self, keys: &[RevisionKey]) -> Result<()> {
        for clean in [false, true] {
            self.check_slots()?;
            let allocation = self.allocate(Need { data: 0, meta: 0 }, keys)?;
            self.free(&allocation, keys)?;
            self.write_catalogue(self.retained(keys), allocation.catalogue, clean)?;
        }
        Ok(())
    }
}
