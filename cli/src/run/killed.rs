//! Ranks that were killed by a signal or called MPI_Abort, from the reports of Open MPI's launcher. With fault
//! tolerance on, the launcher goes on without killed ranks, and returns 0 even if none is left. After MPI_Abort it may
//! stay although all ranks have ended.

use mainstay_engine::status::ranks_listed;
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::{fs::FileExt, process::CommandExt},
    },
    process::Command,
};

/// Makes the launcher report each process that did not end in order.
const TELL: (&str, &str) = ("PRTE_MCA_errmgr_base_verbose", "1");
/// Number of the open file for these reports and the launcher's other messages. Its ranks do not get the file.
const WHERE: &str = "PMIX_OUTPUT_STDERR_FD";
/// The number is so high that the launcher uses it for nothing else, even if a program in between has closed the file.
const NUMBER_MIN: RawFd = 230;
const OF_A_PROCESS: &str = " errmgr:dvm: for proc [";
const OF_A_JOB: &str = " errmgr:dvm: job ";
const BY_SIGNAL: &str = "ABORTED BY SIGNAL";
const BY_ABORT: &str = "CALLED ABORT";
/// The job of the command. Processes that the job itself starts are other jobs.
const FIRST: &str = "1";

/// The reports of one start.
pub struct Killed {
    file: File,
    /// The file was read up to here.
    mark: u64,
    /// The ranks of the job as it was started.
    ranks: BTreeSet<u32>,
    has_aborted: bool,
}

impl Killed {
    pub fn new() -> io::Result<Killed> {
        let file = memfd_create(c"mainstay-run-killed", MFdFlags::MFD_CLOEXEC)?;
        let high = fcntl(&file, FcntlArg::F_DUPFD_CLOEXEC(NUMBER_MIN))?;
        Ok(Killed { file: owned(high).into(), mark: 0, ranks: BTreeSet::new(), has_aborted: false })
    }

    /// Makes the launcher that `command` starts report.
    #[allow(unsafe_code)]
    pub fn told_by(&self, command: &mut Command) {
        let number = self.file.as_raw_fd();
        command.env(TELL.0, TELL.1).env(WHERE, number.to_string());
        let in_child = move || {
            // SAFETY: the child has a copy of the file, which stays open until the child becomes another program.
            let file = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
            Ok(())
        };
        // SAFETY: between fork and exec it makes one system call and neither locks nor allocates.
        unsafe { command.pre_exec(in_child) };
    }

    /// Reads new reports, and passes on the launcher's other messages.
    pub fn look(&mut self) {
        let end = self.file.metadata().map_or(self.mark, |file| file.len());
        let mut bytes = vec![0; end.saturating_sub(self.mark) as usize];
        if self.file.read_exact_at(&mut bytes, self.mark).is_err() {
            return;
        }
        // The rest of a line is still to come.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
        self.mark += bytes.len() as u64;
        let others = self.take(&bytes);
        if !others.is_empty() {
            let _ = io::stderr().write_all(&others);
        }
    }

    /// Takes in whole lines, and returns those about something else.
    fn take(&mut self, lines: &[u8]) -> Vec<u8> {
        let mut others = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            if let Some((_, told)) = text.split_once(OF_A_PROCESS) {
                self.ranks.extend(rank_killed(told));
                self.has_aborted |= told.trim_end().ends_with(BY_ABORT);
            } else if !text.contains(OF_A_JOB) {
                others.extend_from_slice(line);
            }
        }
        others
    }

    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// True if a process of the job has called MPI_Abort, which ends all.
    pub fn has_aborted(&self) -> bool {
        self.has_aborted
    }

    pub fn has_first(&self) -> bool {
        self.ranks.contains(&0)
    }

    pub fn are_all_of(&self, ranks: u32) -> bool {
        self.ranks.len() >= ranks as usize
    }

    pub fn told(&self) -> String {
        let ranks: Vec<u32> = self.ranks.iter().copied().collect();
        let were = if ranks.len() == 1 { "was" } else { "were" };
        format!("{} {were} killed by a signal", ranks_listed(&ranks))
    }
}

/// From `prterun-n1-1234@1,2] state ABORTED BY SIGNAL`: 2.
fn rank_killed(told: &str) -> Option<u32> {
    let (name, state) = told.split_once("] state ")?;
    let (job, rank) = name.rsplit_once('@')?.1.split_once(',')?;
    (job == FIRST && state.trim_end() == BY_SIGNAL).then(|| rank.parse().ok()).flatten()
}

#[allow(unsafe_code)]
fn owned(number: RawFd) -> OwnedFd {
    // SAFETY: it was just made, and has no other owner.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranks_that_were_killed_by_a_signal_count() {
        let mut killed = Killed::new().unwrap();
        let of = |name: &str, state: &str| {
            format!("[n1:123] [prterun-n@1-123@0,0] errmgr:dvm: for proc [prterun-n@1-123@{name}] state {state}\n")
        };
        let lines = [
            of("1,11", BY_SIGNAL),
            of("1,2", "EXITED WITH NON-ZERO STATUS"),
            "[n1:123] something failed\n".to_owned(),
            // Of the daemons, and of processes that were started later.
            of("0,3", BY_SIGNAL),
            of("2,0", BY_SIGNAL),
            of("1,3", BY_SIGNAL),
            of("1,3", BY_SIGNAL),
            "[n1:123] [prterun-n1-123@0,0] errmgr:dvm: job [prterun-n1-123@1] reported state ABORTED\n".to_owned(),
        ];
        assert_eq!(killed.take(lines.concat().as_bytes()), b"[n1:123] something failed\n");
        assert_eq!(killed.told(), "ranks 3 and 11 were killed by a signal");
        assert!(!killed.has_first() && killed.are_all_of(2) && !killed.are_all_of(3) && !killed.has_aborted());
        killed.take(of("2,0", BY_ABORT).as_bytes());
        assert!(killed.has_aborted() && !killed.has_first());
    }

    #[test]
    fn what_a_command_tells_is_read_line_by_line() {
        let mut killed = Killed::new().unwrap();
        let mut tell = |text: &str| {
            let mut command = Command::new("sh");
            let script =
                r#"test "$PRTE_MCA_errmgr_base_verbose" = 1 && printf "$0" >> /proc/self/fd/$PMIX_OUTPUT_STDERR_FD"#;
            command.args(["-c", script, text]);
            killed.told_by(&mut command);
            assert!(command.status().unwrap().success());
            killed.look();
            (killed.mark > 0).then(|| killed.told())
        };
        assert_eq!(tell("[n1:1] [p@0,0] errmgr:dvm: for proc [p@1,0] state ABORT"), None);
        assert_eq!(tell("ED BY SIGNAL\\n").as_deref(), Some("rank 0 was killed by a signal"));
    }
}
