//! Members: the processes of `mainstay files`. Those with the same job belong together, such as the ranks of a launcher.
//!
//! A job ends here with its last member. Then its incomplete sets never become whole, and the last member gets the lines on
//! the job's files. A member that was killed has ended, too. A program may leave a process behind that has a file open.

use super::{
    processes::Process,
    records::request::Answer,
    records::{
        holders::Pid,
        kernel::{is_dying, program_of},
    },
    state::{Helper, Staged, State, torn_text},
};
use crate::{
    file::Named,
    publish, sets,
    stage::{Id, JOB_VARIABLE},
    writing::drop_writing,
};
use mainstay_engine::printable_path;
use std::{collections::HashSet, fs};

impl Helper {
    pub(super) fn join(&mut self, process: Pid, job: &str) {
        let processes = &self.processes;
        self.members.retain(|pid, _| processes.get(pid).is_some_and(|known| known.is_member));
        // A helper that was started anew does not know the members of the one before.
        let goes_on = self.has_members(job) || (self.knows(job) && is_any_caught_of(job));
        if !goes_on {
            self.rounds.end(job);
            self.lines.orphan(job);
        }
        self.watch(process);
        if let Some(known) = self.processes.get_mut(&process) {
            known.is_member = true;
            self.members.insert(process, job.to_owned());
        }
    }

    /// Ends a member once each file of its job, and of jobs that have ended, is durable or has failed. `has_failed`: its
    /// program has failed.
    pub(super) fn finish(&mut self, process: Pid, job: &str, has_failed: bool) -> Option<Answer> {
        self.notice_all_ended();
        // A copy may fail just before its folder is gone.
        let gone = |(id, staged): (&Id, &Staged)| {
            (staged.state == State::Failed && staged.record.named.check_folder().is_err()).then_some(*id)
        };
        for id in self.staged.iter().filter_map(gone).collect::<Vec<_>>() {
            self.forget(id);
        }
        if self.is_moving(job) || self.waits_for_other_nodes() {
            return None;
        }
        self.members.remove(&process);
        let is_last = !self.has_members(job);
        self.end_jobs();
        if has_failed || is_last {
            self.tell_torn_of(job);
        }
        // A failed member gets the lines at once. Other lines wait for the last member: the file may still be replaced.
        let (failures, remarks) = {
            let (processes, members) = (&self.processes, &self.members);
            let is_living = |of: &str| members.iter().any(|(pid, job)| job == of && is_member(processes.get(pid)));
            self.lines.take(job, has_failed || is_last, is_living)
        };
        self.processes.remove(&process);
        Some(Answer::Finished(failures, remarks))
    }

    /// Lines on files of a job that are torn, and that a process has open still: nobody would hear of them later.
    fn tell_torn_of(&mut self, job: &str) {
        let is_open = |staged: &Staged| matches!(staged.state, State::Filling | State::Open);
        let files = self.staged.iter_mut().filter(|(_, staged)| staged.record.options.job == job);
        for (id, staged) in files.filter(|(_, staged)| staged.is_torn && is_open(staged) && !staged.is_told) {
            staged.is_told = true;
            self.lines.add(*id, &staged.record, torn_text(&staged.record.named), true);
        }
    }

    /// The files that programs of a member have open, a line for each. The program of the member has ended, but it may
    /// have left processes behind. A torn file is not worth a wait.
    pub(super) fn open_of(&mut self, member: &str) -> Vec<String> {
        self.notice_all_ended();
        let is_open = |staged: &&Staged| {
            matches!(staged.state, State::Filling | State::Open)
                && !staged.is_torn
                && staged.record.options.member == member
        };
        let line = |staged: &Staged| {
            let path = printable_path(&staged.record.named.path());
            match staged.holders.processes().next() {
                Some(process) => {
                    let program = program_of(process).map_or(String::new(), |name| format!(" ({name})"));
                    format!("{path} is still open in process {process}{program}")
                }
                None => format!("{path} is still open"),
            }
        };
        self.staged.values().filter(is_open).map(line).collect()
    }

