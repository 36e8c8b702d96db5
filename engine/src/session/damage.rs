//! Damage: the reasons why a restore passes a revision over.

use crate::{
    error::{Error, Result},
    group::{Group, agree},
};
use serde::{Deserialize, Serialize};
use std::io;

/// The result of an attempt to read a revision.
pub(super) type Attempted<T> = std::result::Result<T, Unreadable>;

/// The reason why a revision was not read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// Another revision may lack the damage: pass this one over.
    Damage(Damage),
    /// The error would hit every revision, or does not come from the medium: end the search.
    Error(Error),
}

/// The value, or the damage that this rank found in it.
pub(super) type Intact<T> = std::result::Result<T, Damage>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Damage {
    what: Vec<String>,
    /// Some data could not be read, and may be whole. Otherwise the data was read and differs from the written data.
    is_unread: bool,
    /// Nothing is damaged: a rank lacks shards that others have.
    is_lacking: bool,
}

impl Damage {
    /// Damage in data that could be read.
    pub(super) fn found(what: Vec<String>) -> Damage {
        Damage { what, ..Damage::default() }
    }

    /// Data that could not be read, and may be whole.
    pub(super) fn unread(what: String) -> Damage {
        Damage { what: vec![what], is_unread: true, ..Damage::default() }
    }

    /// A rank lacks shards that others have. Bring them, and try again.
    pub(super) fn lacking() -> Damage {
        Damage { is_lacking: true, ..Damage::default() }
    }

    pub(super) fn is_lacking(&self) -> bool {
        self.is_lacking
    }

    pub(super) fn united(all: impl IntoIterator<Item = Damage>) -> Damage {
        let mut united = Damage::default();
        all.into_iter().for_each(|damage| united.add(damage));
        united
    }

    pub(super) fn add(&mut self, other: Damage) {
        self.what.extend(other.what);
        self.is_unread |= other.is_unread;
    }

    /// The same damage, each with the name `whose` in front.
    pub(super) fn of(self, whose: &str) -> Damage {
        Damage { what: self.what.into_iter().map(|what| format!("{whose}: {what}")).collect(), ..self }
    }

    /// Adds `other` as the reason why `revision` is passed over.
    pub(super) fn pass_over(&mut self, revision: u64, other: Damage) {
        let what = format!("revision {revision}: {}", other.what.join("; "));
        self.add(Damage { what: vec![what], ..other });
    }

    /// Whether some data could not be read, and so may be whole.
    pub(super) fn is_unread(&self) -> bool {
        self.is_unread
    }

    pub(super) fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    pub(super) fn into_what(self) -> Vec<String> {
        self.what
    }

    /// The error if no revision at `path` can be read: damage, or a failing device. If the device failed even for one
    /// revision, that revision may be whole: do not report it as lost.
    pub(super) fn nothing_left(self, path: String) -> Error {
        if !self.is_unread {
            return Error::Damaged { what: self.what };
        }
        Error::io("restoring from", path, io::Error::other(self.what.join("; ")))
    }
}

impl Unreadable {
    /// Separates damage from other errors.
    pub(super) fn of(error: Error) -> Unreadable {
        match error {
            error if error.is_of_process() => Unreadable::Error(error),
            Error::Damaged { what } => Unreadable::Damage(Damage::found(what)),
            Error::Io { .. } => Unreadable::Damage(Damage::unread(error.to_string())),
            error => Unreadable::Error(error),
        }
    }

    /// Any error as damage, for a shard that may be whole in another place.
    pub(super) fn in_place(error: Error) -> Damage {
        match Unreadable::of(error) {
            Unreadable::Damage(damage) => damage,
            Unreadable::Error(error) => Damage::unread(error.to_string()),
        }
    }
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Unreadable {
        Unreadable::Error(error)
    }
}

impl From<Damage> for Unreadable {
    fn from(damage: Damage) -> Unreadable {
        Unreadable::Damage(damage)
    }
}

/// Separates damage from an error, which ends the search.
pub(super) fn intact<T>(read: Result<T>) -> Result<Intact<T>> {
    match read.map_err(Unreadable::of) {
        Ok(value) => Ok(Ok(value)),
        Err(Unreadable::Damage(damage)) => Ok(Err(damage)),
        Err(Unreadable::Error(error)) => Err(error),
    }
}

/// The ranks agree on errors; damage stays with the rank that found it. Collective.
pub(super) fn agree_on_errors<T>(group: &dyn Group, read: Result<T>) -> Result<Intact<T>> {
    agree(group, intact(read))
}
