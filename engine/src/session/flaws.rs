//! Why a revision is passed over at a restore.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io;

/// What came of trying a revision; the error is why it is passed over.
pub(super) type Attempted<T> = std::result::Result<T, Flaws>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Flaws {
    what: Vec<String>,
    /// Something could not be read, and may be whole; else bytes were there and were not what was written.
    is_unread: bool,
}

impl Flaws {
    /// What was found, and read.
    pub(super) fn found(what: Vec<String>) -> Flaws {
        Flaws { what, is_unread: false }
    }

    /// What could not be read, and may be whole.
    pub(super) fn unread(what: String) -> Flaws {
        Flaws { what: vec![what], is_unread: true }
    }

    pub(super) fn united(all: impl IntoIterator<Item = Flaws>) -> Flaws {
        let mut united = Flaws::default();
        all.into_iter().for_each(|flaws| united.add(flaws));
        united
    }

    pub(super) fn add(&mut self, other: Flaws) {
        self.what.extend(other.what);
        self.is_unread |= other.is_unread;
    }

    /// The same, said of `what`, each.
    pub(super) fn of(self, whose: &str) -> Flaws {
        Flaws { what: self.what.into_iter().map(|what| format!("{whose}: {what}")).collect(), ..self }
    }

    /// Adds why `revision` is passed over.
    pub(super) fn pass_over(&mut self, revision: u64, other: Flaws) {
        let what = format!("revision {revision}: {}", other.what.join("; "));
        self.add(Flaws { what: vec![what], ..other });
    }

    /// Whether some of it is what could not be read, and may be whole.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread
    }

    pub(super) fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    pub(super) fn into_what(self) -> Vec<String> {
        self.what
    }

    /// Nothing is left that could be read at `path`: damage, or a device that fails. Where it failed for one revision
    /// alone, that one may be whole, and nobody may take it for lost.
    pub(super) fn nothing_left(self, path: String) -> Error {
        if !self.is_unread {
            return Error::Damaged { what: self.what };
        }
        Error::io("restoring from", path, io::Error::other(self.what.join("; ")))
    }
}

/// What another revision may not have, apart from errors that no other would mend, or that are not the medium's.
pub(super) fn split_flaws<T>(result: Result<T>) -> Result<Attempted<T>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_of_process() => Err(error),
        Err(Error::Damaged { what }) => Ok(Err(Flaws::found(what))),
        Err(error @ Error::Io { .. }) => Ok(Err(Flaws { what: vec![error.to_string()], is_unread: true })),
        Err(error) => Err(error),
    }
}
