//! Revisions that other processes hold. Rank 0 reads the holds when the space is opened and at each t1, reports changes
//! to the other ranks, and acknowledges.
//!
//! Invariants: the set of holds is the same on every rank, and changes only while no revision is under way; every root
//! keeps a held revision; no hold is acknowledged before the newest root of every rank names the revision. Until then
//! the next root overwrites the only one that names it, and may tear.

use super::{
    epoch::Epoch,
    holds::{Asked, asked},
    level::Level,
    shard_room::ShardSizes,
};
use crate::{
    error::{Error, Result},
    ground::lock,
    group::{Group, broadcast},
    space::{
        LayoutFile,
        format::{HOLDS, HoldAnswer, HoldAnswers, Lineage},
    },
};

impl Level {
    /// On rank 0, at t1: the holds, if they differ from the known ones. If they cannot be read, the known holds stay
    /// valid, and no held revision is freed.
    pub(super) fn changed_holds(&mut self, epoch: &Epoch) -> Option<Vec<Asked>> {
        if epoch.group.rank() != 0 {
            return None;
        }
        let asked = asked(&self.files.layouts).ok()?;
        if asked.iter().eq(self.holds.answers.iter().map(|(asked, _)| asked)) {
            self.acknowledge(epoch);
            return None;
        }
        Some(asked)
    }

    /// Makes all ranks keep the revisions that are held now. A new hold counts if shards of these `sizes` find room
    /// beside it, now and later; otherwise it is refused. A hold that counted before stays. `next`: the number of the
    /// next revision. Collective.
    pub(super) fn renew_holds(
        &mut self,
        group: &dyn Group,
        next: u64,
        asked: Option<Vec<Asked>>,
        sizes: ShardSizes<'_>,
    ) -> Result<()> {
        debug_assert!(!self.facts().busy.is_set(), "the holds change while a revision is under way");
        let asked = broadcast(group, 0, &asked.unwrap_or_default())?;
        let holdable = self.find(group)?.holdable();
        let before = self.holds.counting();
        self.holds.answer(asked, &holdable);
        let new = self.holds.new_since(&before);
        new.iter().for_each(|asked| self.holds.set(*asked, HoldAnswer::NoRoom, &holdable));
        // Try new holds one by one: a hold that needs much room then keeps no other out.
        for asked in new {
            self.holds.set(asked, HoldAnswer::Counts, &holdable);
            self.hold_known();
            let mut lacking = [u64::from(!self.lasts_beside_held(sizes))];
            group.all_max(&mut lacking)?;
            if lacking == [1] {
                self.holds.set(asked, HoldAnswer::NoRoom, &holdable);
            }
        }
        self.hold_known();
        self.holds.in_newest_roots_with = self.number_with_all_held(group, next)?;
        self.holds.acknowledged = false;
        Ok(())
    }

    /// From now on all roots keep the held revisions, and those that other levels still copy.
    pub(super) fn hold_known(&self) {
        self.current_ledgers().for_each(|ledger| self.keep_in(&mut lock(ledger)));
    }

    /// The first revision with roots that name all held revisions on every rank; 0 if the newest roots already do.
    /// Collective.
    fn number_with_all_held(&self, group: &dyn Group, next: u64) -> Result<u64> {
        let missing = self.current_ledgers().any(|ledger| lock(ledger).lacks(&self.holds.keys()));
        let mut missing = [u64::from(missing)];
        group.all_max(&mut missing)?;
        Ok(if missing == [0] { 0 } else { next })
    }

    /// On rank 0: answers the processes that took holds, if they have no answer yet. Local. After a failure the next t1
    /// tries again.
    pub(super) fn acknowledge(&mut self, epoch: &Epoch) {
        let complete = self.complete.first().map_or(0, |complete| complete.key.number);
        if epoch.group.rank() != 0 || self.holds.acknowledged || complete < self.holds.in_newest_roots_with {
            return;
        }
        let answered = self.files.layouts.iter().map(|layout| tell(layout, epoch.lineage, &self.holds.answers));
        let answered: Vec<Result<()>> = answered.collect();
        self.holds.acknowledged = answered.iter().all(Result::is_ok);
        if let Some(Err(error)) =
            answered.into_iter().find(|answered| matches!(answered, Err(Error::SyncFailed { .. })))
        {
            self.current_ledgers().for_each(|ledger| lock(ledger).doubt(error.clone()));
        }
    }
}

/// Writes the answers to a file's holds into that file, if it has or had holds.
fn tell(layout: &LayoutFile, lineage: Lineage, answers: &[(Asked, HoldAnswer)]) -> Result<()> {
    let read = layout.read_holds()?;
    let mut list = read.holds().filter_map(|(_, hold)| {
        let (_, answer) = answers.iter().find(|(asked, _)| asked.id == hold.id)?;
        Some((hold.id, *answer))
    });
    let list: Vec<_> = list.by_ref().take(HOLDS).collect();
    if !layout.takes_holds() || (list.is_empty() && read.answers.is_none()) {
        return Ok(());
    }
    layout.write_answers(&HoldAnswers { lineage, list })?;
    // After a failed sync other data in the file is in doubt too.
    layout.sync_holds().map_err(|e| Error::SyncFailed { path: layout.path.to_string(), cause: e.to_string() })
}
