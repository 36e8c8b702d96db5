//! Flaws: why a revision is passed over at a restore.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io;

/// What came of trying a revision; the error says why the revision is passed over.
pub(super) type Attempted<T> = std::result::Result<T, Flaws>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Flaws {
    what: Vec<String>,
    /// Some of it could not be read, and may be whole. Otherwise bytes were read that are not those written.
    is_unread: bool,
    /// Nothing is wrong; a rank lacks shards that others have.
    is_lacking: bool,
}

impl Flaws {
    /// Flaws of bytes that could be read.
    pub(super) fn found(what: Vec<String>) -> Flaws {
        Flaws { what, ..Flaws::default() }
    }

    /// What could not be read, and may be whole.
    pub(super) fn unread(what: String) -> Flaws {
        Flaws { what: vec![what], is_unread: true, ..Flaws::default() }
    }

    /// A rank lacks shards that others have: the same is tried again with them.
    pub(super) fn lacking() -> Flaws {
        Flaws { is_lacking: true, ..Flaws::default() }
    }

    pub(super) fn is_lacking(&self) -> bool {
        self.is_lacking
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

    /// The same flaws, with `whose` before each.
    pub(super) fn of(self, whose: &str) -> Flaws {
        Flaws { what: self.what.into_iter().map(|what| format!("{whose}: {what}")).collect(), ..self }
    }

    /// Adds `other` as the reason why `revision` is passed over.
    pub(super) fn pass_over(&mut self, revision: u64, other: Flaws) {
        let what = format!("revision {revision}: {}", other.what.join("; "));
        self.add(Flaws { what: vec![what], ..other });
    }

    /// Whether some of it could not be read, and so may be whole.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread
    }

    pub(super) fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    pub(super) fn into_what(self) -> Vec<String> {
        self.what
    }

    /// The error if no revision at `path` can be read: damage, or a device that fails. If the device failed for one
    /// revision alone, that one may be whole, and nobody may take it for lost.
    pub(super) fn nothing_left(self, path: String) -> Error {
        if !self.is_unread {
            return Error::Damaged { what: self.what };
        }
        Error::io("restoring from", path, io::Error::other(self.what.join("; ")))
    }
}

/// Splits off the flaws that another revision may not have from errors that no other revision would mend, or that do
/// not come from the medium.
pub(super) fn split_flaws<T>(result: Result<T>) -> Result<Attempted<T>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_of_process() => Err(error),
        Err(Error::Damaged { what }) => Ok(Err(Flaws::found(what))),
        Err(error @ Error::Io { .. }) => Ok(Err(Flaws::unread(error.to_string()))),
        Err(error) => Err(error),
    }
}
