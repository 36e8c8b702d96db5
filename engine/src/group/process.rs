//! The processes of a job, as others on their machine know them: one that hangs has failed in the eyes of the other ranks,
//! and is ended before they go on, because it must not wake up, and holds locks.

use super::host_name;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs, process, thread,
    time::{Duration, Instant},
};
use twox_hash::XxHash3_64;

/// How long a process that was killed may take to be gone.
const END_MAX: Duration = Duration::from_secs(10);

/// This very process, and no other that gets its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// The same where numbers of processes mean the same: a machine, or a container of it.
    pub host: u64,
    pub pid: u64,
    /// When it was started, in ticks since the machine was.
    pub start: u64,
}

impl Process {
    pub fn here() -> Process {
        let pid = process::id().into();
        let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let host = XxHash3_64::oneshot(format!("{} {}", host_name(), numbers.display()).as_bytes());
        Process { host, pid, start: start_of(pid).unwrap_or_default() }
    }

    /// Kills the process if it is there and on this machine, and waits until it is gone. False: it is still there.
    pub fn end(&self) -> bool {
        let is_other = self.pid > 1 && self.pid != u64::from(process::id());
        let Some(pid) = i32::try_from(self.pid).ok().filter(|_| is_other && self.host == Process::here().host) else {
            return true;
        };
        let until = Instant::now() + END_MAX;
        while self.is_there() {
            if kill(Pid::from_raw(pid), Signal::SIGKILL).is_err() || Instant::now() > until {
                return !self.is_there();
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn is_there(&self) -> bool {
        start_of(self.pid).is_some_and(|start| start == self.start)
    }
}

/// `None`: there is no such process, or it has ended and only its parent does not know yet.
fn start_of(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process may have anything in it.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    match words.next()? {
        "Z" | "X" => None,
        _ => words.nth(18)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeping() -> (Child, Process) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().into();
        (child, Process { pid, start: start_of(pid).unwrap(), ..Process::here() })
    }

    #[test]
    fn a_process_that_is_stopped_is_ended() {
        let (mut child, process) = sleeping();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGSTOP).unwrap();
        assert!(process.end() && start_of(process.pid).is_none());
        assert!(!child.wait().unwrap().success());
        assert!(process.end(), "it is gone");
    }

    #[test]
    fn another_process_of_the_same_number_lives() {
        let (mut child, process) = sleeping();
        for other in [
            Process { start: process.start + 1, ..process },
            Process { host: process.host + 1, ..process },
            Process { pid: 0, ..process },
            Process::here(),
        ] {
            assert!(other.end());
        }
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
