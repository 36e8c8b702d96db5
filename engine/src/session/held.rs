//! Revisions that other processes hold: rank 0 reads the holds at the opening and at each t1, tells the other ranks
//! when something changed, and acknowledges.
//!
//! What must hold: the set of holds is the same on every rank, and changes only while no revision is under way; a held
//! revision stays in every root; no hold is acknowledged before the newest root of every rank leads to the revision:
//! until then the next root overwrites the only one that does, and may tear.

use super::{epoch::Epoch, level::Level, room::Sizes};
use crate::{
    commit::{Complete, RevisionKey},
    error::{Error, Result},
    ground::lock,
    group::{Group, agree, gather},
    space::{
        LayoutFile,
        format::{HOLDS, Hold, HoldAnswer, HoldAnswers, Lineage},
        holds_in,
    },
};
use serde::{Deserialize, Serialize};

/// A hold as rank 0 tells it to the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Asked {
    id: [u8; 16],
    key: RevisionKey,
}

/// What all ranks know of the holds.
#[derive(Debug, Default)]
pub(super) struct Holds {
    answers: Vec<(Asked, HoldAnswer)>,
    /// The revisions that stay for the holds, in whichever layout.
    held: Vec<Complete>,
    /// Once a revision of this number or a higher one is complete, all newest roots lead to the held revisions.
    in_newest_roots_with: u64,
    /// On rank 0: the acknowledgement says what is known now.
    acknowledged: bool,
}

impl Holds {
    /// After a change of lineage an acknowledgement of the older lineage says nothing.
    pub(super) fn forget_acknowledgement(&mut self) {
        self.acknowledged = self.answers.is_empty();
    }

    /// Finds the holds of a space that is being opened; those of `holdable` revisions count. Collective.
    pub(super) fn find(group: &dyn Group, layouts: &[LayoutFile], holdable: &[Complete]) -> Result<Holds> {
        // Holds that cannot be read are an error: the first root could let go of a held revision.
        let newest = layouts.last().map(|layout| layout.header.layout_id);
        let read = || Ok((asked(layouts)?, refused(layouts)?, newest));
        let mine = agree(group, if group.rank() == 0 { read() } else { Ok(Default::default()) })?;
        let (asked, refused, newest) = gather(group, &mine)?.swap_remove(0);
        let mut holds = Holds { acknowledged: asked.is_empty(), ..Holds::default() };
        holds.answer(asked.clone(), holdable);
        // A hold that the job before had no room for still has none, unless the next revision goes to another layout.
        let takes_room =
            |asked: &Asked| holdable.iter().any(|there| there.key == asked.key && Some(there.layout) == newest);
        for asked in asked.into_iter().filter(|asked| refused.contains(&asked.id) && takes_room(asked)) {
            holds.set(asked, HoldAnswer::NoRoom, holdable);
        }
        Ok(holds)
    }

    pub(super) fn keys(&self) -> Vec<RevisionKey> {
        self.held.iter().map(|complete| complete.key).collect()
    }

    pub(super) fn held(&self) -> &[Complete] {
        &self.held
    }

    fn answer(&mut self, asked: Vec<Asked>, holdable: &[Complete]) {
        let is_there = |asked: &Asked| holdable.iter().any(|there| there.key == asked.key);
        let answer = |asked| (asked, if is_there(&asked) { HoldAnswer::Counts } else { HoldAnswer::Gone });
        self.answers = asked.into_iter().map(answer).collect();
        self.settle(holdable);
    }

    /// The holds that count and are not among `before`.
    fn new_since(&self, before: &[Asked]) -> Vec<Asked> {
        self.counting().into_iter().filter(|asked| !before.contains(asked)).collect()
    }

    fn set(&mut self, asked: Asked, to: HoldAnswer, holdable: &[Complete]) {
        self.answers.iter_mut().filter(|(other, _)| *other == asked).for_each(|(_, answer)| *answer = to);
        self.settle(holdable);
    }

    fn settle(&mut self, there: &[Complete]) {
        let counts = self.counting();
        let held = there.iter().filter(|there| counts.iter().any(|asked| asked.key == there.key));
        self.held = held.copied().collect();
    }

    fn counting(&self) -> Vec<Asked> {
        let counts = self.answers.iter().filter(|(_, answer)| *answer == HoldAnswer::Counts);
        counts.map(|(asked, _)| *asked).collect()
    }
}

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
        sizes: Sizes<'_>,
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

fn asked(layouts: &[LayoutFile]) -> Result<Vec<Asked>> {
    let asked = |(id, hold): ([u8; 16], Hold)| Asked { id, key: RevisionKey::new(hold.lineage, hold.number) };
    Ok(holds_in(layouts)?.into_iter().map(asked).collect())
}

/// The ids of the holds that a job refused for want of room.
fn refused(layouts: &[LayoutFile]) -> Result<Vec<[u8; 16]>> {
    let mut refused = Vec::new();
    for layout in layouts {
        let answers = layout.read_holds()?.answers;
        let list = answers.iter().flat_map(|answers| &answers.list);
        refused.extend(list.filter(|(_, answer)| *answer == HoldAnswer::NoRoom).map(|(id, _)| *id));
    }
    Ok(refused)
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
