//! One run of the job, from its start to its end.

use super::{
    signals::{Signals, asks_to_end},
    spaces::Report,
};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, getpid, getppid},
};
use std::{
    ffi::OsString,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus},
};

pub struct Ended {
    pub status: ExitStatus,
    /// The last signal that asked for the job's end.
    pub asked: Option<Signal>,
}

/// The job could not even be started, or not be followed.
pub struct NotRun {
    pub code: u8,
    pub message: String,
}

pub fn run(command: &[OsString], report: &Report, signals: &mut Signals) -> Result<Ended, NotRun> {
    let (program, arguments) = command.split_first().unwrap_or_else(|| unreachable!("clap asks for a command"));
    let mut command = Command::new(program);
    command.args(arguments).env(Report::VARIABLE, report.path());
    end_with_us(&mut command);
    let mut child = command.spawn().map_err(|e| NotRun {
        code: if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
        message: format!("{} cannot be started: {e}; check the name and PATH", program.display()),
    })?;
    follow(&mut child, signals).map_err(|e| NotRun { code: 4, message: format!("waiting for the job failed: {e}") })
}

fn follow(child: &mut Child, signals: &mut Signals) -> io::Result<Ended> {
    let job = Pid::from_raw(child.id() as i32);
    let mut asked = None;
    loop {
        for caught in signals.wait() {
            let signal = caught.signal;
            if asks_to_end(signal) {
                asked = Some(signal);
            }
            if signal != Signal::SIGCHLD && !caught.from_terminal {
                // Its number is its own until `try_wait` has seen its end; ended is ended.
                let _ = kill(job, signal);
            }
            if signal == Signal::SIGTSTP {
                signal_hook::low_level::emulate_default_handler(signal as i32)?;
            }
        }
        if let Some(status) = child.try_wait()? {
            return Ok(Ended { status, asked });
        }
    }
}

/// Should this process be killed outright, the job gets SIGTERM: nobody else would end it.
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

pub fn describe(status: ExitStatus) -> String {
    let name = |number: i32| Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |s| s.to_string());
    match (status.code(), status.signal()) {
        (Some(code @ 129..=160), _) => format!("exit status {code}, {}", name(code - 128)),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by {}", name(signal)),
        (None, None) => status.to_string(),
    }
}
