//! Silent holders: processes that say no words, as `mainstay files --catch kernel` answers for them.
//!
//! Such a process has closed a file in order if no writer of the file is left while the process runs. If it ends first, its
//! status decides, which the supervisor knows. A process that is killed closes its files some moments before its end is
//! seen, so a process on its way out decides nothing.

use super::{
    holders::{Pid, is_open_to_write, staged_id},
    request::Answer,
    state::{Helper, State},
};
use crate::stage::Id;
use rustix::process::getuid;
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// PF_EXITING of the kernel: the thread is on its way out.
const IS_EXITING: u64 = 4;

impl Helper {
    /// The asker, a supervisor, has given its descriptor of the file to `holder`. Or it has found a child that has one.
    pub(super) fn given(&mut self, asker: Pid, id: Id, holder: Pid) -> Answer {
        if let Some(refused) = self.refused(asker, Some(holder)) {
            return refused;
        }
        let Some(staged) = self.staged.get_mut(&id) else { return Answer::Ok };
        staged.judged_after = None;
        staged.silent.insert(holder);
        staged.holders.drop_process(asker);
        self.watch(holder);
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
        if staged.state == State::Open && staged.holders.is_empty() && staged.silent.is_empty() {
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
            staged.holders.drop_process(asker);
        }
        Answer::Ok
    }

    /// `holder` is in its call of `exit`, and runs on once this is answered.
    pub(super) fn leaves(&mut self, asker: Pid, holder: Pid, status: i32) -> Answer {
        if let Some(refused) = self.refused(asker, Some(holder)) {
            return refused;
        }
        self.go_on();
        if status == 0 {
            self.left(holder);
        }
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

    /// Takes away silent holders that have closed the file, while others have it open. Later they may be killed.
    pub(super) fn release_silent(&mut self, id: Id) {
        let Some(staged) = self.staged.get(&id).filter(|staged| staged.silent.len() > 1) else { return };
        let has_closed = |pid: &Pid| {
            // The order counts here, too.
            !staged_held_by(self.stage.path(), *pid).contains(&id)
                && !maps(*pid, &staged.path)
                && is_running(*pid)
                && self.processes.get(pid).is_some_and(|known| !known.has_ended())
        };
        let closed: Vec<Pid> = staged.silent.iter().copied().filter(has_closed).collect();
        for process in closed {
            if let Some(staged) = self.staged.get_mut(&id) {
                staged.silent.remove(&process);
            }
            self.unwatch_idle(process);
        }
    }

    /// Whether each silent holder has closed the file. `is_closed`: no writer is left.
    pub(super) fn silent_have_closed(&mut self, id: Id, is_closed: bool) -> bool {
        let Some(staged) = self.staged.get_mut(&id).filter(|staged| !staged.silent.is_empty()) else { return true };
        // The order counts: a process that runs after its files were closed did not close them by its end.
        let has_closed = |pid: &Pid| {
            self.processes.get(pid).is_some_and(|known| (known.has_left || is_running(*pid)) && !known.has_ended())
        };
        if !is_closed || !staged.silent.iter().all(has_closed) {
            return false;
        }
        for process in std::mem::take(&mut staged.silent) {
            self.unwatch_idle(process);
        }
        true
    }
}

/// Whether the process can still write the file through a mapping.
fn maps(process: Pid, path: &Path) -> bool {
    let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let path = path.as_os_str().as_bytes();
    maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(path))
}

/// Whether a thread of the process is not on its way out.
fn is_running(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).any(|stat| !is_exiting(&stat))
}

/// Whether the process was killed, or exits: it will not close its files by itself any more.
pub(super) fn is_dying(process: Pid) -> bool {
    const SIGKILL: u64 = 1 << (libc::SIGKILL - 1);
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    let is_killed =
        pending.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & SIGKILL != 0);
    is_killed || !is_running(process)
}

/// The fields come after the name of the program, which may have any character.
fn is_exiting(stat: &str) -> bool {
    let flags = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_none_or(|flags| flags & IS_EXITING != 0)
}

/// The staged files that the process has open to write.
pub fn staged_held_by(stage: &Path, process: Pid) -> Vec<Id> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
        if let Ok(path) = fs::read_link(entry.path())
            && let Some(id) = staged_id(stage, &path)
            && !found.contains(&id)
            && is_open_to_write(process, &entry.file_name().to_string_lossy())
        {
            found.push(id);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_on_its_way_out_is_told_from_one_that_runs() {
        assert!(is_running(std::process::id() as Pid));
        assert!(!is_exiting("7 (a) b) c) R 1 7 7 0 -1 4194560 95 0"));
        assert!(is_exiting("7 (a) b) c) R 1 7 7 0 -1 4194564 95 0"));
        assert!(is_exiting("7"));
    }
}
