//! Is a job that has ended really done? A launcher reports the end of any rank, even of a rank that the job has
//! recovered from, and may return 0 for a job that lost a node, or all ranks.

use super::{killed::Killed, placing::Nodes, report::Report, spaces::Openings};
use mainstay_engine::printable_path;
use std::path::PathBuf;

/// The state at the begin of a start, and the reports since.
pub struct Outcome<'a> {
    report: &'a Report,
    mark: u64,
    openings: Openings,
    /// The spaces in the command.
    given: &'a [PathBuf],
}

/// The ranks of a job that goes on when some fail.
pub struct Ranks {
    pub killed: Killed,
    /// Number of started ranks, if known.
    pub started: Option<u32>,
    /// Rank 0 was seen on this machine before it opened a space: it would have reported that.
    pub first_was_here: bool,
}

impl Outcome<'_> {
    pub fn begin<'a>(report: &'a Report, given: &'a [PathBuf]) -> Outcome<'a> {
        Outcome { report, mark: report.mark(), openings: Openings::of(given), given }
    }

    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// True if the job recovered from a failure and ended in order.
    pub fn went_on(&self) -> bool {
        let told = self.report.told_since(self.mark);
        if told.is_known() {
            return told.went_on() && told.left_open().is_none();
        }
        // If rank 0 runs on another machine, the space shows it.
        self.openings.were_closed(self.given)
    }

    /// The reason that a job has failed although its launcher returned 0.
    pub fn not_in_order(&self, nodes: Option<&Nodes>, ranks: Option<&Ranks>) -> Option<String> {
        let told = self.report.told_since(self.mark);
        let left_open = told.left_open().cloned();
        // If rank 0 runs on another machine, it has reported nothing.
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
        Some(format!("{node} no longer answers ({why})"))
    }

    /// True if the killed ranks have ended the job, and it has left no space open.
    fn has_failed_with(&self, ranks: &Ranks) -> bool {
        let Ranks { killed, started, first_was_here } = ranks;
        let told = self.report.told_since(self.mark);
        // If a space was opened anew, spares went on, and no rank is left that knew of the failure.
        let went_on = self.went_on() || !told.untold.is_empty() && told.left_open().is_none();
        if killed.is_empty() || went_on {
            return false;
        }
        if told.is_known() || self.openings.was_any_opened(self.given) {
            // Before a session is open, the job goes on silently. It does not if no rank is left, or after every space
            // is closed.
            return started.is_some_and(|started| killed.are_all_of(started));
        }
        // Rank 0 on another machine would have reported neither a session nor a recovery.
        *first_was_here || killed.has_first() || !self.given.is_empty()
    }
}
