//! Information for the user that is no error: a line on standard error, by rank 0, once in a process.

use crate::{ground::world, printable::printable};
use std::{
    io::{self, Write},
    sync::Once,
};

/// A possible remark, in a `static`.
pub(crate) struct Remark(Once);

impl Remark {
    pub(crate) const fn new() -> Remark {
        Remark(Once::new())
    }

    /// Prints it, on rank 0, the first time that there is a text.
    pub(crate) fn make(&self, rank: usize, text: impl FnOnce() -> Option<String>) {
        if rank > 0 || self.0.is_completed() {
            return;
        }
        if world().is_some() {
            // Processes that are threads of one share this, and may each say it.
            return text().iter().for_each(|text| say(text));
        }
        self.0.call_once(|| {
            if let Some(text) = text() {
                remark(rank, &text);
            }
        });
    }
}

/// Prints it on rank 0, each time.
pub(crate) fn remark(rank: usize, text: &str) {
    if rank == 0 {
        say(text);
    }
}

/// Prints a line on standard error, in one write, so that the lines of other processes stay whole. Invisible characters are
/// escaped. A failure to print is ignored.
pub fn say(text: &str) {
    if let Some(world) = world() {
        return world.say(text);
    }
    let _ = io::stderr().write_all(format!("mainstay: {}\n", printable(text)).as_bytes());
}
