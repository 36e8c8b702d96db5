//! What a user should know and no call can refuse: a line on standard error, by rank 0, once in a process.

use crate::printable::printable;
use std::{
    io::{self, Write},
    sync::Once,
};

/// One that may be made, in a `static`.
pub(crate) struct Remark(Once);

impl Remark {
    pub(crate) const fn new() -> Remark {
        Remark(Once::new())
    }

    /// Makes it, on rank 0, if this is the first time and there is something to say.
    pub(crate) fn make(&self, rank: usize, text: impl FnOnce() -> Option<String>) {
        if rank > 0 || self.0.is_completed() {
            return;
        }
        self.0.call_once(|| {
            if let Some(text) = text() {
                remark(rank, &text);
            }
        });
    }
}

/// Says it on rank 0, each time.
pub(crate) fn remark(rank: usize, text: &str) {
    if rank == 0 {
        line(text);
    }
}

/// Says it on this rank, in one write, so that the lines of others stay whole. Nobody to read it is no reason to fail.
pub(crate) fn line(text: &str) {
    let _ = io::stderr().write_all(format!("mainstay: {}\n", printable(text)).as_bytes());
}
