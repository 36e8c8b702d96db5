//! Announces the end of the job, even if ranks fail during close.
//!
//! Invariant: if the job goes on after failures, and all ranks have agreed on the end, the end is announced as long as
//! one rank is left.

use super::{ranks::Entered, report::Report, state::SessionState};
use crate::{config::Recovery, group::agree, status};
use std::path::PathBuf;

impl SessionState {
    /// Call it after all ranks have agreed on the end, and after rank 0 has announced it or failed. `memory_goes`: the
    /// files in memory are removed next. Collective if ranks may fail.
    pub(super) fn announce_end(&self, entry: &Entered, memory_goes: bool) {
        if self.program.config.recovery != Recovery::Off && agree(self.epoch.group.with(entry), Ok(())).is_err() {
            self.tell_end_for_lost(memory_goes);
        }
    }

    /// Announces the end if rank 0 and all other ranks before this one have failed.
    pub(super) fn tell_end_for_lost(&self, memory_goes: bool) {
        let (failed, rank) = (self.epoch.group.failed(), self.epoch.group.rank());
        if rank > 0 && (0..rank).all(|rank| failed.contains(&rank)) {
            let mut directories: Vec<PathBuf> =
                self.levels.iter().map(|level| level.location.device.directory().to_path_buf()).collect();
            directories.reverse();
            status::tell_end(&directories, self.epoch.lineage.number, memory_goes);
        }
    }

    /// The report to `mainstay run` about the end of the session. All ranks send it in a job that goes on after
    /// failures; otherwise rank 0 does.
    pub(super) fn ending_report(&mut self) -> Option<Report> {
        let all_tell = self.program.config.recovery != Recovery::Off;
        self.report.take().or_else(|| Report::find(self.origin.path()?).filter(|_| all_tell))
    }
}
