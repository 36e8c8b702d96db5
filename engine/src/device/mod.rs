//! What carries bytes to a medium: a directory of preallocated files. This is the seam at which
//! tests put faults; the engine does all its I/O on spaces through it.
//!
//! Assumed of a device: a 4 KiB write may tear, writes that were not synced may be lost or
//! reordered, and a sync that returned is durable.

mod allocate;
mod anonymous;
mod dangling;
mod disk;
mod disk_file;
mod file_system;
mod huge;
mod lazy;
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
pub use disk::Disk;
pub use file_system::FileSystem;
pub(crate) use huge::HugePages;
pub(crate) use lock::{ByteLocks, forks};
pub(crate) use mapping::{HUGE_PAGE, Mapping, OfAtomics};

pub use mapped::Mapped;
pub use new_file::{Allocate, NewFile, Stripes};
pub(crate) use owner::hand_over;

use std::{fmt, io, path::PathBuf, sync::Arc};

/// A directory that holds the files of one space.
pub trait Device: Send + Sync + fmt::Debug {
    /// The path of the directory, as messages have it: printable.
    fn path(&self) -> String;
    /// The path by which the directory can be opened again: it need be neither printable nor text.
    fn directory(&self) -> PathBuf {
        self.path().into()
    }
    /// The number that tells the directory's file system from others on this machine (`st_dev`), as of the first call; 0:
    /// unknown.
    fn device_number(&self) -> u64 {
        0
    }
    /// The names of the files in the directory.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes a file with the given room, as far as a file can have it without being written; fails if the name is taken.
    fn create(&self, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>>;
    /// Opens a file, or finds out that it can be opened: the number of open files does not grow with the files of a space.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives the file `of` the further name `name`.
    fn link(&self, _of: &str, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Opens the lock file `name`, made if it is missing.
    fn lock_file(&self, name: &str) -> io::Result<Box<dyn LockFile>>;

    /// The file system below, which matters for how portions are laid out.
    fn file_system(&self) -> FileSystem {
        FileSystem::Other
    }

    /// Whether the files of the directory lie in memory, and can be mapped.
    fn is_memory(&self) -> bool {
        false
    }

    /// How many bytes the file system has room for, where that can be told.
    fn available_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes of a stripe of the files that are made with `stripes`; 0 where there are none. To find out, a file
    /// `probe` may be made and removed.
    fn stripe_bytes(&self, _stripes: Stripes, _probe: &str) -> io::Result<u64> {
        Ok(0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// A file of a space. Reads and writes may be short, as the system's are.
pub trait File: Send + Sync + fmt::Debug {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As `read_at`, without asking the device where the file system is this machine's alone: its cache shows what any
    /// process has written, durable or not.
    fn peek_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes durable all that was written before through this handle, and to this file by processes
    /// that have ended.
    fn sync(&self) -> io::Result<()>;
    /// The file's length, as far as this machine knows it: no server is asked.
    fn bytes(&self) -> io::Result<u64>;

    /// How many bytes the file takes on the medium, as far as the file system tells (`FileSystem::sets_aside`).
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.bytes()
    }

    /// How many bytes the file system has room for, where that can be told.
    fn available_bytes(&self) -> Option<u64> {
        None
    }

    /// Keeps the file open until this is dropped, so that using it asks the file system for nothing but bytes.
    fn stay_open(&self) -> io::Result<()> {
        Ok(())
    }

    /// A mapping of `bytes` bytes at `offset`, both multiples of 4096, of a file that lies in memory; the first `whole` bytes
    /// of the file have their memory by then, and none beyond, however long it is. `Unsupported`: the file does not lie in
    /// memory.
    fn map(&self, _offset: u64, _bytes: u64, _whole: u64) -> io::Result<Mapped> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The same of a file that is mapped already; `None` of any other.
    fn mapped(&self, _offset: u64, _bytes: u64) -> Option<Mapped> {
        None
    }

    /// A thread is going to map the file: until it has, `is_mapping_awaited`.
    fn await_mapping(&self) {}

    fn is_mapping_awaited(&self) -> bool {
        false
    }

    /// Whether machines that write to the file need not wait for one another, because lazy I/O was asked for and granted.
    fn is_lazy(&self) -> bool {
        false
    }

    /// Whether writing takes the processor of this machine, because the file system is a process here.
    fn takes_processor(&self) -> bool {
        false
    }
}

/// Bytes that ranks lock, one each; locks beyond are held for an instant, by whoever takes a hold.
pub const RANK_BYTES: u64 = 1 << 32;

/// Locks on single bytes of a file, freed when the holder closes it or dies.
pub trait LockFile: Send + Sync + fmt::Debug {
    fn try_lock(&self, byte: u64) -> io::Result<LockOutcome>;
    /// Frees a byte, if it is locked here.
    fn unlock(&self, byte: u64) -> io::Result<()>;
    /// Whether anyone else holds one of `bytes` bytes from `from` on as `try_lock` does. A lock of the other kind, for
    /// reading, can be taken by whoever may read the file, and says nothing. `Unsupported`: the file system has no locks.
    fn is_locked_in(&self, from: u64, bytes: u64) -> io::Result<bool>;
    /// Whether anyone else holds a lock on any of the first `RANK_BYTES` bytes.
    fn is_locked(&self) -> io::Result<bool> {
        self.is_locked_in(0, RANK_BYTES)
    }
    /// Whether the file still has its name. Others lock another file where it has not.
    fn is_named(&self) -> bool {
        true
    }
    /// Which process has a lock for reading on the byte, so that `try_lock` cannot have it. Mainstay's own locks are never
    /// for reading.
    fn reader_of(&self, _byte: u64) -> Option<LockReader> {
        None
    }
    /// Leaves only its owner the right to open the file, if this user owns it.
    fn make_private(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A process that has a lock for reading, as one can take that may only read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockReader {
    /// The process's id; `None` where the kernel does not tell.
    pub process: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    Held,
    Busy,
    /// The file system has no locks.
    Unsupported,
}

/// Reads until `buffer` is full; a file that ends before is an error of kind `UnexpectedEof`.
pub(crate) fn read_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    fill(buffer, offset, |buffer, offset| file.read_at(buffer, offset))
}

/// The same by `peek_at`.
pub(crate) fn peek_full(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    fill(buffer, offset, |buffer, offset| file.peek_at(buffer, offset))
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

/// Writes all of `bytes`, however short the single writes are; returns how many writes it took.
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
