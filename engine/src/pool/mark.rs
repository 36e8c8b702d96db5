//! Marks: a rank leaves such a file in the directory of pools for an instant, so that other ranks of its node see it. A
//! mark is named like a pool; once its process is dead, any process may remove it.

use super::{
    file::{self, absolute},
    open::{check_room, take_byte, until_kept},
};
use crate::{
    device::ByteLocks,
    error::{Error, Result},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub(crate) struct Mark {
    path: PathBuf,
    _locks: ByteLocks,
}

impl Mark {
    /// Makes the mark with this id. Fails if the directory is missing or accepts no file.
    pub(crate) fn make(directory: &Path, id: [u8; 16]) -> Result<Mark> {
        let directory = absolute(directory)?;
        check_room(&directory, 0)?;
        let path = file::path_of(&directory, id, None);
        until_kept(|| {
            let locks = ByteLocks::of(file::create(&path)?);
            let kept = take_byte(&locks, &path, 0).map(|()| Mark { path: path.clone(), _locks: locks });
            kept.inspect_err(|_| drop(fs::remove_file(&path)))
        })
    }

    pub(crate) fn remove(self) -> Result<()> {
        file::remove(&self.path)
    }
}

/// The error for a mark that has disappeared from `directory`, although its process made it and did not remove it.
pub(crate) fn mark_gone(directory: &Path, id: [u8; 16]) -> Error {
    let why = "it was removed meanwhile; see to it that nothing clears that directory while jobs start";
    file::refused(&file::path_of(directory, id, None), why)
}

/// Whether `directory` has the mark with this id, made by this user.
pub(crate) fn is_in_sight(directory: &Path, id: [u8; 16]) -> bool {
    file::open(&file::path_of(directory, id, None)).is_ok_and(|found| found.is_some())
}
