//! A disk that fails on demand.

use crate::support::between::{Between, Watched};
use mainstay_engine::device::{Access, Device, Disk, File, Lock, LockFile, LockOutcome, NewFile};
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
    /// Only writes at these two offsets of a file fail.
    WriteAt(i32, [u64; 2]),
    Sync(i32),
    Read(i32),
    /// Only the next reads fail, this many.
    Reads(i32, u32),
    /// A bug: writing panics.
    Panic,
    /// A call writes or reads at most so many bytes.
    Short(usize),
}

#[derive(Debug)]
pub struct Faults {
    fault: Mutex<Fault>,
    locks: bool,
}

pub type Faulty = Watched<Faults>;

pub fn faulty(directory: &Path, locks: bool) -> Arc<Faulty> {
    Arc::new(Watched::new(Disk::make(directory).unwrap(), Faults { fault: Mutex::new(Fault::None), locks }))
}

impl Faults {
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn now(&self) -> Fault {
        *self.fault.lock().unwrap()
    }
}

fn failed<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Between for Faults {
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        match self.now() {
            Fault::Create(number) if wanted.bytes > 0 => failed(number),
            _ => disk.open(name, Access::Write, Some(wanted)),
        }
    }

    fn lock_file(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        if self.locks { disk.lock_file(name, access) } else { Ok(Box::new(NoLocks)) }
    }

    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut fault = self.fault.lock().unwrap();
        if let Fault::Reads(number, left) = &mut *fault {
            let (number, now) = (*number, *left > 0);
            *left -= u32::from(now);
            return if now { failed(number) } else { file.read_at(buffer, offset) };
        }
        drop(fault);
        match self.now() {
            Fault::Read(number) => failed(number),
            Fault::Short(most) => {
                let bytes = buffer.len().min(most);
                file.read_at(&mut buffer[..bytes], offset)
            }
            _ => file.read_at(buffer, offset),
        }
    }

    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match self.now() {
            Fault::Panic => panic!("on demand"),
            Fault::Write(number) => failed(number),
            Fault::WriteAt(number, at) if at.contains(&offset) => failed(number),
            Fault::Short(most) => file.write_at(&bytes[..bytes.len().min(most)], offset),
            _ => file.write_at(bytes, offset),
        }
    }

    fn sync(&self, file: &dyn File) -> io::Result<()> {
        match self.now() {
            Fault::Sync(number) => failed(number),
            _ => file.sync(),
        }
    }
}

#[derive(Debug)]
struct NoLocks;

impl LockFile for NoLocks {
    fn set(&self, _byte: u64, lock: Lock) -> io::Result<LockOutcome> {
        Ok(if lock == Lock::Hold { LockOutcome::Unsupported } else { LockOutcome::Done })
    }

    fn is_locked_in(&self, _from: u64, _bytes: u64) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
