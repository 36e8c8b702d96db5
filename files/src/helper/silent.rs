//! Silent holders: a process that says no words, as `mainstay files --catch kernel` answers for it, or that has a mapping
//! alone.
//!
//! Such a process has closed a file in order if it cannot write the file any more while it runs. If it ends first, its
//! status decides. A process that is killed closes its files some moments before its end is seen, so a process on its way
//! out decides nothing.

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
    /// The asker, a supervisor, has given its descriptor of the file to `holder`. Or it has found a child that has one.
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
        // It was killed before it could be watched.
        if self.processes.get(&holder).is_some_and(|known| known.has_ended()) {
            self.ended(holder);
        }
        Answer::Ok
    }

    /// The asker could not give its descriptor to anybody.
    pub(super) fn dropped(&mut self, asker: Pid, id: Id) -> Answer {
        if let Some(refused) = self.refused(asker, None) {
            return refused;
        }
        let Some(staged) = self.staged.get_mut(&id) else { return Answer::Ok };
        staged.holders.drop_process(asker);
        // Nobody has written to it.
        if staged.state == State::Open && staged.holders.is_empty() {
            self.drop_staged(id);
        }
        Answer::Ok
    }

    /// A process that nobody knows may hold the file.
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

    /// `holder` is in its call of `exit`, and runs on once this is answered.
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
            // It has ended.
            Err(_) => true,
        };
        let is_member = self.processes.get(&asker).is_some_and(|known| known.is_member);
        (!is_member || !holder.is_none_or(is_ours)).then(|| Answer::Error(libc::EPERM, String::new()))
    }

    /// Takes away a silent holder that has let go of the file, as the kernel shows. Later it may be killed. `is_closed`: no
    /// process can write the file.
    pub(super) fn release_silent(&mut self, process: Pid, id: Id, is_closed: bool) {
        let Some(staged) = self.staged.get_mut(&id).filter(|staged| staged.holders.is_silent(process)) else { return };
        if !is_closed && staged_held_by(self.stage.path(), process).contains(&id) {
            return;
        }
        let Some(known) = self.processes.get(&process).filter(|known| !known.has_ended()) else { return };
        // The order counts: a process that runs after its files were closed did not close them by its end.
        let exits = is_closed && known.left.is_some() && staged.holders.may_end(process, known.left);
        if exits || is_running(process) {
            staged.holders.drop_process(process);
            self.unwatch_idle(process);
        }
    }
}
