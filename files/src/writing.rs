//! The places of files on their way, in the target's file system.

use crate::{file::BESIDE, stage::Id};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The path of the bytes in the target's file system, until they get their name.
pub fn writing_path(folder: &Path, id: Id) -> PathBuf {
    folder.join(BESIDE).join("writing").join(id.to_string())
}

/// Removes a file that will not get its name.
pub fn drop_writing(folder: &Path, id: Id) {
    let path = writing_path(folder, id);
    let _ = fs::remove_file(path.with_extension("hashes"));
    let _ = fs::remove_file(path);
}
