//! Exit codes, which scripts can rely on, and messages.

pub use mainstay_engine::say;

use mainstay_engine::{Error, ErrorKind};
use std::{io, path::Path, process::ExitCode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Good = 0,
    /// Damage, or no complete revision.
    Lost = 1,
    /// Wrong usage, with clap's code, or wrong settings.
    Usage = 2,
    NotASpace = 3,
    System = 4,
    /// Saving keeps failing, or nothing is saved.
    StepError = 5,
}

/// The reason that a command ended early.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn lost(message: String) -> Failure {
        Failure { exit: Exit::Lost, message }
    }

    /// Wrong usage of the command.
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
            // The engine's message is about a restore, and this is none.
            Error::Damaged { what } => format!("damaged: {}", what.join("; ")),
            Error::NotASpace { ref path, .. } if has_protected_files(path) => {
                format!(
                    "{path} is not a Mainstay space: `mainstay files` protects files in it; see `mainstay files ls {path}`"
                )
            }
            other => other.to_string(),
        };
        Failure { exit, message }
    }
}

fn has_protected_files(folder: &str) -> bool {
    mainstay_files::list(Path::new(folder)).is_ok_and(|files| !files.is_empty())
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { exit: Exit::System, message: format!("writing the output failed: {error}") }
    }
}
