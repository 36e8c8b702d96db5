//! The revisions that commands hold, and those that rollbacks rule out.

use crate::mark::Mark;
use std::collections::BTreeMap;

/// Commands tend a space: they hold, prune and roll back.
#[derive(Debug, Default)]
pub(super) struct Tended {
    /// Revisions that a command can read until they are released, by number.
    pub(super) held: BTreeMap<u64, Mark>,
    /// Marks after the first and up to the second: a rollback may have removed them.
    pub(super) void: Vec<(Mark, Mark)>,
    /// The same, and it has removed them for good.
    pub(super) gone: Vec<(Mark, Mark)>,
    /// The newest mark of all that any program has had.
    pub(super) newest: Mark,
}

fn is_in(range: &(Mark, Mark), mark: Mark) -> bool {
    range.0 < mark && mark <= range.1
}

impl Tended {
    pub(super) fn is_void(&self, mark: Mark) -> bool {
        self.void.iter().any(|range| is_in(range, mark))
    }

    /// Fails if a rollback has removed the mark for good.
    pub(super) fn check(&self, found: Option<Mark>) -> Result<(), String> {
        match found.filter(|mark| self.gone.iter().any(|range| is_in(range, *mark))) {
            Some(_) => Err(format!("{} came back after a rollback to an older one", text(found))),
            None => Ok(()),
        }
    }

    pub(super) fn began(&mut self, mark: Mark) {
        self.newest = self.newest.max(mark);
    }

    /// A byte of the space has changed: a held revision may be damaged.
    pub(super) fn rotted(&mut self) {
        self.held.clear();
    }
}

pub(super) fn text(mark: Option<Mark>) -> String {
    mark.map_or_else(|| "nothing".to_owned(), |mark| format!("step {} of run {}", mark.step, mark.run))
}
