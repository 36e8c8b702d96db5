//! A job whose restart files are protected: `mainstay files` stands before the program in its command.

use super::launcher;
use crate::{arguments, exit::Failure, files};
use mainstay_engine::unix_ns;
use std::ffi::OsString;

/// The command with `mainstay files` before its program.
pub fn with_files(wanted: &arguments::Run) -> Result<Vec<OsString>, Failure> {
    let at = launcher::parts(&wanted.command)?.map_or(0, |parts| parts.program);
    let (launcher, program) = wanted.command.split_at(at);
    Ok([launcher, &protecting(wanted)?, program].concat())
}

/// `mainstay files` with its options, as it stands before a program. Empty without --files.
pub fn protecting(wanted: &arguments::Run) -> Result<Vec<OsString>, Failure> {
    if wanted.files.is_empty() {
        return Ok(Vec::new());
    }
    files::inserted(&wanted.files, &format!("{}{}", std::process::id(), unix_ns()))
}
