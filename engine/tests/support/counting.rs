//! A disk that counts the metadata operations and locks of a parallel file system, and that reports any file system
//! that a test asks for.

use super::between::{Between, Watched};
use mainstay_engine::device::{
    Access, Device, Directory, Disk, File, FileSystem, Lock, LockFile, LockOutcome, Naming, NewFile,
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

pub type Counting = Watched<Counts>;

#[derive(Debug)]
pub struct Counts {
    calls: Calls,
    file_system: FileSystem,
    stripe_bytes: u64,
}

#[derive(Debug, Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<&'static str, u64>>>);

#[derive(Debug)]
struct CountingLocks {
    locks: Box<dyn LockFile>,
    calls: Calls,
}

impl Calls {
    fn add(&self, what: &'static str) {
        *self.0.lock().unwrap().entry(what).or_default() += 1;
    }
}

/// A directory that reports `file_system`, with stripes of `stripe_bytes` bytes.
pub fn counting(disk: Disk, file_system: FileSystem, stripe_bytes: u64) -> Counting {
    Watched::new(disk, Counts { calls: Calls::default(), file_system, stripe_bytes })
}

impl Counts {
    /// The counts since the last call.
    pub fn take(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.calls.0.lock().unwrap())
    }
}

impl Between for Counts {
    fn list(&self, disk: &Disk) -> io::Result<Vec<String>> {
        self.calls.add("list");
        disk.list()
    }
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        self.calls.add("create");
        disk.open(name, Access::Write, Some(wanted))
    }
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.calls.add("open");
        disk.open(name, access, None)
    }
    fn rename(&self, disk: &Disk, from: &str, to: &str) -> io::Result<()> {
        self.calls.add("rename");
        disk.name(Naming::Rename { from, to })
    }
    fn remove(&self, disk: &Disk, name: &str) -> io::Result<()> {
        self.calls.add("remove");
        disk.name(Naming::Remove(name))
    }
    fn sync_directory(&self, disk: &Disk) -> io::Result<()> {
        self.calls.add("sync_directory");
        disk.sync_directory()
    }
    fn lock_file(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        self.calls.add("lock_file");
        Ok(Box::new(CountingLocks { locks: disk.lock_file(name, access)?, calls: self.calls.clone() }))
    }
    fn directory(&self, disk: &Disk) -> Arc<Directory> {
        Arc::new(disk.directory().posing_as(self.file_system.clone(), self.stripe_bytes))
    }
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if offset + bytes.len() as u64 > file.bytes()? {
            self.calls.add("longer");
        }
        self.calls.add("write");
        file.write_at(bytes, offset)
    }
    fn sync(&self, file: &dyn File) -> io::Result<()> {
        self.calls.add("sync");
        file.sync()
    }
    fn bytes(&self, file: &dyn File) -> io::Result<u64> {
        self.calls.add("bytes");
        file.bytes()
    }
}

impl LockFile for CountingLocks {
    fn set(&self, byte: u64, lock: Lock) -> io::Result<LockOutcome> {
        self.calls.add(if lock == Lock::Hold { "try_lock" } else { "unlock" });
        self.locks.set(byte, lock)
    }
    fn is_locked_in(&self, from: u64, bytes: u64) -> io::Result<bool> {
        self.calls.add("is_locked");
        self.locks.is_locked_in(from, bytes)
    }
}
