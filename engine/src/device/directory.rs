//! The directory of a space: its path, and the facts of its file system. Where files lie is apart from how their bytes
//! are read and written, so no device implements any of this.

use super::{FileSystem, allocate::available, file_system::FUSE, stripes};
use crate::{
    ground::{
        files::{self, Open},
        is_on_simulated_disk,
    },
    printable::printable_path,
};
use rustix::fs::{FsWord, statfs};
use std::{
    fs, io,
    ops::Deref,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

// linux/magic.h.
const TMPFS: FsWord = 0x0102_1994;

/// The path for opening the directory again: it need not be printable, nor text.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    facts: OnceLock<Facts>,
    /// Bytes of a stripe in place of those that the file system reports.
    stripe_bytes: Option<u64>,
}

/// The file system asks a server for these facts, so they are taken once.
#[derive(Debug, Clone)]
struct Facts {
    device_number: u64,
    file_system: FileSystem,
    is_memory: bool,
    is_process: bool,
}

impl Directory {
    pub fn of(path: &Path) -> Directory {
        Directory { path: path.to_owned(), facts: OnceLock::new(), stripe_bytes: None }
    }

    /// For tests: the same directory, which reports `file_system` with stripes of `stripe_bytes` bytes.
    pub fn posing_as(&self, file_system: FileSystem, stripe_bytes: u64) -> Directory {
        let facts = Facts { file_system, ..self.facts().cloned().unwrap_or_default() };
        Directory { path: self.path.clone(), facts: facts.into(), stripe_bytes: Some(stripe_bytes) }
    }

    /// The path for messages.
    pub fn printable(&self) -> String {
        printable_path(&self.path)
    }

    /// The number of the file system on this machine (`st_dev`); 0: unknown.
    pub fn device_number(&self) -> u64 {
        self.facts().map_or(0, |facts| facts.device_number)
    }

    /// The layout of portions depends on it. `Other` if this cannot be found out.
    pub fn file_system(&self) -> FileSystem {
        self.facts().map_or(FileSystem::Other, |facts| facts.file_system.clone())
    }

    /// Whether the files are in memory, and can be mapped.
    pub fn is_memory(&self) -> bool {
        self.facts().is_some_and(|facts| facts.is_memory)
    }

    /// Whether writing uses this machine's processors, because the file system is a process here.
    pub fn takes_processor(&self) -> bool {
        self.facts().is_some_and(|facts| facts.is_process)
    }

    /// The free bytes of the file system, if known.
    pub fn available_bytes(&self) -> Option<u64> {
        files::directory(&self.path).ok().as_ref().and_then(available)
    }

    pub(super) fn has_stripes(&self) -> bool {
        self.stripe_bytes.is_some_and(|bytes| bytes > 0) || self.file_system().has_stripes()
    }

    /// Bytes of a stripe of the file `name`; 0 if it has none.
    pub(super) fn stripe_bytes(&self, name: &str) -> io::Result<u64> {
        let ask = |path: PathBuf| stripes::of_file(&self.file_system(), &path, &Open::to_read().file(&path)?);
        self.stripe_bytes.map_or_else(|| ask(self.path.join(name)), Ok)
    }

    /// The facts, unless the directory cannot be asked yet.
    fn facts(&self) -> Option<&Facts> {
        if self.facts.get().is_none() {
            let found = Facts::of(&self.path)?;
            return Some(self.facts.get_or_init(|| found));
        }
        self.facts.get()
    }
}

impl Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Facts {
    fn of(path: &Path) -> Option<Facts> {
        let kind = statfs(path).ok()?.f_type;
        Some(Facts {
            device_number: fs::metadata(path).map_or(0, |found| found.dev()),
            file_system: FileSystem::of(path, kind),
            is_memory: kind == TMPFS && !files::directory(path).is_ok_and(|folder| is_on_simulated_disk(&folder)),
            is_process: kind == FUSE,
        })
    }
}

impl Default for Facts {
    fn default() -> Facts {
        Facts { device_number: 0, file_system: FileSystem::Other, is_memory: false, is_process: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_has_no_stripes() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path(), Path::new("/dev/shm"), Path::new("/proc"), Path::new("/not/there")] {
            let found = Directory::of(path);
            assert_eq!(found.file_system(), FileSystem::Other, "{}", path.display());
            assert!(!found.has_stripes() && !found.file_system().shares_badly());
            assert_eq!(found.is_memory(), path == Path::new("/dev/shm"));
        }
    }

    #[test]
    fn a_directory_is_known_once_it_is_there() {
        let above = tempfile::tempdir().unwrap();
        let later = Directory::of(&above.path().join("later"));
        assert_eq!(later.device_number(), 0);
        fs::create_dir(&*later).unwrap();
        assert_eq!(later.device_number(), Directory::of(above.path()).device_number());
        assert!(later.device_number() > 0);
    }
}
