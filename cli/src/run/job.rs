//! One run of the job, from its start to its end.

use super::{
    killed::Killed,
    kills::Killing,
    last::LastCheckpoint,
    launcher::Words,
    report::{Recoveries, Report},
    starting::Starting,
    tree,
    watch::{Watch, Watching},
};
use crate::{
    exit::say,
    signals::{Signals, asks_to_end},
};
use mainstay_engine::{printable_path, unix_ns};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, getpid, getppid},
};
use std::{
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

/// Interval of checks on a requested checkpoint.
const POLL: Duration = Duration::from_millis(50);
/// Interval of checks for a recovery of the job, and for a lost node.
const LOOK: Duration = Duration::from_millis(200);
/// Interval of checks for the next kill of a rehearsal.
const KILL_LOOK: Duration = Duration::from_millis(2);
/// How long a launcher may take to end its job after the loss of a node or an MPI_Abort, before it is killed.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How long a job may take to end after the second request, before it is killed.
const END_AT_ONCE_LIMIT: Duration = Duration::from_secs(5);

pub struct Ended {
    pub status: ExitStatus,
    /// The last signal that asked for the job's end.
    pub asked: Option<Signal>,
    /// The reason that `run` ended the job, if no signal asked for it.
    pub lost: Option<&'static str>,
    /// Rank 0 was seen on this machine before it opened a space: it would have reported that.
    pub first_was_here: bool,
}

/// The job could not even be started or followed.
pub struct NotRun {
    pub code: u8,
    pub message: String,
}

/// Limits of one run of the job.
pub struct Limits<'a> {
    /// The spaces of the job, as far as they are known now.
    pub spaces: &'a dyn Fn() -> Vec<PathBuf>,
    /// Time when the job is asked to end.
    pub end: Option<Instant>,
    /// Longest time for its last checkpoint.
    pub grace: Duration,
    /// The nodes to check.
    pub watch: Option<Watch>,
    pub recoveries: Recoveries<'a>,
    /// For a job that goes on when ranks fail.
    pub killed: Option<&'a mut Killed>,
    /// Working directory of the job, if not this one.
    pub directory: Option<&'a Path>,
    /// Moments when a rehearsal kills the job.
    pub killing: Option<&'a mut Killing>,
}

/// Runs the command of `words`; `fresh`: it may replace saved revisions.
pub fn run(
    words: &Words,
    fresh: bool,
    report: &Report,
    signals: &mut Signals,
    limits: Limits<'_>,
) -> Result<Ended, NotRun> {
    let (program, arguments) = words.command.split_first().unwrap_or_else(|| unreachable!("clap asks for a command"));
    let mut command = Command::new(program);
    let variables = words.variables.iter().map(|(name, value)| (name, value));
    command.args(arguments).envs(variables).env(Report::VARIABLE, report.path());
    // Files of a killed start and of the next one must not mix.
    command.env("MAINSTAY_RUN_STARTED", unix_ns().to_string());
    if fresh {
        command.env("MAINSTAY_START", "fresh");
    }
    if let Some(killed) = &limits.killed {
        killed.told_by(&mut command);
    }
    if let Some(directory) = limits.directory {
        command.current_dir(directory);
    }
    end_with_us(&mut command);
    let mut child = command.spawn().map_err(|e| NotRun {
        code: if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
        message: format!("{} cannot be started: {e}; check the name and PATH", printable_path(Path::new(program))),
    })?;
    follow(&mut child, report, signals, limits)
        .map_err(|e| NotRun { code: 4, message: format!("waiting for the job failed: {e}") })
}

