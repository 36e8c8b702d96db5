//! The signals that arrive while a job runs.

use nix::sys::signal::Signal;
use signal_hook::{
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::{Cause, Origin},
};
use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

/// The code cannot wait for a signal and the clock at once. With a time limit, it checks for signals at this interval.
const LOOK: Duration = Duration::from_millis(20);

/// Signals that ask for the end of the job.
const END: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
/// Signals that are passed on; SIGUSR1 asks for a checkpoint if the job accepts requests.
const PASS: [Signal; 4] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTSTP, Signal::SIGCONT];

pub struct Signals(SignalsInfo<WithOrigin>);

/// A signal that arrived.
pub struct Caught {
    pub signal: Signal,
    /// The terminal sends it to all processes in the foreground, so the job has got it already.
    pub from_terminal: bool,
}

impl Signals {
    /// Keeps signals for `wait` from now on. Ignored signals (nohup) stay ignored.
    pub fn catch() -> io::Result<Signals> {
        let ignored = ignored()?;
        let wanted = END.into_iter().chain(PASS).chain([Signal::SIGCHLD]);
        let wanted = wanted.filter(|signal| ignored & (1 << (*signal as u32 - 1)) == 0);
        Ok(Signals(SignalsInfo::new(wanted.map(|signal| signal as i32))?))
    }

    /// Waits for any signal, but no longer than `patience`; the end of a child counts as one.
    pub fn wait(&mut self, patience: Option<Duration>) -> Vec<Caught> {
        let Some(patience) = patience else { return self.0.wait().filter_map(caught).collect() };
        let began = Instant::now();
        loop {
            let pending: Vec<Caught> = self.0.pending().filter_map(caught).collect();
            let left = patience.saturating_sub(began.elapsed());
            if !pending.is_empty() || left.is_zero() {
                return pending;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Was the end requested meanwhile?
    pub fn asked_to_end(&mut self) -> Option<Signal> {
        self.0.pending().filter_map(caught).map(|caught| caught.signal).find(|signal| asks_to_end(*signal))
    }
}

pub fn asks_to_end(signal: Signal) -> bool {
    END.contains(&signal)
}

fn caught(origin: Origin) -> Option<Caught> {
    let signal = Signal::try_from(origin.signal).ok()?;
    Some(Caught { signal, from_terminal: origin.cause == Cause::Kernel })
}

/// The mask of ignored signals.
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    Ok(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}
