//! The memory that staged files may take, and memory that is set aside for the next ones.

use crate::{
    file::Key,
    stage::{Id, Stage},
};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::{
    collections::{HashMap, HashSet},
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Folders that are remembered.
const FOLDERS_MAX: usize = 4096;

pub struct Room {
    /// A quarter of the memory that was free at the start.
    bytes: u64,
    prepared: HashMap<Key, (Id, u64)>,
    folders: HashSet<PathBuf>,
}

impl Room {
    pub fn here() -> Room {
        Room { bytes: free_memory() / 4, prepared: HashMap::new(), folders: HashSet::new() }
    }

    /// Whether the stage has room for a file of `expected` bytes beside `used` bytes.
    pub fn has(&self, stage: &Stage, given: Option<u64>, used: u64, expected: u64) -> bool {
        let set_aside: u64 = self.prepared.values().map(|(_, bytes)| bytes).sum();
        let limit = given.unwrap_or(self.bytes);
        // A tenth stays free: a write that finds no memory fails in the program.
        let free = statvfs(stage.path()).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize)) / 10 * 9;
        used + set_aside + expected <= limit && expected <= free
    }

    pub fn has_prepared(&mut self, stage: &Stage, key: Key, id: Id, bytes: u64) {
        if bytes == 0 {
            let _ = fs::remove_file(stage.prepared(id));
        } else if let Some((old, _)) = self.prepared.insert(key, (id, bytes)) {
            let _ = fs::remove_file(stage.prepared(old));
        }
    }

    pub fn take_prepared(&mut self, key: &Key) -> Option<Id> {
        self.prepared.remove(key).map(|(id, _)| id)
    }

    /// Whether the folder is met for the first time.
    pub fn meets(&mut self, folder: &Path) -> bool {
        if self.folders.len() >= FOLDERS_MAX {
            self.folders.clear();
        }
        self.folders.insert(folder.to_owned())
    }
}

/// Makes a file of length zero with the memory for `bytes` bytes.
pub fn set_aside(path: &Path, bytes: u64) -> io::Result<u64> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes)?;
    Ok(bytes)
}

fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
