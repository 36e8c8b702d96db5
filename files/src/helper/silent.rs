//! Silent holders: processes that send no reports. `mainstay files --catch kernel` answers for them, or they only have a
//! mapping.
//!
//! A silent holder has closed a file in order if it cannot write the file any more, and still runs. If it ends first, its
//! status decides. The kernel closes the files of a killed process before it shows the end, so a process that is exiting
//! decides nothing.

use super::{
    records::holders::{Origin, Pid},
    records::kernel::{is_running, staged_held_by},
    records::request::Answer,
    state::{Helper, State},
};
use crate::stage::Id;
use rustix::process::getuid;
use std::{fs, os::unix::fs::MetadataExt};

impl Helper {
    /// Adds a silent holder. The asker, a supervisor, has given it a descriptor, or has found it as a child with one.
    pub(super) fn given(&mut self, asker: Pid, id: Id, holder: Pid, origin: Origin) -> Answer {
        if let Some(refused) = self.refused(asker, Some(holder)) {
            return refused;
        }
        self.watch(holder);
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.judged_after = None;
            staged.holders.hold_silently(holder, origin);
            staged.count_as_changed();
            staged.holders.drop_process(asker);
        }
        self.unwatch_idle(holder);
        // It was killed before the helper could watch it.
        if self.processes.get(&holder).is_some_and(|known| known.has_ended()) {
            self.ended(holder);
        }
        Answer::Ok
    }

    /// Removes the asker as a holder: no process has got its descriptor.
    pub(super) fn dropped(&mut self, asker: Pid, id: Id) -> Answer {
        if let Some(refused) = self.refused(asker, None) {
            return refused;
        }
        let Some(staged) = self.staged.get_mut(&id) else { return Answer::Ok };
        staged.holders.drop_process(asker);
        // No process has written to it.
        if staged.state == State::Open && staged.holders.is_empty() {
            self.drop_staged(id);
        }
        Answer::Ok
    }

    /// Marks a file as lost: an unknown process may hold it.
    pub(super) fn lost(&mut self, asker: Pid, id: Id) -> Answer {
        if let Some(refused) = self.refused(asker, None) {
            return refused;
        }
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.is_torn = true;
            self.stage.mark_torn(id);
            staged.holders.drop_process(asker);
        }
        Answer::Ok
    }

    /// Handles an exit. `holder` waits in its call until this has its answer.
    pub(super) fn leaves(&mut self, asker: Pid, holder: Pid, status: i32) -> Answer {
        if let Some(refused) = self.refused(asker, Some(holder)) {
            return refused;
        }
        self.left(holder, status);
        Answer::Ok
    }

    fn refused(&self, asker: Pid, holder: Option<Pid>) -> Option<Answer> {
        let is_ours = |pid: Pid| match fs::metadata(format!("/proc/{pid}")) {
            Ok(found) => found.uid() == getuid().as_raw(),
            // The process has ended.
            Err(_) => true,
        };
        let is_member = self.processes.get(&asker).is_some_and(|known| known.is_member);
        (!is_member || !holder.is_none_or(is_ours)).then(|| Answer::Error(libc::EPERM, String::new()))
    }

    /// Removes a silent holder if the kernel shows that it has released the file. A later kill then changes nothing.
    /// `is_closed`: no process can write the file.
    pub(super) fn release_silent(&mut self, process: Pid, id: Id, is_closed: bool) {
        let Some(staged) = self.staged.get_mut(&id).filter(|staged| staged.holders.is_silent(process)) else { return };
        if !is_closed && staged_held_by(self.stage.path(), process).contains(&id) {
            return;
        }
        let Some(known) = self.processes.get(&process).filter(|known| !known.has_ended()) else { return };
        // The order counts: if the process runs after its files are closed, its end has not closed them.
        let exits = is_closed && known.left.is_some() && staged.holders.may_end(process, known.left);
        if exits || is_running(process) {
            staged.holders.drop_process(process);
            self.unwatch_idle(process);
        }
    }
}