fn follow(child: &mut Child, report: &Report, signals: &mut Signals, limits: Limits<'_>) -> io::Result<Ended> {
    let job = Pid::from_raw(child.id() as i32);
    // The number belongs to the job until `try_wait` has seen its end.
    let pass_on = |signal| {
        let _ = kill(job, signal);
    };
    let mut asked = None;
    // True if a signal asked for the end, not only the time limit.
    let mut was_signalled = false;
    // The signal to send after a last checkpoint, and the checkpoint.
    let mut last: Option<(Option<Signal>, LastCheckpoint)> = None;
    let mut end = limits.end;
    let watching = limits.watch.map(Watching::begin);
    let mut recoveries = limits.recoveries;
    // Time to kill a launcher that must end.
    let mut kill_at: Option<Instant> = None;
    let mut has_aborted = false;
    let mut lost = None;
    let mut killed = limits.killed;
    let mut starting = killed.is_some().then(Starting::default);
    let mut first_was_here = false;
    let mut killing = limits.killing;
    let look = if killing.is_some() { KILL_LOOK } else { LOOK };
    loop {
        let until_end = end.map(|end| end.saturating_duration_since(Instant::now()));
        let patience = match &last {
            Some(_) => Some(POLL),
            None => Some(until_end.map_or(look, |left| left.min(look))),
        };
        for caught in signals.wait(patience) {
            let signal = caught.signal;
            // A checkpoint that is under way at the time limit also serves a first signal.
            let is_under_way = !was_signalled && matches!(last, Some((Some(_), _)));
            let first = asked.is_none() || is_under_way;
            if asks_to_end(signal) {
                (asked, was_signalled) = (Some(signal), true);
                if !first {
                    kill_at.get_or_insert_with(|| Instant::now() + END_AT_ONCE_LIMIT);
                }
            }
            let begun = match signal {
                Signal::SIGCHLD => continue,
                Signal::SIGTERM if is_under_way => continue,
                // At the second request the job ends at once, or is killed.
                Signal::SIGTERM if first => {
                    LastCheckpoint::ask(&(limits.spaces)(), signal.as_str(), true, limits.grace)
                }
                // The checkpoint that is under way serves this signal: passed on, the signal would end the job.
                Signal::SIGUSR1 if last.is_some() => continue,
                Signal::SIGUSR1 => LastCheckpoint::ask(&(limits.spaces)(), signal.as_str(), false, limits.grace),
                _ => None,
            };
            if let Some(begun) = begun {
                last = Some(((signal == Signal::SIGTERM).then_some(signal), begun));
            } else if !caught.from_terminal {
                pass_on(signal);
            }
            if signal == Signal::SIGTSTP {
                signal_hook::low_level::emulate_default_handler(signal as i32)?;
            }
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            end = None;
            if asked.is_some() {
                // The job is ending.
                continue;
            }
            asked = Some(Signal::SIGTERM);
            match LastCheckpoint::ask(&(limits.spaces)(), "the time limit is near", true, limits.grace) {
                Some(begun) => last = Some((Some(Signal::SIGTERM), begun)),
                None => {
                    say("the time limit is near: asking the job to end");
                    pass_on(Signal::SIGTERM);
                }
            }
        }
        if let Some((signal, checkpoint)) = &mut last
            && checkpoint.is_over()
        {
            signal.iter().for_each(|signal| pass_on(*signal));
            last = None;
        }
        let ended = child.try_wait()?;
        // All its reports are there once it has ended.
        recoveries.news().for_each(|recovery| say(&recovery.summary()));
        killed.iter_mut().for_each(|killed| killed.look());
        if let Some(status) = ended {
            last.into_iter().for_each(|(_, checkpoint)| checkpoint.end());
            return Ok(Ended { status, asked, lost, first_was_here });
        }
        if killing.as_mut().is_some_and(|killing| killing.is_due(report)) {
            tree::end(job);
        }
        if let Some((node, why)) = watching.as_ref().and_then(Watching::lost) {
            say(&format!("{node} no longer answers ({why}): ending the job"));
            (lost, kill_at) = (Some("a node was lost"), Some(Instant::now() + END_LIMIT));
            pass_on(Signal::SIGTERM);
        }
        if !has_aborted && killed.as_ref().is_some_and(|killed| killed.has_aborted()) {
            // MPI_Abort ends all ranks; but with fault tolerance on, Open MPI's launcher may wait for ever.
            has_aborted = true;
            kill_at.get_or_insert_with(|| Instant::now() + END_LIMIT);
        }
        if recoveries.has_told() {
            starting = None;
        }
        let hangs = starting.as_mut().is_some_and(|starting| starting.hangs(job));
        first_was_here |= starting.as_ref().is_some_and(Starting::has_seen_first);
        if hangs {
            say("a rank ended while the job started, and the others wait for it: ending the job");
            starting = None;
            (lost, kill_at) = (Some("a rank ended while it started"), Some(Instant::now() + END_LIMIT));
            pass_on(Signal::SIGTERM);
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            say("the launcher does not end: killing it, with all processes that it started here");
            kill_at = None;
            tree::end(job);
        }
    }
}

/// If this process is killed outright, the job gets SIGTERM: no other process would end it.
#[allow(unsafe_code)]
fn end_with_us(command: &mut Command) {
    let us = getpid();
    let in_child = move || {
        prctl::set_pdeathsig(Signal::SIGTERM)?;
        // We may have died before it was set.
        if getppid() == us { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls and neither locks nor allocates.
    unsafe { command.pre_exec(in_child) };
}

/// As a shell gives it.
pub fn code(status: ExitStatus) -> u8 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
