//! The command of a job: its given words, the additions for in-job recovery, and the whole as one line.

use super::{
    in_job::InJob,
    launcher::{Launcher, Placed, Words},
};
use crate::{arguments, exit::Failure};
use std::ffi::OsString;

/// The given command, and whether its ranks go on by themselves after a failure.
pub struct AsGiven {
    pub words: Words,
    pub in_job: bool,
    /// Number of ranks that it starts, if known.
    pub ranks: Option<u32>,
}

pub fn as_given(command: &[OsString]) -> AsGiven {
    AsGiven { words: Words { variables: Vec::new(), command: command.to_vec() }, in_job: false, ranks: None }
}

/// For a job with a command that places its ranks itself.
pub fn in_place(wanted: &arguments::Run) -> Result<AsGiven, Failure> {
    // Parse the command only if something is added to it.
    let found = wanted.in_job.then(|| Launcher::find(&wanted.command, Placed::ByCommand));
    let known = match &found {
        Some(Ok(launcher)) => Ok((launcher.kind, launcher.version.as_ref())),
        Some(Err(failure)) => Err(failure.message.clone()),
        None => Err(String::new()),
    };
    let in_job = InJob::of(wanted, known)?;
    match (in_job, found) {
        (Some(in_job), Some(Ok(mut launcher))) => {
            launcher.in_job = Some(in_job);
            let ranks = launcher.ranks.map(|ranks| launcher.with_spares(ranks));
            Ok(AsGiven { words: launcher.words_as_placed()?, in_job: true, ranks })
        }
        _ => Ok(as_given(&wanted.command)),
    }
}

/// The command in one line, with its added variables.
pub fn shown(words: &Words) -> String {
    let variables = words.variables.iter().map(|(name, value)| format!("{name}={value}"));
    variables.chain(words.command.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

/// A word of the command, in quotes if it is not one plain word.
fn quoted(part: &OsString) -> String {
    let text = part.to_string_lossy();
    let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word { text.into_owned() } else { format!("{text:?}") }
}
