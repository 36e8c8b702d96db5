//! The processes of a job, as other processes on their machine see them. A hanging process has failed for the other
//! ranks. They end it before they go on, because it holds locks and must not wake up later. The same holds for a
//! replacement process that comes too late. A surviving process outlives its connections to failed ones.

use super::host_name;
use crate::ground::{Instant, files, sleep};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, getppid},
};
use signal_hook::flag;
use std::{
    fs, process,
    sync::{Arc, Once, atomic::AtomicBool},
    time::Duration,
};
use twox_hash::XxHash3_64;

/// The time that a killed process may take to disappear.
const END_MAX: Duration = Duration::from_secs(10);

/// This very process, and no later one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// The same value where process numbers mean the same: on a machine, or in a container of it.
    pub host: u64,
    pub pid: u64,
    /// The time of its start, in ticks since the machine's start.
    pub start: u64,
}

impl Process {
    pub fn here() -> Process {
        let pid = process::id().into();
        let numbers = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let host = XxHash3_64::oneshot(format!("{} {}", host_name(), numbers.display()).as_bytes());
        Process { host, pid, start: Stat::of(pid).map_or(0, |stat| stat.start) }
    }

    /// From now on, a write into a connection that the other side has closed fails (EPIPE) instead of ending this
    /// process by SIGPIPE: Open MPI writes so to failed ranks. If the program has set its own action for the signal,
    /// that stays.
    pub fn outlive_connections() {
        static ONCE: Once = Once::new();
        // Handled instead of ignored: child processes then begin with the default.
        ONCE.call_once(|| {
            if Signals::of_this_process().leave_to_the_system(Signal::SIGPIPE) {
                // Fails for numbers that are not signals.
                let _ = flag::register(Signal::SIGPIPE as i32, Arc::new(AtomicBool::new(false)));
            }
        });
    }

    /// Ends the processes on this machine with the same parent as this one that have `variable` ("NAME=value") in their
    /// environment, except those in `kept`.
    pub fn end_siblings(variable: &str, kept: &[Process]) {
        Self::end_children(getppid().as_raw(), variable, kept);
    }

    fn end_children(parent: i32, variable: &str, kept: &[Process]) {
        let pids = files::entries("/proc").into_iter().flatten().flatten();
        for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            let Some(stat) = Stat::of(pid).filter(|stat| stat.parent == parent) else { continue };
            let environment = files::kernel_bytes(format!("/proc/{pid}/environ")).unwrap_or_default();
            let found = Process { pid, start: stat.start, ..Process::here() };
            if !kept.contains(&found) && environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()) {
                found.end();
            }
        }
    }

    /// Kills the process if it exists and is on this machine, and waits until it is gone. False: it still exists.
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
            sleep(Duration::from_millis(1));
        }
        true
    }

    fn is_there(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start == self.start)
    }
}

/// Whether a process with this number exists and has not ended.
pub(super) fn is_running(pid: u64) -> bool {
    Stat::of(pid).is_some()
}

/// The system's facts about a process.
struct Stat {
    parent: i32,
    start: u64,
}

impl Stat {
    /// `None`: there is no such process, or it has ended and waits for its parent.
    fn of(pid: u64) -> Option<Stat> {
        let stat = files::kernel_text(format!("/proc/{pid}/stat")).ok()?;
        // The name of the process may contain anything.
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let is_over = matches!(words.next()?, "Z" | "X");
        let parent = words.next()?.parse().ok()?;
        let start = words.nth(17)?.parse().ok()?;
        (!is_over).then_some(Stat { parent, start })
    }
}

/// The process's handling of signals, a bit for each.
struct Signals {
    ignored: u64,
    caught: u64,
}

impl Signals {
    /// Empty if the system does not say.
    fn of_this_process() -> Signals {
        let status = files::kernel_text("/proc/self/status").unwrap_or_default();
        let set = |name| {
            let set = status.lines().find_map(|line| line.strip_prefix(name));
            set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
        };
        Signals { ignored: set("SigIgn:"), caught: set("SigCgt:") }
    }

    fn leave_to_the_system(&self, signal: Signal) -> bool {
        (self.ignored | self.caught) & 1 << (signal as u32 - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeping() -> (Child, Process) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().into();
        (child, Process { pid, start: Stat::of(pid).unwrap().start, ..Process::here() })
    }

    #[test]
    fn a_process_that_is_stopped_is_ended() {
        let (mut child, process) = sleeping();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGSTOP).unwrap();
        assert!(process.end() && Stat::of(process.pid).is_none());
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

    #[test]
    fn it_is_known_whether_a_signal_is_left_to_the_system() {
        let signals = Signals::of_this_process();
        assert!(!signals.leave_to_the_system(Signal::SIGPIPE), "Rust ignores it before main");
        assert!(!signals.leave_to_the_system(Signal::SIGSEGV), "Rust handles it, to report a full stack");
        assert!(signals.leave_to_the_system(Signal::SIGPWR));
    }

    /// A process that starts several, as an MPI daemon does: one of them ends those that came too late.
    #[test]
    fn siblings_that_came_too_late_are_ended() {
        let script = "MARK=a sleep 60 & a=$!; MARK=b sleep 60 & b=$!; MARK=a sleep 60 & kept=$!; echo $a $b $kept; cat";
        let mut parent = Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(parent.stdout.as_mut().unwrap()), &mut line).unwrap();
        let of = |pid: &str| Process {
            pid: pid.parse().unwrap(),
            start: Stat::of(pid.parse().unwrap()).unwrap().start,
            ..Process::here()
        };
        // A process of the shell has its variables once it runs its command.
        for pid in line.split_whitespace() {
            while !fs::read(format!("/proc/{pid}/environ")).unwrap().windows(5).any(|bytes| bytes == b"MARK=") {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        let [late, other, kept] = line.split_whitespace().map(of).collect::<Vec<_>>()[..] else { panic!("{line}") };
        Process::end_children(parent.id() as i32, "MARK=a", &[kept]);
        // A killed process exists until the system has ended it.
        let ends = crate::ground::Instant::now();
        while late.is_there() && ends.elapsed() < std::time::Duration::from_secs(60) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!late.is_there() && other.is_there() && kept.is_there());
        assert!(other.end() && kept.end());
        drop(parent.stdin.take());
        parent.wait().unwrap();
    }
}
