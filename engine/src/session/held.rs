//! Revisions that other processes hold: rank 0 reads the holds at the opening and at each t1, tells the other ranks
//! when something changed, and acknowledges.
//!
//! What must hold: the set of holds is the same on every rank, and changes only while no revision is under way; a held
//! revision stays in every root; no hold is acknowledged before the newest root of every rank leads to the revision:
//! until then the next root overwrites the only one that does, and may tear.

use super::{
    epoch::Epoch,
    holds::{Asked, asked},
    level::Level,
    room::ShardSizes,
};
use crate::{
    error::{Error, Result},
    ground::lock,
    group::{Group, gather},
    space::{
        LayoutFile,
        format::{HOLDS, HoldAnswer, HoldAnswers, Lineage},
    },
};

impl Level {
    /// On rank 0, at t1: the holds, if they differ from those known. If they cannot be read, those known go on: nothing
    /// that is held is freed.
    pub(super) fn changed_holds(&mut self, epoch: &Epoch) -> Option<Vec<Asked>> {
        if epoch.group.rank() != 0 {
            return None;
        }
        let asked = asked(&self.layouts).ok()?;
        if asked.iter().eq(self.holds.answers.iter().map(|(asked, _)| asked)) {
            self.acknowledge(epoch);
            return None;
        }
        Some(asked)
    }

    /// Has all ranks keep the revisions that are held now. A new hold counts if shards of these `sizes` and all that follow
    /// of those sizes find room beside it, and is refused otherwise; a hold that counted before stays. `next`: the number
    /// of the next revision. Collective.
    pub(super) fn renew_holds(
        &mut self,
        group: &dyn Group,
        next: u64,
        asked: Option<Vec<Asked>>,
        sizes: ShardSizes<'_>,
    ) -> Result<()> {
        let asked = gather(group, &asked.unwrap_or_default())?.swap_remove(0);
        let holdable = self.find(group)?.holdable();
        let before = self.holds.counting();
        self.holds.answer(asked, &holdable);
        let new = self.holds.new_since(&before);
        new.iter().for_each(|asked| self.holds.set(*asked, HoldAnswer::NoRoom, &holdable));
        // New holds are tried one after another, so that one that needs much room keeps out no other.
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

    /// From now on all roots keep the revisions that are held, or read for other levels.
    pub(super) fn hold_known(&self) {
        self.current_ledgers().for_each(|ledger| self.keep_in(&mut lock(ledger)));
    }

    /// The number of the first revision whose roots lead to all held revisions on every rank; 0 if the newest roots do
    /// already. Collective.
    fn number_with_all_held(&self, group: &dyn Group, next: u64) -> Result<u64> {
        let missing = self.current_ledgers().any(|ledger| lock(ledger).lacks(&self.holds.keys()));
        let mut missing = [u64::from(missing)];
        group.all_max(&mut missing)?;
        Ok(if missing == [0] { 0 } else { next })
    }

    /// On rank 0: tells those who took holds what became of them, if they have not been told. Local; tried again at the
    /// next t1 if it fails.
    pub(super) fn acknowledge(&mut self, epoch: &Epoch) {
        let complete = self.complete.first().map_or(0, |complete| complete.key.number);
        if epoch.group.rank() != 0 || self.holds.acknowledged || complete < self.holds.in_newest_roots_with {
            return;
        }
        let told = self.layouts.iter().map(|layout| tell(layout, epoch.lineage, &self.holds.answers));
        let told: Vec<Result<()>> = told.collect();
        self.holds.acknowledged = told.iter().all(Result::is_ok);
        if let Some(Err(error)) = told.into_iter().find(|told| matches!(told, Err(Error::SyncFailed { .. }))) {
            self.current_ledgers().for_each(|ledger| lock(ledger).doubt(error.clone()));
        }
    }
}

/// Writes the acknowledgement of a file's holds into that file, if it has or had any.
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
    // A failed sync leaves more than the holds in doubt.
    layout.sync_holds().map_err(|e| Error::SyncFailed { path: layout.path.to_string(), cause: e.to_string() })
}
