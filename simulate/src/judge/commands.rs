//! The answers of commands: held revisions stay, and a rollback removes newer revisions for good.

use super::{Judge, Place, Promise, tended::text};
use crate::mark::Mark;

/// A rollback that may still be refused.
pub struct RollingBack {
    to: Mark,
    newest: Mark,
    withdrawn: Vec<Promise>,
}

impl Judge {
    /// A rollback begins to write. From now on newer revisions may be gone.
    pub fn rolling_back(&mut self, to: Mark) -> RollingBack {
        let newest = self.tended.newest;
        let (withdrawn, left) = std::mem::take(&mut self.promises).into_iter().partition(|one| one.mark > to);
        self.promises = left;
        self.tended.void.push((to, newest));
        RollingBack { to, newest, withdrawn }
    }

    /// The rollback was refused: all revisions are still there.
    pub fn stayed(&mut self, RollingBack { to, newest, withdrawn }: RollingBack) {
        self.tended.void.retain(|range| *range != (to, newest));
        self.promises.extend(withdrawn);
    }

    /// The rollback has succeeded. `in_space`: the space itself has the whole revision.
    pub fn rolled_back(&mut self, RollingBack { to, newest, .. }: RollingBack, in_space: bool) {
        self.tended.gone.push((to, newest));
        self.tended.void.push((to, self.tended.newest));
        if in_space {
            self.promise_at(to, Place::Pfs);
        }
    }

    /// A prune begins to write. From now on each place may have only its newest revision.
    pub fn pruned(&mut self) {
        for place in [Place::Memory, Place::Disk, Place::Pfs] {
            let has = |promise: &Promise| promise.copies.get(&place).is_some_and(|count| *count > 0);
            let newest = self.promises.iter().filter(|promise| has(promise)).map(|promise| promise.mark).max();
            for promise in self.promises.iter_mut().filter(|promise| Some(promise.mark) != newest) {
                promise.copies.remove(&place);
            }
        }
    }

    /// A command holds the revision in the space itself.
    pub fn held(&mut self, number: u64, mark: Mark) {
        self.tended.held.insert(number, mark);
    }

    /// A command releases this revision, or all.
    pub fn released(&mut self, number: Option<u64>) {
        self.tended.held.retain(|held, _| number.is_some_and(|number| number != *held));
    }

    /// The revisions that a command can read, by number.
    pub fn all_held(&self) -> Vec<(u64, Mark)> {
        self.tended.held.iter().map(|(number, mark)| (*number, *mark)).collect()
    }

    /// A command has read `found` as the newest revision; `floor` was promised when it began.
    pub fn looked(&self, found: Option<Mark>, floor: Option<Mark>) -> Result<(), String> {
        self.tended.check(found)?;
        if found < floor {
            return Err(format!("{} is the newest after {} was promised", text(found), text(floor)));
        }
        Ok(())
    }
}
