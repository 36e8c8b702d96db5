//! The processes that hold staged files, and their ends.
//!
//! A process is watched by a descriptor of its own (pidfd), so its number may be used again. Its end without a word about
//! its open files is a kill: these files are torn.

use super::{
    request::Answer,
    shared::set_progress,
    state::{Helper, Staged, State},
};
use crate::{
    claims::Progress,
    file::Key,
    stage::{Id, Share},
    writing::drop_writing,
};
use mainstay_engine::printable_path;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid as RawPid, PidfdFlags, pidfd_open},
};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

pub type Pid = i32;

/// In the name of the preload library.
const LIBRARY: &[u8] = b"/libmainstay_files.so";
const STAGE: &[u8] = b"MAINSTAY_FILES_STAGE=";

/// Number of descriptors of a staged file, by process.
#[derive(Debug, Clone, Default)]
pub struct Holders(BTreeMap<Pid, u32>);

impl Holders {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn processes(&self) -> impl Iterator<Item = Pid> {
        self.0.keys().copied()
    }

    pub(super) fn has(&self, process: Pid) -> bool {
        self.0.contains_key(&process)
    }

    fn add(&mut self, process: Pid) {
        *self.0.entry(process).or_default() += 1;
    }

    /// Whether this was the last descriptor of the process.
    pub(super) fn take(&mut self, process: Pid) -> bool {
        let left = self.0.get_mut(&process).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            self.0.remove(&process);
        }
        left.is_none_or(|left| left == 0)
    }

    pub(super) fn drop_process(&mut self, process: Pid) -> bool {
        self.0.remove(&process).is_some()
    }
}

#[derive(Debug)]
pub struct Process {
    /// `None`: the process had ended before it could be watched.
    watched: Option<OwnedFd>,
    /// It said that it exits in order.
    pub(super) has_left: bool,
    /// It is `mainstay files`.
    pub(super) is_member: bool,
}

impl Process {
    pub(super) fn has_ended(&self) -> bool {
        let Some(watched) = &self.watched else { return true };
        let mut fds = [PollFd::new(watched, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

pub fn watched(processes: &HashMap<Pid, Process>) -> impl Iterator<Item = (Pid, BorrowedFd<'_>)> {
    processes.iter().filter_map(|(pid, process)| Some((*pid, process.watched.as_ref()?.as_fd())))
}

/// A number that tells the IDs of nodes apart.
pub fn random_node() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as u16
}

/// The processes of this user that have staged files open to write, from /proc. Only a new helper asks.
pub fn found(stage: &Path) -> HashMap<Id, Holders> {
    let mut found: HashMap<Id, Holders> = HashMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<Pid>().ok()) {
        if process == std::process::id() as Pid {
            continue;
        }
        for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            let Ok(path) = fs::read_link(entry.path()) else { continue };
            if is_open_to_write(process, &entry.file_name().to_string_lossy())
                && let Some(id) = staged_id(stage, &path)
            {
                found.entry(id).or_default().add(process);
            }
        }
    }
    found
}

/// Whether a process with this stage has the preload library, or a supervisor that speaks for it. One that this user may not look at has another helper.
pub fn is_any_caught(stage: &Path) -> bool {
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|one| one == part);
    let supervised = [crate::stage::CATCH_VARIABLE.as_bytes(), b"=", stage.as_os_str().as_bytes()].concat();
    let mut processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.any(|process| {
        let read = |file| fs::read(process.path().join(file)).unwrap_or_default();
        let variables = read("environ");
        let is_elsewhere = has(&variables, STAGE) && !has(&variables, stage.as_os_str().as_bytes());
        has(&variables, &supervised) || (!is_elsewhere && has(&read("maps"), LIBRARY))
    })
}

/// The ID in the path of a staged file.
pub(super) fn staged_id(stage: &Path, path: &Path) -> Option<Id> {
    let is_staged = path.starts_with(stage.join("files")) || path.parent()?.ends_with(".mainstay/writing");
    is_staged.then(|| Id::from_text(path.file_name()?.to_str()?)).flatten()
}

