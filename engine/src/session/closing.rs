//! That a job has ended is told, whichever of its ranks fail meanwhile.
//!
//! What must hold: where all ranks have agreed on the end, a job that goes on when ranks fail is told to have ended as long as
//! one of its ranks is left.

use super::{inner::Inner, ranks::Entered, report::Report};
use crate::{config::Recovery, group::agree, status};
use std::path::PathBuf;

impl Inner {
    /// All ranks have agreed on the end, and rank 0 has told of it, or has failed before. `memory_goes`: what lies in memory
    /// is removed next. Collective where ranks may fail.
    pub(super) fn end_is_told(&self, entry: &Entered, memory_goes: bool) {
        if self.program.config.recovery != Recovery::Off && agree(self.epoch.group.with(entry), Ok(())).is_err() {
            self.tell_end_for_lost(memory_goes);
        }
    }

    /// Tells that the job has ended if rank 0 has failed, and with it all ranks before this one.
    pub(super) fn tell_end_for_lost(&self, memory_goes: bool) {
        let (failed, rank) = (self.epoch.group.failed(), self.epoch.group.rank());
        if rank > 0 && (0..rank).all(|rank| failed.contains(&rank)) {
            let mut directories: Vec<PathBuf> = self.levels.iter().map(|level| level.device.directory()).collect();
            directories.reverse();
            status::tell_end(&directories, self.epoch.lineage.number, memory_goes);
        }
    }

    /// Who tells `mainstay run` how the session ends: of a job that goes on when ranks fail, all of them.
    pub(super) fn ending_report(&mut self) -> Option<Report> {
        let all_tell = self.program.config.recovery != Recovery::Off;
        self.report.take().or_else(|| Report::find(self.whence.path()?).filter(|_| all_tell))
    }
}