    pub(super) fn has_members(&self, job: &str) -> bool {
        self.members.iter().any(|(pid, of)| of == job && is_member(self.processes.get(pid)))
    }

    /// Whether this helper has members or files of the job.
    pub(super) fn knows(&self, job: &str) -> bool {
        self.has_members(job) || self.staged.values().any(|staged| staged.record.options.job == job)
    }

    /// Whether the end of a member of `job` must wait for files. An empty name stands for all jobs.
    fn is_moving(&self, job: &str) -> bool {
        let is_awaited = |of: &str| job.is_empty() || of == job || !self.has_members(of);
        let is_moving = |staged: &Staged| match staged.state {
            State::Open => staged.holders.is_empty(),
            State::Filling | State::Whole | State::Carrying | State::Torn => true,
            State::Unfilled(_) | State::Ready | State::Failed | State::Elsewhere => false,
        };
        let mut files = self.staged.values();
        files.any(|staged| is_moving(staged) && is_awaited(&staged.record.options.job))
            || self.sets.is_moving(is_awaited)
    }

    /// Ends the job of a file that waits for its set, if all its members have ended: programs must not see the file beside
    /// files of the previous set.
    pub(super) fn end_job_of(&mut self, named: &Named) {
        if self.newest(&named.key).is_some_and(|id| self.staged[&id].state == State::Ready) {
            self.notice_all_ended();
            self.end_jobs();
        }
    }

    /// Gives up the files of ended jobs that still wait for their sets.
    fn end_jobs(&mut self) {
        let waiting = self.staged.values().filter(|staged| matches!(staged.state, State::Ready | State::Elsewhere));
        let jobs: HashSet<String> = waiting.map(|staged| staged.record.options.job.clone()).collect();
        // A new helper does not know the members of the previous helper.
        let ended = jobs.into_iter().filter(|job| !self.has_members(job) && !is_any_caught_of(job));
        for job in ended.collect::<Vec<_>>() {
            self.sets.waiting_of(&job).into_iter().for_each(|id| self.give_up(id));
            self.give_up_elsewhere(&job);
        }
        for (sets, job) in self.rounds.folders() {
            if !self.knows(&job) && !is_any_caught_of(&job) {
                self.rounds.end(&job);
                sets::clear(&sets, &job);
            }
        }
    }

    /// The set of this file will never be whole.
    pub(super) fn give_up(&mut self, id: Id) {
        let Some(staged) = self.staged.get(&id) else { return };
        let named = staged.record.named.clone();
        // Another helper may have completed the set, and given the file its name.
        if publish::has_name(&named, id) {
            return self.carried(id, Ok(()));
        }
        let path = printable_path(&named.path());
        self.tell(id, format!("{path}: its set is not whole; the previous files of the set stay"));
        drop_writing(&named.folder, id);
        self.forget(id);
    }

    /// Adds a line on a staged file, and makes its job fail.
    pub(super) fn tell(&mut self, id: Id, text: String) {
        if let Some(staged) = self.staged.get(&id) {
            self.lines.add(id, &staged.record, text, true);
        }
    }

    /// Adds a line on a staged file. No job fails.
    pub(super) fn remark(&mut self, id: Id, text: String) {
        if let Some(staged) = self.staged.get(&id) {
            self.lines.add(id, &staged.record, text, false);
        }
    }
}

fn is_member(process: Option<&Process>) -> bool {
    process.is_some_and(|known| known.is_member)
}

/// Whether a process runs that a member of the job has started, directly or not.
fn is_any_caught_of(job: &str) -> bool {
    let wanted = format!("{JOB_VARIABLE}={job}");
    let mut processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.any(|process| {
        let pid = process.file_name().to_str().and_then(|pid| pid.parse().ok());
        if pid.is_none_or(is_dying) {
            return false;
        }
        let variables = fs::read(process.path().join("environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    })
}
