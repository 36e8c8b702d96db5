//! Other programs that Mainstay calls for an answer, within a time limit.

use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        signal::{Signal, killpg},
    },
    unistd::Pid,
};
use std::{
    fs::File,
    io,
    os::unix::{
        fs::FileExt,
        process::{CommandExt, ExitStatusExt},
    },
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(5);
/// Limit on the output of a command.
const BYTES_MAX: usize = 1 << 20;

pub struct Answer {
    /// `None` if it did not end in time.
    pub status: Option<ExitStatus>,
    pub output: String,
    pub errors: String,
}

impl Answer {
    pub fn is_good(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The reason that it failed.
    pub fn why(&self, limit: Duration) -> String {
        match (self.status, self.errors.lines().map(str::trim).find(|line| !line.is_empty())) {
            (None, _) => format!("no answer within {}", humantime::format_duration(limit)),
            (Some(_), Some(line)) => line.to_owned(),
            (Some(status), None) => describe(status),
        }
    }
}

/// Runs `command` to its end. At `limit`, ends it and all processes of its process group.
pub fn ask(command: &mut Command, limit: Duration) -> io::Result<Answer> {
    // Files, because nobody needs to empty them.
    let file = || memfd_create(c"mainstay-answer", MFdFlags::MFD_CLOEXEC).map(File::from);
    let (output, errors) = (file()?, file()?);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?).process_group(0);
    let mut child = command.spawn()?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() >= limit {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            child.wait()?;
            break None;
        }
        thread::sleep(LOOK);
    };
    Ok(Answer { status, output: text(&output), errors: text(&errors) })
}

fn text(file: &File) -> String {
    let bytes = file.metadata().map_or(0, |file| (file.len() as usize).min(BYTES_MAX));
    let mut text = vec![0; bytes];
    file.read_exact_at(&mut text, 0).map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&text).into_owned())
}

/// The end of a command, in words.
pub fn describe(status: ExitStatus) -> String {
    let name = |number: i32| Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |s| s.to_string());
    match (status.code(), status.signal()) {
        (Some(code @ 129..=160), _) => format!("exit status {code}, {}", name(code - 128)),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by {}", name(signal)),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_ended_with_what_it_has_started() {
        let limit = Duration::from_millis(300);
        let answer = ask(Command::new("sh").args(["-c", "sleep 60 & echo $!; wait"]), limit).unwrap();
        assert!(!answer.is_good() && answer.why(limit) == "no answer within 300ms");
        let sleeper = Pid::from_raw(answer.output.trim().parse().unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        // A process that has ended and was not waited for yet can still be signalled.
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat"));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while is_there() {
            assert!(Instant::now() < deadline, "{sleeper} is still there");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn an_answer_says_why_it_is_none() {
        let limit = Duration::from_secs(60);
        let ask = |script| ask(Command::new("sh").args(["-c", script]), limit).unwrap();
        let answer = ask("echo yes");
        assert!(answer.is_good() && answer.output == "yes\n");
        let answer = ask("echo >&2; echo ' no route' >&2; echo more >&2; exit 255");
        assert_eq!((answer.is_good(), answer.why(limit)), (false, "no route".to_owned()));
        assert_eq!(ask("exit 3").why(limit), "exit status 3");
    }
}