pub(super) fn is_open_to_write(process: Pid, descriptor: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

impl Helper {
    /// Watches a process, unless it is watched already. The number may have belonged to another one before.
    pub(super) fn watch(&mut self, process: Pid) {
        if self.processes.get(&process).is_some_and(|known| known.watched.is_some() && known.has_ended()) {
            self.ended(process);
        }
        self.processes.entry(process).or_insert_with(|| {
            let watched = RawPid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            Process { watched, has_left: false, is_member: false }
        });
    }

    pub(super) fn hold(&mut self, process: Pid, id: Id) {
        if let Some(staged) = self.staged.get_mut(&id) {
            staged.holders.add(process);
            staged.judged_after = None;
            self.watch(process);
        }
    }

    /// The process has exactly these descriptors now: `exec` has closed the others.
    pub(super) fn holding(&mut self, process: Pid, ids: &[Id]) {
        self.staged.values_mut().for_each(|staged| {
            staged.holders.drop_process(process);
        });
        ids.iter().for_each(|id| self.hold(process, *id));
        if let Some(known) = self.processes.get_mut(&process) {
            known.has_left = false;
        }
        self.unwatch_idle(process);
        self.go_on();
    }

    /// Takes back one descriptor. Finds out if the file has room, once the process has none left.
    pub(super) fn closed(
        &mut self,
        process: Pid,
        id: Id,
        was_synced: bool,
        granted: &mut Option<Id>,
    ) -> Option<Answer> {
        if granted.is_some() {
            return self.durable(id);
        }
        // It was removed meanwhile.
        let Some(staged) = self.staged.get_mut(&id) else { return Some(Answer::Ok) };
        staged.judged_after = None;
        let was_last = staged.holders.take(process);
        let waits = was_synced && staged.record.options.sync_waits;
        if was_last
            && staged.state == State::Open
            && !staged.is_torn
            && let Err(answer) = self.reserve(id)
        {
            self.unwatch_idle(process);
            return Some(answer);
        }
        self.judge(id);
        self.unwatch_idle(process);
        if !waits {
            return Some(Answer::Ok);
        }
        *granted = Some(id);
        self.durable(id)
    }

    /// Takes back one descriptor of a file that nobody will complete. The last one takes the file along.
    pub(super) fn given_up(&mut self, process: Pid, id: Id) {
        let Some(staged) = self.staged.get_mut(&id) else { return };
        staged.holders.take(process);
        if staged.state == State::Open && staged.holders.is_empty() {
            self.drop_staged(id);
        }
        self.unwatch_idle(process);
    }

    /// Whether a file that was closed is durable, or has failed.
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

    pub(super) fn left(&mut self, process: Pid) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.has_left = true;
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: Pid) {
        let Some(known) = self.processes.remove(&process) else { return };
        for (id, staged) in &mut self.staged {
            if staged.holders.drop_process(process) | staged.silent.remove(&process) {
                staged.is_torn |= !known.has_left;
                // The other nodes must know at once: they may still write.
                if staged.is_torn && staged.record.share != Share::Whole {
                    set_progress(*id, &staged.record, Progress::Torn);
                }
            }
        }
        self.go_on();
    }

    /// Notices the end of each holder of a name at once. The next writer must not join a file that is torn.
    pub(super) fn notice_ended(&mut self, key: &Key) {
        let ids = self.names.get(key).map_or(&[][..], Vec::as_slice);
        let holders = ids.iter().filter_map(|id| self.staged.get(id)).flat_map(|staged| staged.holders.processes());
        let ended = holders.filter(|pid| self.processes.get(pid).is_some_and(Process::has_ended));
        for process in ended.collect::<Vec<Pid>>() {
            self.ended(process);
        }
    }

    pub(super) fn join(&mut self, process: Pid) {
        if !self.processes.values().any(|known| known.is_member) {
            self.rounds.end_all();
            // The job before was killed. Its torn files fail no other job.
            self.remarks.append(&mut self.told);
        }
        self.watch(process);
        if let Some(known) = self.processes.get_mut(&process) {
            known.is_member = true;
        }
    }

    /// All that has ended so far is durable, or has failed. Then `mainstay files` may end.
    pub(super) fn finish(&mut self, process: Pid) -> Option<Answer> {
        let ended: Vec<Pid> =
            self.processes.iter().filter(|(_, known)| known.has_ended()).map(|(pid, _)| *pid).collect();
        ended.into_iter().for_each(|pid| self.ended(pid));
        // A copy may fail just before its folder is gone.
        let gone = |(id, staged): (&Id, &Staged)| {
            (staged.state == State::Failed && staged.record.named.check_folder().is_err()).then_some(*id)
        };
        for id in self.staged.iter().filter_map(gone).collect::<Vec<_>>() {
            self.forget(id);
        }
        let is_moving = self.staged.values().any(|staged| match staged.state {
            State::Open => staged.holders.is_empty() && staged.silent.is_empty(),
            State::Filling | State::Whole | State::Carrying | State::Torn => true,
            State::Unfilled(_) | State::Ready | State::Failed | State::Elsewhere => false,
        });
        if is_moving || self.sets.is_moving() {
            return None;
        }
        if self.waits_for_other_nodes() {
            return None;
        }
        let is_last = self.processes.iter().all(|(pid, known)| *pid == process || !known.is_member);
        // A helper that was started anew does not know the members of the one before.
        if is_last && !is_any_caught(self.stage.path()) {
            self.rounds.end_all();
            self.sets.all_waiting().into_iter().for_each(|id| self.give_up(id));
            self.give_up_elsewhere();
        }
        let (told, remarks) = (std::mem::take(&mut self.told), std::mem::take(&mut self.remarks));
        self.processes.remove(&process);
        Some(Answer::Finished(told, remarks))
    }

    /// A process without staged files need not be watched.
    pub(super) fn unwatch_idle(&mut self, process: Pid) {
        let holds = self.staged.values().any(|staged| staged.holders.has(process) || staged.silent.contains(&process));
        if !holds && self.processes.get(&process).is_some_and(|known| !known.is_member) {
            self.processes.remove(&process);
        }
    }

    /// The set of this file will never be whole.
    pub(super) fn give_up(&mut self, id: Id) {
        let Some(staged) = self.staged.get(&id) else { return };
        let named = staged.record.named.clone();
        let path = printable_path(&named.path());
        self.told.push(format!("{path}: its set is not whole, so the files of the set before stay"));
        drop_writing(&named.folder, id);
        self.forget(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_staged_file_gives_its_id() {
        let stage = Path::new("/dev/shm/stage");
        let id = Id::after(None, 1);
        assert_eq!(staged_id(stage, &stage.join("files").join(id.to_string())), Some(id));
        assert_eq!(staged_id(stage, &Path::new("/a/.mainstay/writing").join(id.to_string())), Some(id));
        assert_eq!(staged_id(stage, &Path::new("/a/writing").join(id.to_string())), None);
    }
}
