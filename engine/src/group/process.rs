//! The processes of a job, as others on their machine know them: one that hangs has failed in the eyes of the other ranks,
//! and is ended before they go on, because it must not wake up, and holds locks. So is one that was started to take the
//! place of another, and came too late. One that is left outlives its connections to those that have failed.

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
        Process { host, pid, start: Stat::of(pid).map_or(0, |stat| stat.start) }
    }

    /// From now on a write into a connection that the other side has closed fails (EPIPE), and does not end this process by
    /// SIGPIPE: Open MPI writes so to ranks that have failed. A program that has said itself what the signal does is heeded.
    pub fn outlive_connections() {
        static ONCE: Once = Once::new();
        // Handled and not ignored: what this process starts begins as ever.
        ONCE.call_once(|| {
            if Signals::of_this_process().leave_to_the_system(Signal::SIGPIPE) {
                // Fails for numbers that are no signal's.
                let _ = flag::register(Signal::SIGPIPE as i32, Arc::new(AtomicBool::new(false)));
            }
        });
    }

    /// Ends the processes on this machine that were started by who started this one, and have `variable` ("NAME=value") in
    /// their environment, but for those in `kept`.
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
            sleep(Duration::from_millis(1));
        }
        true
    }

    fn is_there(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start == self.start)
    }
}

/// Whether there is a process of this number, which has not ended.
pub(super) fn is_running(pid: u64) -> bool {
    Stat::of(pid).is_some()
}

/// What the system tells of a process.
struct Stat {
    parent: i32,
    start: u64,
}

impl Stat {
    /// `None`: there is no such process, or it has ended and only its parent does not know yet.
    fn of(pid: u64) -> Option<Stat> {
        let stat = files::kernel_text(format!("/proc/{pid}/stat")).ok()?;
        // The name of the process may have anything in it.
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let is_over = matches!(words.next()?, "Z" | "X");
        let parent = words.next()?.parse().ok()?;
        let start = words.nth(17)?.parse().ok()?;
        (!is_over).then_some(Stat { parent, start })
    }
}

/// What a process does at signals, a bit for each.
struct Signals {
    ignored: u64,
    caught: u64,
}

impl Signals {
    /// None at all, where the system does not tell.
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
        assert!(!signals.leave_to_the_system(Signal::SIGSEGV), "Rust handles it, to tell when a stack is full");
        assert!(signals.leave_to_the_system(Signal::SIGPWR));
    }

    /// A process that starts several, as the daemon of an MPI does: one of them ends those that came too late.
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
        // A process of the shell has its variables once it has become what it runs.
        for pid in line.split_whitespace() {
            while !fs::read(format!("/proc/{pid}/environ")).unwrap().windows(5).any(|bytes| bytes == b"MARK=") {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        let [late, other, kept] = line.split_whitespace().map(of).collect::<Vec<_>>()[..] else { panic!("{line}") };
        Process::end_children(parent.id() as i32, "MARK=a", &[kept]);
        // Who was killed is there until the system has ended it.
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
