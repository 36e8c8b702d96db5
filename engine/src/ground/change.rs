//! Changes to files that a loss of power may undo until they are synced. In a simulation, the simulated disks note each.

use super::{
    files::{Open, directory},
    world::{FileOperation, perform},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// The file at `path`, which `open` may make.
pub(crate) fn make(path: &Path, open: &Open) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok() {
        return open.file(path);
    }
    perform(FileOperation::Make { path }, || open.file(path))
}

/// Writes all of `bytes` at the end of a file that is opened there.
pub(crate) fn append(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let at = file.metadata()?.len();
    perform(FileOperation::Write { file, at, bytes }, || file.write_all(bytes))
}

/// Writes all of `bytes` at the start of a file that is opened there.
pub(crate) fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    perform(FileOperation::Write { file, at: 0, bytes }, || file.write_all(bytes))
}

pub(crate) fn sync(file: &File) -> io::Result<()> {
    perform(FileOperation::Sync { file }, || file.sync_all())
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    perform(FileOperation::Rename { from, to }, || fs::rename(from, to))
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    perform(FileOperation::Remove { path }, || fs::remove_file(path))
}

pub(crate) fn link(of: &Path, name: &Path) -> io::Result<()> {
    perform(FileOperation::Link { of, name }, || fs::hard_link(of, name))
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    perform(FileOperation::SyncDirectory { path }, || directory(path)?.sync_all())
}
