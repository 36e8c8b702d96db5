//! The memory for staged files, and memory set aside for the next files.

use crate::{
    file::{Key, Kind},
    stage::{Id, Stage},
};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Most folders, and kinds of files, to remember.
const FOLDERS_MAX: usize = 4096;

pub struct Room {
    /// A quarter of the memory that was free at the start.
    bytes: u64,
    prepared: HashMap<Key, (Id, u64)>,
    /// Folders in which a job has named a file.
    folders: HashSet<(PathBuf, String)>,
    /// The size of the last file of each kind.
    sizes: HashMap<Kind, u64>,
    /// Bytes expected for open files.
    expected: BTreeMap<Id, u64>,
}

impl Room {
    pub fn here() -> Room {
        Room {
            bytes: free_memory() / 4,
            prepared: HashMap::new(),
            folders: HashSet::new(),
            sizes: HashMap::new(),
            expected: BTreeMap::new(),
        }
    }

    /// Bytes expected for the next file of a name: those of the published file, or of the last file of its kind.
    pub fn expects(&self, key: &Key, published: u64) -> u64 {
        published.max(self.sizes.get(&key.kind()).copied().unwrap_or(0))
    }

    /// Learns the size of a file that was closed, or has got its name.
    pub fn learns(&mut self, key: &Key, bytes: u64) {
        if self.sizes.len() >= FOLDERS_MAX {
            self.sizes.clear();
        }
        self.sizes.insert(key.kind(), bytes);
    }

    /// Counts the expected bytes of a newly opened file.
    pub fn holds(&mut self, id: Id, bytes: u64) {
        self.expected.insert(id, bytes);
    }

    pub fn held_for(&self, id: Id) -> u64 {
        self.expected.get(&id).copied().unwrap_or(0)
    }

    pub fn gives_back(&mut self, is_gone: impl Fn(&Id) -> bool) {
        self.expected.retain(|id, _| !is_gone(id));
    }

    /// Frees memory set aside for other names than `key`.
    pub fn free_prepared(&mut self, stage: &Stage, key: &Key) {
        self.prepared.retain(|name, (id, _)| name == key || fs::remove_file(stage.prepared(*id)).is_err());
    }

    /// Whether the stage has room for a file of `expected` bytes beside `used` bytes.
    ///
    /// The size of a first file of its kind is not known: `expected` is 0.
    pub fn has(&self, stage: &Stage, given: Option<u64>, used: u64, expected: u64) -> bool {
        let set_aside: u64 = self.prepared.values().map(|(_, bytes)| bytes).sum();
        let limit = given.unwrap_or(self.bytes);
        // A tenth stays free: without memory a write fails in the program.
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

    /// Whether the job meets the folder for the first time.
    pub fn meets(&mut self, folder: &Path, job: &str) -> bool {
        if self.folders.len() >= FOLDERS_MAX {
            self.folders.clear();
        }
        self.folders.insert((folder.to_owned(), job.to_owned()))
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
