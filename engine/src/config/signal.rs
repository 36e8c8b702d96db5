//! The signals by which a program can be asked for a checkpoint.

use nix::sys::signal::Signal as Known;

/// A signal that a program can spare: it can be caught, and indicates no fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(Known);

impl Signal {
    /// The signal with a name such as "USR1" or "SIGUSR1"; an error says why it cannot be used.
    pub fn named(name: &str) -> Result<Signal, String> {
        use Known::*;
        let bare = name.strip_prefix("SIG").unwrap_or(name);
        let known: Known = format!("SIG{bare}").parse().map_err(|_| format!("{name:?} is no signal"))?;
        match known {
            SIGUSR1 | SIGUSR2 | SIGHUP | SIGINT | SIGQUIT | SIGTERM | SIGALRM | SIGCONT | SIGTSTP | SIGURG
            | SIGWINCH | SIGIO | SIGPWR | SIGXCPU => Ok(Signal(known)),
            SIGKILL | SIGSTOP => Err(format!("{name:?} cannot be caught")),
            SIGSEGV | SIGBUS | SIGFPE | SIGILL | SIGTRAP | SIGABRT | SIGSYS | SIGSTKFLT => {
                Err(format!("{name:?} indicates a fault of the program"))
            }
            _ => Err(format!("{name:?} is sent by the system for other reasons")),
        }
    }

    pub fn number(self) -> i32 {
        self.0 as i32
    }

    /// The signal's name, without "SIG".
    pub fn name(self) -> &'static str {
        let name = self.0.as_str();
        name.strip_prefix("SIG").unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_a_program_can_do_without_are_taken() {
        for (name, number) in [("USR1", 10), ("SIGUSR2", 12), ("TERM", 15), ("XCPU", 24)] {
            let signal = Signal::named(name).unwrap();
            assert_eq!((signal.number(), signal.name()), (number, name.trim_start_matches("SIG")));
        }
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        let reasons = [
            ("KILL", "cannot be caught"),
            ("SIGSTOP", "cannot be caught"),
            ("SEGV", "fault"),
            ("ABRT", "fault"),
            ("CHLD", "other reasons"),
            ("PIPE", "other reasons"),
            ("usr1", "no signal"),
            ("SIGSIGUSR1", "no signal"),
            ("10", "no signal"),
            ("SIG", "no signal"),
        ];
        for (name, reason) in reasons {
            let why = Signal::named(name).unwrap_err();
            assert!(why.contains(reason) && why.contains(name), "{name}: {why}");
        }
    }
}
