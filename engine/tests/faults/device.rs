//! A disk that fails on demand.

use mainstay_engine::device::{Access, Device, Disk, File, LockFile, LockOutcome, Room};
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Making a file that has bytes in it fails with this number of the system.
    Create(i32),
    Write(i32),
    Sync(i32),
    Read(i32),
    /// A bug: writing panics.
    Panic,
    /// At most so many bytes at once.
    Short(usize),
}

#[derive(Debug)]
pub struct Faulty {
    disk: Disk,
    fault: Arc<Mutex<Fault>>,
    locks: bool,
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn File>,
    fault: Arc<Mutex<Fault>>,
}

impl Faulty {
    pub fn new(directory: &Path, locks: bool) -> Arc<Faulty> {
        let fault = Arc::new(Mutex::new(Fault::None));
        Arc::new(Faulty { disk: Disk::make(directory).unwrap(), fault, locks })
    }

    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { file, fault: self.fault.clone() })
    }
}

fn failed<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Device for Faulty {
    fn path(&self) -> String {
        self.disk.path()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, room: &Room) -> io::Result<Arc<dyn File>> {
        match *self.fault.lock().unwrap() {
            Fault::Create(number) if room.bytes > 0 => failed(number),
            _ => Ok(self.wrap(self.disk.create(name, room)?)),
        }
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(self.disk.open(name, access)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn LockFile>> {
        if self.locks { self.disk.lock_file(name) } else { Ok(Box::new(NoLocks)) }
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match *self.fault.lock().unwrap() {
            Fault::Read(number) => failed(number),
            Fault::Short(most) => {
                let bytes = buffer.len().min(most);
                self.file.read_at(&mut buffer[..bytes], offset)
            }
            _ => self.file.read_at(buffer, offset),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fault = *self.fault.lock().unwrap();
        match fault {
            Fault::Panic => panic!("on demand"),
            Fault::Write(number) => failed(number),
            Fault::Short(most) => self.file.write_at(&bytes[..bytes.len().min(most)], offset),
            _ => self.file.write_at(bytes, offset),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match *self.fault.lock().unwrap() {
            Fault::Sync(number) => failed(number),
            _ => self.file.sync(),
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}

#[derive(Debug)]
struct NoLocks;

impl LockFile for NoLocks {
    fn try_lock(&self, _byte: u64) -> io::Result<LockOutcome> {
        Ok(LockOutcome::Unsupported)
    }

    fn is_locked(&self) -> io::Result<bool> {
        Ok(false)
    }
}
