//! Asks before data is removed for good, as apt does: only on a terminal, and not with --yes.

use crate::exit::Failure;
use std::io::{self, BufRead, IsTerminal, Write};

/// Is standard input a terminal? A script goes on without a question, as with `rm`.
pub fn is_asked(yes: bool) -> bool {
    !yes && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Fails unless the answer is yes.
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
