//! The processes that the helper watches: their reports and their ends.
//!
//! The helper watches a process by a pidfd, as the system may use its number again. If a process ends without a report on
//! its open files, it was killed, and these files are torn.

use super::{
    records::holders::{Origin, Pid},
    records::request::Answer,
    shared::set_progress,
    state::{Helper, Staged, State},
};
use crate::{
    claims::Progress,
    file::Key,
    stage::{Id, Share},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid as RawPid, PidfdFlags, pidfd_open},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub struct Process {
    /// `None`: the process ended before the helper could watch it.
    watched: Option<OwnedFd>,
    /// The exit status that the process has announced.
    pub(super) left: Option<i32>,
    /// Whether it is `mainstay files`.
    pub(super) is_member: bool,
}

impl Process {
    pub(super) fn has_ended(&self) -> bool {
        let Some(watched) = &self.watched else { return true };
        let mut fds = [PollFd::new(watched, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl Helper {
    /// The descriptors of the processes to watch.
    pub fn watched(&self) -> impl Iterator<Item = (Pid, BorrowedFd<'_>)> {
        self.processes.iter().filter_map(|(pid, process)| Some((*pid, process.watched.as_ref()?.as_fd())))
    }

    /// Watches a process, unless the helper does already. Another process may have had the number before.
    pub(super) fn watch(&mut self, process: Pid) {
        if self.processes.get(&process).is_some_and(|known| known.watched.is_some() && known.has_ended()) {
            self.ended(process);
        }
        self.processes.entry(process).or_insert_with(|| {
            let watched = RawPid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            Process { watched, left: None, is_member: false }
        });
    }

    /// Stops watching a process without staged files.
    pub(super) fn unwatch_idle(&mut self, process: Pid) {
        let holds = self.staged.values().any(|staged| staged.holders.has(process));
        if !holds && self.processes.get(&process).is_some_and(|known| !known.is_member) {
            self.processes.remove(&process);
        }
    }

    /// Adds a process that has opened the file.
    pub(super) fn open(&mut self, process: Pid, id: Id) {
        self.watch(process);
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.holders.open(process);
            staged.judged_after = None;
        }
    }

    /// Counts one more descriptor of each file for the process.
    pub(super) fn hold(&mut self, process: Pid, ids: &[Id]) {
        self.watch(process);
        for id in ids {
            if let Some(staged) = self.staged.get_mut(id) {
                staged.holders.hold(process);
                staged.judged_after = None;
            }
        }
        self.unwatch_idle(process);
    }

    /// Adds a process, a fork, that may write the file through a mapping.
    pub(super) fn mapped(&mut self, process: Pid, id: Id) {
        self.watch(process);
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.holders.hold_silently(process, Origin::Forked);
            staged.count_as_changed();
        }
        self.look_at(process, id);
    }

    /// Looks again at a process that may have released the file.
    pub(super) fn look_at(&mut self, process: Pid, id: Id) {
        self.release_silent(process, id, false);
        self.judge(id);
        self.unwatch_idle(process);
    }

    /// Sets the descriptors of the process: `exec` has closed all others.
    pub(super) fn holding(&mut self, process: Pid, ids: &[Id]) {
        self.watch(process);
        for (id, staged) in &mut self.staged {
            let descriptors = ids.iter().filter(|one| *one == id).count() as u32;
            if staged.holders.start(process, descriptors) {
                staged.count_as_changed();
            }
            staged.judged_after = staged.judged_after.filter(|_| descriptors == 0);
        }
        if let Some(known) = self.processes.get_mut(&process) {
            known.left = None;
        }
        self.unwatch_idle(process);
        self.go_on();
    }

    /// Counts one descriptor less. After the last one of the process, checks that the file has room.
    pub(super) fn closed(
        &mut self,
        process: Pid,
        id: Id,
        (was_synced, has_mappings): (bool, bool),
        granted: &mut Option<Id>,
    ) -> Option<Answer> {
        if granted.is_some() {
            return self.durable(id);
        }
        // The file was removed in the meantime.
        let Some(staged) = self.staged.get_mut(&id) else { return Some(Answer::Ok) };
        staged.judged_after = None;
        let was_last = staged.holders.close(process, has_mappings);
        if has_mappings {
            staged.count_as_changed();
        }
        let waits = was_synced && staged.record.options.sync_waits;
        if was_last
            && staged.state == State::Open
            && !staged.is_torn
            && let Err(answer) = self.reserve(id)
        {
            self.unwatch_idle(process);
            return Some(answer);
        }
        self.look_at(process, id);
        if !waits {
            return Some(Answer::Ok);
        }
        *granted = Some(id);
        self.durable(id)
    }

    /// Handles a process that has unmapped a part of the file.
    pub(super) fn unmapped(&mut self, process: Pid, id: Id) {
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.judged_after = None;
        }
        self.look_at(process, id);
    }

    /// Counts one descriptor less of a file that is given up. The last one removes the file.
    pub(super) fn given_up(&mut self, process: Pid, id: Id) {
        let Some(staged) = self.staged.get_mut(&id) else { return };
        staged.holders.close(process, false);
        if staged.state == State::Open && staged.holders.is_empty() {
            self.drop_staged(id);
        }
        self.unwatch_idle(process);
    }

    /// Whether a closed file is durable or has failed.
    fn durable(&self, id: Id) -> Option<Answer> {
        let Some(staged) = self.staged.get(&id) else { return Some(Answer::Ok) };
        match staged.state {
            State::Whole | State::Carrying => None,
            State::Failed => {
                let (error, text) =
                    self.failures.get(&staged.record.named.key).cloned().unwrap_or((libc::EIO, String::new()));
                Some(Answer::Error(error, text))
            }
            _ => Some(Answer::Ok),
        }
    }

    /// Records the exit status of a process. It does not count for files that the process has released before.
    pub(super) fn left(&mut self, process: Pid, status: i32) {
        let silent = |(id, staged): (&Id, &Staged)| staged.holders.is_silent(process).then_some(*id);
        for id in self.staged.iter().filter_map(silent).collect::<Vec<_>>() {
            self.look_at(process, id);
        }
        if let Some(known) = self.processes.get_mut(&process) {
            known.left = Some(status);
        }
    }

    /// Records that `killer` is about to end `process` by a signal.
    pub(super) fn ends(&mut self, killer: Pid, process: Pid) {
        self.staged.values_mut().for_each(|staged| staged.holders.excuse(killer, process));
    }

    /// Handles the end of a process.
    pub fn ended(&mut self, process: Pid) {
        let Some(known) = self.processes.remove(&process) else { return };
        for (id, staged) in &mut self.staged {
            if !staged.holders.may_end(process, known.left) {
                staged.is_torn = true;
                self.stage.mark_torn(*id);
            }
            if staged.holders.drop_process(process) {
                staged.count_as_changed();
                // The other nodes must learn it at once: they may still write.
                if staged.is_torn && staged.record.share != Share::Whole {
                    set_progress(*id, &staged.record, Progress::Torn);
                }
            }
        }
        self.note_holders();
        self.go_on();
    }

    /// Looks for ended holders of a name: the next writer must not join a torn file.
    pub(super) fn notice_ended(&mut self, key: &Key) {
        let ids = self.names.get(key).map_or(&[][..], Vec::as_slice);
        let holders = ids.iter().filter_map(|id| self.staged.get(id)).flat_map(|staged| staged.holders.processes());
        let ended = holders.filter(|pid| self.processes.get(pid).is_some_and(Process::has_ended));
        for process in ended.collect::<Vec<Pid>>() {
            self.ended(process);
        }
    }

    pub(super) fn notice_all_ended(&mut self) {
        let ended = self.processes.iter().filter(|(_, known)| known.has_ended()).map(|(pid, _)| *pid);
        for process in ended.collect::<Vec<Pid>>() {
            self.ended(process);
        }
    }
}
