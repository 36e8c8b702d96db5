//! The storage device: a directory of preallocated files. Tests inject faults at this boundary; the engine does all its
//! I/O on spaces through it.
//!
//! Each operation that can fail is a method of `Device`, `File` or `LockFile`. The facts of the file system are values of
//! `Directory`, which no device implements. How bytes move is an argument: past the cache or not, mapped anew or not.
//!
//! Assumptions about a device: a 4 KiB write may tear, unsynced writes may be lost or reordered, and data is durable
//! after a sync has returned.

mod allocate;
mod anonymous;
mod dangling;
mod directory;
mod disk;
mod disk_file;
mod file_system;
mod huge;
mod lazy;
mod limited;
mod lock;
mod mapped;
mod mapping;
mod new_file;
mod on_demand;
mod owner;
mod status;
mod stripes;
mod unsupported;

pub(crate) use allocate::{allocate_at, available, within_limit};
pub(crate) use anonymous::Anonymous;
pub(crate) use dangling::dangling;
pub use directory::Directory;
pub use disk::Disk;
pub(crate) use disk::check_path;
pub use file_system::FileSystem;
pub(crate) use huge::HugePages;
pub(crate) use limited::Limited;
pub(crate) use lock::{ByteLocks, forks};
pub(crate) use mapping::{HUGE_PAGE, Mapping, OfAtomics};

pub use mapped::Mapped;
pub use new_file::{Allocate, NewFile, Stripes};
pub(crate) use owner::hand_over;
pub(crate) use stripes::stripe_bytes;

use std::{fmt, io, sync::Arc};

/// A directory with the files of one space.
pub trait Device: Send + Sync + fmt::Debug {
    fn directory(&self) -> &Arc<Directory>;
    /// The names of the files in the directory.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file, or checks that it can be opened: the number of open files does not grow with the files of a space.
    /// With `new`, makes the file, with the given room as far as a file can have it without being written; fails if the
    /// name is taken.
    fn open(&self, name: &str, access: Access, new: Option<&NewFile>) -> io::Result<Arc<dyn File>>;
    /// Changes the names of files.
    fn name(&self, change: Naming<'_>) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Opens the lock file `name`; makes it if it is missing. To take locks, with `Access::Write`: if this user owns the
    /// file, only the owner keeps the right to open it.
    fn lock_file(&self, name: &str, access: Access) -> io::Result<Box<dyn LockFile>>;
}

impl dyn Device + '_ {
    /// The path of the directory, for messages.
    pub fn path(&self) -> String {
        self.directory().printable()
    }
}

/// A change of the names in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming<'a> {
    Rename {
        from: &'a str,
        to: &'a str,
    },
    Remove(&'a str),
    /// Gives the file `of` the second name `name`.
    Link {
        of: &'a str,
        name: &'a str,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// A file of a space. Reads and writes may be short, as the system's are.
pub trait File: Send + Sync + fmt::Debug {
    fn read(&self, buffer: &mut [u8], offset: u64, from: Source) -> io::Result<usize>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes all earlier writes durable: those through this handle, and those to this file by processes that have
    /// ended.
    fn sync(&self) -> io::Result<()>;
    fn status(&self, known: Known) -> io::Result<FileStatus>;
    /// Keeps the file open until this is dropped, so later use needs no further opening.
    fn stay_open(&self) -> io::Result<()> {
        Ok(())
    }

    /// A mapping of `bytes` bytes at `offset`, both multiples of 4096, of a file in memory. `Unsupported`: the file is
    /// not in memory, or not mapped yet and `new` is `Nothing`.
    fn map(&self, _offset: u64, _bytes: u64, _new: MapNew) -> io::Result<Mapped> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl dyn File + '_ {
    /// Reads from the medium.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buffer, offset, Source::Medium)
    }

    /// The file's length as this machine knows it, without asking a server.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.status(Known::Here)?.bytes)
    }

    /// The bytes that the file takes on the medium, as far as the file system reports them (`FileSystem::sets_aside`).
    pub fn allocated_bytes(&self) -> io::Result<u64> {
        let status = self.status(Known::Everywhere)?;
        Ok(status.allocated_bytes.unwrap_or(status.bytes))
    }

    /// Whether machines that write to the file need not wait for one another, because lazy I/O was granted.
    pub fn is_lazy(&self) -> bool {
        self.status(Known::Here).is_ok_and(|status| status.is_lazy)
    }
}

