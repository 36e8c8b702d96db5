//! A disk that counts for its rank.

use super::{
    counts::{Counter, Quantity},
    support::between::{Between, Watched},
};
use mainstay_engine::device::{Access, Device, Disk, File, Lock, LockFile, LockOutcome, Naming, NewFile};
use std::{io, path::Path, sync::Arc};

#[derive(Debug)]
struct Counting(Counter);

#[derive(Debug)]
struct CountingLocks {
    locks: Box<dyn LockFile>,
    counter: Counter,
}

/// The directory at `path`, which is made if it is missing.
pub fn counted_device(path: &Path, counter: &Counter) -> Arc<dyn Device> {
    Arc::new(Watched::new(Disk::make(path).unwrap(), Counting(counter.clone())))
}

impl Counting {
    fn request(&self) {
        self.0.add(Quantity::Metadata, 1);
    }
}

impl Between for Counting {
    fn list(&self, disk: &Disk) -> io::Result<Vec<String>> {
        self.request();
        let names = disk.list()?;
        self.0.add(Quantity::Names, names.len() as u64);
        Ok(names)
    }
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        // The file, and room for each of its stretches.
        self.0.add(Quantity::Metadata, 1 + wanted.stretches.len() as u64);
        disk.open(name, Access::Write, Some(wanted))
    }
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.request();
        disk.open(name, access, None)
    }
    fn rename(&self, disk: &Disk, from: &str, to: &str) -> io::Result<()> {
        self.request();
        disk.name(Naming::Rename { from, to })
    }
    fn remove(&self, disk: &Disk, name: &str) -> io::Result<()> {
        self.request();
        disk.name(Naming::Remove(name))
    }
    fn sync_directory(&self, disk: &Disk) -> io::Result<()> {
        self.request();
        disk.sync_directory()
    }
    fn lock_file(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        self.request();
        Ok(Box::new(CountingLocks { locks: disk.lock_file(name, access)?, counter: self.0.clone() }))
    }
    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = file.read_at(buffer, offset)?;
        self.0.add(Quantity::BytesRead, read as u64);
        Ok(read)
    }
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = file.write_at(bytes, offset)?;
        self.0.add(Quantity::BytesWritten, written as u64);
        Ok(written)
    }
    fn bytes(&self, file: &dyn File) -> io::Result<u64> {
        self.request();
        file.bytes()
    }
}

impl LockFile for CountingLocks {
    fn set(&self, byte: u64, lock: Lock) -> io::Result<LockOutcome> {
        self.counter.add(Quantity::Metadata, 1);
        self.locks.set(byte, lock)
    }
    fn is_locked_in(&self, from: u64, bytes: u64) -> io::Result<bool> {
        self.counter.add(Quantity::Metadata, 1);
        self.locks.is_locked_in(from, bytes)
    }
}
