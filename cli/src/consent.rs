//! Asks before something goes for good, as apt does: on a terminal alone, and not where --yes says it already.

use crate::exit::Failure;
use std::io::{self, BufRead, IsTerminal, Write};

/// Whether somebody is there to be asked. A script goes on, as it does with `rm`.
pub fn is_asked(yes: bool) -> bool {
    !yes && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Refused unless the answer is yes.
pub fn ask(question: &str) -> Result<(), Failure> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::refused("nothing was changed".to_owned())),
    }
}
