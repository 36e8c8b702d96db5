//! How the command ends: exit codes that scripts can rely on, and messages.

use mainstay_engine::{Error, ErrorKind, printable};
use std::{
    io::{self, Write},
    process::ExitCode,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Good = 0,
    /// Damage, or nothing complete where a revision was asked for.
    Lost = 1,
    /// Wrong usage, as clap has it, or wrong settings.
    Usage = 2,
    NotASpace = 3,
    System = 4,
    /// Saving keeps failing, or nothing is saved.
    Failing = 5,
}

/// Why a command ended early.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn lost(message: String) -> Failure {
        Failure { exit: Exit::Lost, message }
    }

    /// The command cannot be used as it was.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, message: message.into() }
    }

    pub fn refused(message: String) -> Failure {
        Failure { exit: Exit::System, message }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::Damaged | ErrorKind::LineageConflict | ErrorKind::RevisionMissing => Exit::Lost,
            ErrorKind::NotASpace | ErrorKind::NewerVersion => Exit::NotASpace,
            ErrorKind::InvalidArgument => Exit::Usage,
            _ => Exit::System,
        };
        let message = match error {
            // The engine speaks of the restore that this is not.
            Error::Damaged { what } => format!("damaged: {}", what.join("; ")),
            other => other.to_string(),
        };
        Failure { exit, message }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { exit: Exit::System, message: format!("writing the output failed: {error}") }
    }
}

/// A line for people, apart from the output. Nobody to read it is no reason to fail.
pub fn say(message: &str) {
    // In one write: a job that is watched may print to the same place.
    let _ = io::stderr().write_all(format!("mainstay: {}\n", printable(message)).as_bytes());
}
