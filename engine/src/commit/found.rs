//! What a ledger said at one moment, for who asks later without the ledger: who writes roots has that to itself until they
//! are on the disk, and the program waits for no disk.
//!
//! What must hold: the answers stay right until the shard is published that was begun at that moment. The roots that are
//! written meanwhile are those of its allocation, and lead to what it retains and what is held.

use super::{Allocation, Kept, Ledger, RevisionKey, protocol::check_shared, revision::frames_of};
use crate::{capture::Contents, space::format::Run};
use std::sync::Arc;

/// A copy of a ledger, by which nothing is written.
#[derive(Debug)]
pub(crate) struct FoundLedger(Ledger);

impl FoundLedger {
    pub(crate) fn of(ledger: &Ledger) -> FoundLedger {
        FoundLedger(Ledger {
            portion: ledger.portion.clone(),
            lineage: ledger.lineage,
            slots: ledger.slots.clone(),
            held: ledger.held.clone(),
            passing: ledger.passing.clone(),
            stopped: ledger.stopped.clone(),
            is_tended: ledger.is_tended,
        })
    }

    /// Sequence of the newest slot.
    pub(crate) fn sequence(&self) -> u64 {
        self.0.position().0
    }

    pub(crate) fn held(&self) -> &[RevisionKey] {
        self.0.held()
    }

    /// The newest revision of `retained` that the newest root leads to.
    pub(crate) fn newest_of(&self, retained: &[RevisionKey]) -> Option<&Arc<Kept>> {
        self.0.kept().iter().filter(|kept| retained.contains(&kept.key())).max_by_key(|kept| kept.key())
    }

    /// The room of a shard with `contents`, parts of which are written in `whole` already, that leads to these runs besides;
    /// `None` if the list of its items has no room there, or if what is `retained` lacks any of them.
    pub(crate) fn leading_late(
        &self,
        whole: &Allocation,
        contents: &Contents,
        shared: &[Run],
        retained: &[RevisionKey],
    ) -> Option<Allocation> {
        // Each root that is written until the shard is published leads to these.
        let stays = |kept: &&Arc<Kept>| retained.contains(&kept.key()) || self.0.held.contains(&kept.key());
        let staying: Vec<Arc<Kept>> = self.0.kept().iter().filter(stays).cloned().collect();
        let frames = frames_of(&staying, shared);
        check_shared(&staying, self.0.portion.data_blocks(), shared, &[], &frames).ok()?;
        whole.leading_late(contents, shared, frames)
    }

    /// Whether a whole shard, as `whole` has room for, finds room after one that is saved at `leading`, whether its roots that
    /// free blocks have been written by now or not.
    pub(crate) fn lasts_sharing(
        &self,
        leading: &Allocation,
        whole: &Allocation,
        retained: &[RevisionKey],
        keep: usize,
    ) -> bool {
        self.0.lasts_sharing(leading, whole, retained, keep)
    }
}
