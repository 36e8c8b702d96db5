//! The holds of a level, as all ranks know them: the requests, the answers, and the revisions that stay.

use crate::{
    commit::{Complete, RevisionKey},
    error::Result,
    group::{Group, agree, broadcast},
    mutant::{self, Mutant},
    space::{
        LayoutFile,
        format::{Hold, HoldAnswer},
        holds_in,
    },
};
use serde::{Deserialize, Serialize};

/// A hold, as rank 0 sends it to the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) id: [u8; 16],
    key: RevisionKey,
}

/// The holds of a level; the same on all ranks.
#[derive(Debug, Default)]
pub(super) struct Holds {
    pub(super) answers: Vec<(Asked, HoldAnswer)>,
    /// The revisions that stay for the holds, in any layout.
    held: Vec<Complete>,
    /// Once this revision or a later one is complete, all newest roots name the held revisions.
    pub(super) in_newest_roots_with: u64,
    /// On rank 0: the acknowledgement is up to date.
    pub(super) acknowledged: bool,
}

impl Holds {
    /// After a change of lineage, an acknowledgement of the older lineage no longer counts.
    pub(super) fn forget_acknowledgement(&mut self) {
        self.acknowledged = self.answers.is_empty();
    }

    /// Finds the holds of a space during its opening. Holds of `holdable` revisions count. Collective.
    pub(super) fn find(group: &dyn Group, layouts: &[LayoutFile], holdable: &[Complete]) -> Result<Holds> {
        // Unreadable holds are an error: the first root could drop a held revision.
        let newest = layouts.last().map(|layout| layout.header.layout_id);
        let read = || Ok((asked(layouts)?, refused(layouts)?, newest));
        let mine = agree(group, if group.rank() == 0 { read() } else { Ok(Default::default()) })?;
        let (asked, refused, newest) = broadcast(group, 0, &mine)?;
        let mut holds = Holds { acknowledged: asked.is_empty(), ..Holds::default() };
        holds.answer(asked.clone(), holdable);
        // A hold that the previous job refused for want of room stays refused, unless the next revision goes to another
        // layout.
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

    pub(super) fn answer(&mut self, asked: Vec<Asked>, holdable: &[Complete]) {
        let is_there = |asked: &Asked| holdable.iter().any(|there| there.key == asked.key);
        let answer = |asked| (asked, if is_there(&asked) { HoldAnswer::Counts } else { HoldAnswer::Gone });
        self.answers = asked.into_iter().map(answer).collect();
        self.settle(holdable);
    }

    /// The holds that count and are not among `before`.
    pub(super) fn new_since(&self, before: &[Asked]) -> Vec<Asked> {
        self.counting().into_iter().filter(|asked| !before.contains(asked)).collect()
    }

    pub(super) fn set(&mut self, asked: Asked, to: HoldAnswer, holdable: &[Complete]) {
        self.answers.iter_mut().filter(|(other, _)| *other == asked).for_each(|(_, answer)| *answer = to);
        self.settle(holdable);
    }

    fn settle(&mut self, there: &[Complete]) {
        let counts = self.counting();
        let is_held = |there: &&Complete| counts.iter().any(|asked| asked.key == there.key);
        let held = there.iter().filter(is_held).filter(|_| !mutant::is(Mutant::HoldsForgotten));
        self.held = held.copied().collect();
    }

    pub(super) fn counting(&self) -> Vec<Asked> {
        let counts = self.answers.iter().filter(|(_, answer)| *answer == HoldAnswer::Counts);
        counts.map(|(asked, _)| *asked).collect()
    }
}

/// The holds in the files of the `layouts`.
pub(super) fn asked(layouts: &[LayoutFile]) -> Result<Vec<Asked>> {
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
