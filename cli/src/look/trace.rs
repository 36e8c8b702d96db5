//! `mainstay trace`: runs a program that records which pages it writes.

use crate::{
    arguments,
    exit::{Exit, Failure},
};
use std::{io::ErrorKind, os::unix::process::CommandExt, path::absolute, process::Command, process::ExitCode};

const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Replaces this process with the program; returns only if that fails.
pub fn trace(wanted: &arguments::Trace) -> Result<ExitCode, Failure> {
    let system = |e| Failure { exit: Exit::System, message: format!("{}: {e}", wanted.out.display()) };
    // The ranks may have working directories of their own.
    let folder = absolute(&wanted.out).map_err(system)?;
    std::fs::create_dir_all(&folder).map_err(system)?;
    let [program, arguments @ ..] = &wanted.command[..] else { return Ok(Exit::Usage.into()) };
    let mut command = Command::new(program);
    command.args(arguments).env("MAINSTAY_TRACE", folder);
    if let Some(every) = wanted.every {
        command.env("MAINSTAY_TICK_SECONDS", every.as_secs_f64().to_string());
    }
    let error = command.exec();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
    crate::exit::say(&format!("{}: {error}", program.display()));
    Ok(code.into())
}
