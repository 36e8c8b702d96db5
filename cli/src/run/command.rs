//! The command of a job: its words as given, with what a recovery in the job adds, and as one line.

use super::{
    in_job::InJob,
    launcher::{Launcher, Placed, Words},
};
use crate::{arguments, exit::Failure};
use std::ffi::OsString;

/// The command as it is given, and whether its ranks go on by themselves when some fail.
pub struct AsGiven {
    pub words: Words,
    pub in_job: bool,
    /// How many ranks it starts, where it is known.
    pub ranks: Option<u32>,
}

pub fn as_given(command: &[OsString]) -> AsGiven {
    AsGiven { words: Words { variables: Vec::new(), command: command.to_vec() }, in_job: false, ranks: None }
}

/// Of a job whose command says itself where its ranks run.
pub fn in_place(wanted: &arguments::Run) -> Result<AsGiven, Failure> {
    // Taken apart only where there is something to add.
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

/// The command in one line, with the variables that it gets besides.
pub fn shown(words: &Words) -> String {
    let variables = words.variables.iter().map(|(name, value)| format!("{name}={value}"));
    variables.chain(words.command.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

/// A part of the command, in quotes where it would not be one word of one line.
fn quoted(part: &OsString) -> String {
    let text = part.to_string_lossy();
    let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_word { text.into_owned() } else { format!("{text:?}") }
}