/// The place from which `File::read` takes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Medium,
    /// The cache, if only this machine uses the file system; otherwise the medium. The cache shows the writes of all
    /// processes, durable or not.
    Cache,
}

/// The extent of the knowledge that a status is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// This machine: no server is asked.
    Here,
    /// All machines that use the file system.
    Everywhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileStatus {
    /// Length of the file.
    pub bytes: u64,
    /// The bytes that the file takes on the medium; `None`: not asked, or as many as its length.
    pub allocated_bytes: Option<u64>,
    /// Lazy I/O was granted.
    pub is_lazy: bool,
}

impl FileStatus {
    pub fn of(bytes: u64) -> FileStatus {
        FileStatus { bytes, ..FileStatus::default() }
    }
}

/// The part of a file that `File::map` maps if the file is not mapped yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapNew {
    Nothing,
    /// So many bytes from the beginning, which are allocated by then, and none beyond, however long the file is.
    First(u64),
}

/// Ranks lock one byte each, below this one. Locks beyond are held for an instant, while a hold is taken.
pub const RANK_BYTES: u64 = 1 << 32;

/// Locks on single bytes of a file, freed when the holder closes it or dies.
pub trait LockFile: Send + Sync + fmt::Debug {
    /// Locks a byte, or frees it if it is locked here.
    fn set(&self, byte: u64, lock: Lock) -> io::Result<LockOutcome>;
    /// Whether another holder has locked one of `bytes` bytes from `from` on, as `set` does. A lock for reading does
    /// not count, because every reader of the file can take one. `Unsupported`: the file system has no locks.
    fn is_locked_in(&self, from: u64, bytes: u64) -> io::Result<bool>;
    /// Whether the file still has its name. If not, others lock another file.
    fn is_named(&self) -> bool {
        true
    }
}

impl dyn LockFile + '_ {
    pub fn try_lock(&self, byte: u64) -> io::Result<LockOutcome> {
        self.set(byte, Lock::Hold)
    }

    pub fn unlock(&self, byte: u64) -> io::Result<()> {
        self.set(byte, Lock::Free).map(drop)
    }

    /// Whether another holder has a lock on any of the first `RANK_BYTES` bytes.
    pub fn is_locked(&self) -> io::Result<bool> {
        self.is_locked_in(0, RANK_BYTES)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Hold,
    Free,
}

/// A process that has a lock for reading. Every process that can read the file can take one. Mainstay's own locks are
/// never for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockReader {
    /// The process's id; `None` if the kernel does not say.
    pub process: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// The byte is as it was to be.
    Done,
    Busy,
    /// A lock for reading is in the way.
    Read(LockReader),
    /// The file system has no locks.
    Unsupported,
}

/// Reads until `buffer` is full; if the file ends before, an error of kind `UnexpectedEof`.
pub(crate) fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    fill(buffer, offset, |buffer, offset| file.read_at(buffer, offset))
}

/// The same from the cache, if it shows the writes of all processes.
pub(crate) fn peek_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    fill(buffer, offset, |buffer, offset| file.read(buffer, offset, Source::Cache))
}

fn fill(mut buffer: &mut [u8], mut offset: u64, read: impl Fn(&mut [u8], u64) -> io::Result<usize>) -> io::Result<()> {
    while !buffer.is_empty() {
        match read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `bytes`, however short the single writes are; returns the number of writes.
pub(crate) fn write_full(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<u64> {
    let mut writes = 0;
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
                writes += 1;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(writes)
}
