//! A disk that counts what a parallel file system would have its metadata servers do, or its locks.

use mainstay_engine::device::{Access, Device, Disk, File, FileSystem, LockFile, LockOutcome, Room, Stripes};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

type Counts = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// A copy counts into the same table.
#[derive(Debug, Clone)]
pub struct Counting {
    disk: Arc<Disk>,
    counts: Counts,
    file_system: FileSystem,
    stripe_bytes: u64,
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn File>,
    length: Mutex<u64>,
    counts: Counts,
}

#[derive(Debug)]
struct CountingLocks {
    locks: Box<dyn LockFile>,
    counts: Counts,
}

fn count(counts: &Counts, what: &'static str) {
    *counts.lock().unwrap().entry(what).or_default() += 1;
}

impl Counting {
    pub fn new(disk: Disk) -> Counting {
        Self::on(disk, FileSystem::Other, 0)
    }

    /// One that says it is of `file_system`, with stripes of so many bytes.
    pub fn on(disk: Disk, file_system: FileSystem, stripe_bytes: u64) -> Counting {
        Counting { disk: Arc::new(disk), counts: Counts::default(), file_system, stripe_bytes }
    }

    /// What was counted since it was last asked.
    pub fn take(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.counts.lock().unwrap())
    }

    fn file(&self, file: Arc<dyn File>) -> io::Result<Arc<dyn File>> {
        let length = Mutex::new(file.bytes()?);
        Ok(Arc::new(CountingFile { file, length, counts: self.counts.clone() }))
    }
}

impl Device for Counting {
    fn path(&self) -> String {
        self.disk.path()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        count(&self.counts, "list");
        self.disk.list()
    }

    fn create(&self, name: &str, room: &Room) -> io::Result<Arc<dyn File>> {
        count(&self.counts, "create");
        self.file(self.disk.create(name, room)?)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        count(&self.counts, "open");
        self.file(self.disk.open(name, access)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        count(&self.counts, "rename");
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        count(&self.counts, "remove");
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        count(&self.counts, "sync_directory");
        self.disk.sync_directory()
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn LockFile>> {
        count(&self.counts, "lock_file");
        Ok(Box::new(CountingLocks { locks: self.disk.lock_file(name)?, counts: self.counts.clone() }))
    }

    fn file_system(&self) -> FileSystem {
        count(&self.counts, "file_system");
        self.file_system.clone()
    }

    fn stripe_bytes(&self, stripes: Stripes, _: &str) -> io::Result<u64> {
        count(&self.counts, "stripe_bytes");
        Ok(if stripes.bytes > 0 { stripes.bytes } else { self.stripe_bytes })
    }
}

impl File for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut length = self.length.lock().unwrap();
        if offset + bytes.len() as u64 > *length {
            *length = offset + bytes.len() as u64;
            count(&self.counts, "longer");
        }
        drop(length);
        count(&self.counts, "write");
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        count(&self.counts, "sync");
        self.file.sync()
    }

    fn bytes(&self) -> io::Result<u64> {
        count(&self.counts, "bytes");
        self.file.bytes()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        count(&self.counts, "allocated_bytes");
        self.file.allocated_bytes()
    }
}

impl LockFile for CountingLocks {
    fn try_lock(&self, byte: u64) -> io::Result<LockOutcome> {
        count(&self.counts, "try_lock");
        self.locks.try_lock(byte)
    }

    fn is_locked(&self) -> io::Result<bool> {
        count(&self.counts, "is_locked");
        self.locks.is_locked()
    }
}
