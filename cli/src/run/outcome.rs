//! Whether a job that has ended is done, whatever its launcher says: launchers tell how any rank ended, also one that the job
//! has recovered from, and that all went well of jobs that have lost a node, or all ranks.

use super::{killed::Killed, placing::Nodes, report::Report, spaces::Openings};
use mainstay_engine::printable_path;
use std::path::PathBuf;

/// What was known when a start began, and what it has told since.
pub struct Outcome<'a> {
    report: &'a Report,
    mark: u64,
    openings: Openings,
    /// The spaces that the command was given.
    given: &'a [PathBuf],
}

/// The ranks of a job that goes on when some fail.
pub struct Ranks {
    pub killed: Killed,
    /// How many were started, where it is known.
    pub started: Option<u32>,
    /// Rank 0 was seen on this machine, before it had opened a space: it would have told of that.
    pub first_was_here: bool,
}

impl Outcome<'_> {
    pub fn begin<'a>(report: &'a Report, given: &'a [PathBuf]) -> Outcome<'a> {
        Outcome { report, mark: report.mark(), openings: Openings::of(given), given }
    }

    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Whether the job went on after a failure and ended in order.
    pub fn went_on(&self) -> bool {
        let told = self.report.told_since(self.mark);
        if told.is_known() {
            return told.went_on() && told.left_open().is_none();
        }
        // Where rank 0 runs on another machine, the space says it.
        self.openings.were_closed(self.given)
    }

    /// Why a job whose launcher says that all went well has failed all the same.
    pub fn not_in_order(&self, nodes: Option<&Nodes>, ranks: Option<&Ranks>) -> Option<String> {
        let told = self.report.told_since(self.mark);
        let left_open = told.left_open().cloned();
        // Where rank 0 runs on another machine, it has told nothing.
        let left_open = if told.is_known() { left_open } else { self.openings.left_open(self.given) };
        if let Some(space) = left_open {
            return Some(format!("the job never closed {}", printable_path(&space)));
        }
        if let Some(ranks) = ranks.filter(|ranks| self.has_failed_with(ranks)) {
            return Some(ranks.killed.told());
        }
        if told.is_known() {
            return None;
        }
        let (node, why) = nodes?.silent()?;
        Some(format!("{node} does not answer any more ({why})"))
    }

    /// Whether the ranks that were killed have taken the job with them, which has left no space open.
    fn has_failed_with(&self, ranks: &Ranks) -> bool {
        let Ranks { killed, started, first_was_here } = ranks;
        let told = self.report.told_since(self.mark);
        // Where a space was opened anew, spares went on, and nobody is left who knew why.
        let went_on = self.went_on() || !told.untold.is_empty() && told.left_open().is_none();
        if killed.is_empty() || went_on {
            return false;
        }
        if told.is_known() || self.openings.was_any_opened(self.given) {
            // Before a session is open, it goes on without a word. It does not where none is left, as after all is closed.
            return started.is_some_and(|started| killed.are_all_of(started));
        }
        // Rank 0 on another machine would have told nothing of a session, nor of a recovery.
        *first_was_here || killed.has_first() || !self.given.is_empty()
    }
}
