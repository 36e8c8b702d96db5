//! The state of a ledger at one moment, for questions later. The ledger itself is locked while roots are written to the
//! disk, and the program must not wait for a disk.
//!
//! Invariant: the answers stay valid until the shard that was begun at that moment is published. Roots written
//! meanwhile come from its allocation. They refer to the revisions that it retains and to the held ones.

use super::{Allocation, Kept, Ledger, RevisionKey, protocol::check_shared, revision::frames_of};
use crate::{capture::Contents, space::format::Run};
use std::sync::Arc;

/// A copy of a ledger that never writes.
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

    /// The newest revision of `retained` that the newest root refers to.
    pub(crate) fn newest_of(&self, retained: &[RevisionKey]) -> Option<&Arc<Kept>> {
        self.0.kept().iter().filter(|kept| retained.contains(&kept.key())).max_by_key(|kept| kept.key())
    }

    /// The room of a shard with `contents`, partly written into `whole` already, that refers to these runs as well.
    /// `None` if the list of its items does not fit there, or if the `retained` revisions lack any of the runs.
    pub(crate) fn delta_late(
        &self,
        whole: &Allocation,
        contents: &Contents,
        shared: &[Run],
        retained: &[RevisionKey],
    ) -> Option<Allocation> {
        // Each root that is written until the shard is published refers to these.
        let stays = |kept: &&Arc<Kept>| retained.contains(&kept.key()) || self.0.held.contains(&kept.key());
        let staying: Vec<Arc<Kept>> = self.0.kept().iter().filter(stays).cloned().collect();
        let frames = frames_of(&staying, shared);
        check_shared(&staying, self.0.portion.data_blocks(), shared, &[], &frames).ok()?;
        whole.delta_late(contents, shared, frames)
    }

    /// Whether there is room for a whole shard, of size `whole`, after one that is saved at `delta_allocation`, whether or not
    /// its roots that free blocks have been written.
    pub(crate) fn lasts_sharing(
        &self,
        delta_allocation: &Allocation,
        whole: &Allocation,
        retained: &[RevisionKey],
        keep: usize,
    ) -> bool {
        self.0.lasts_sharing(delta_allocation, whole, retained, keep)
    }
}
