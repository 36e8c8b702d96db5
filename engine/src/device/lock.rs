//! Byte locks of the kernel (open file description locks). They are freed when the process dies, in any way. Forked
//! children close them, so a child never keeps its dead parent's lock. A child of `vfork` or `posix_spawn` closes them
//! only when it starts its program, so they are freed before they are closed.

use super::{Access, Lock, LockFile, LockOutcome, LockReader, RANK_BYTES, unsupported::is_unsupported};
use crate::ground::{FileOperation, files::Open, perform};
use crate::mutant::{self, Mutant};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    unistd::geteuid,
};
use std::{
    fs, io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
    sync::{
        Once,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
};

#[derive(Debug)]
pub(crate) struct ByteLocks {
    file: fs::File,
    /// The error if the file could not be opened for writing.
    denied: Option<Errno>,
}

impl ByteLocks {
    pub(super) fn open(path: &Path, access: Access) -> io::Result<ByteLocks> {
        // A reader without write permission can still ask which process holds a lock.
        let (file, denied) = match Open::to_read_and_write().or_make().file(path) {
            Err(e) if is_denied(&e) => (Open::to_read().file(path)?, e.raw_os_error().map(Errno::from_raw)),
            file => (file?, None),
        };
        let mut locks = Self::of(file);
        locks.denied = denied;
        if access == Access::Write {
            // The locks work even if the file's mode cannot be changed.
            let _ = locks.make_private();
        }
        Ok(locks)
    }

    /// The locks of an open file. They last as long as this opening of it. If the memory of this handle is mapped, a
    /// forked child keeps it open too, so a mapping needs a handle of its own.
    pub(crate) fn of(file: fs::File) -> ByteLocks {
        close_in_children(file.as_raw_fd());
        ByteLocks { file, denied: None }
    }

    pub(crate) fn file(&self) -> &fs::File {
        &self.file
    }

    pub(crate) fn try_lock(&self, byte: u64) -> io::Result<LockOutcome> {
        perform(FileOperation::Lock { file: &self.file, byte }, || self.try_lock_now(byte))
    }

    fn try_lock_now(&self, byte: u64) -> io::Result<LockOutcome> {
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&range(byte, 1))) {
            Ok(_) => Ok(LockOutcome::Done),
            Err(Errno::EAGAIN | Errno::EACCES) if mutant::is(Mutant::LocksIgnored) => Ok(LockOutcome::Done),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(self.reader_of(byte).map_or(LockOutcome::Busy, LockOutcome::Read)),
            // A file that was opened only for reading cannot take locks.
            Err(Errno::EBADF) => Err(self.denied.unwrap_or(Errno::EACCES).into()),
            Err(errno) => match failed(errno) {
                error if is_unsupported(&error) => Ok(LockOutcome::Unsupported),
                error => Err(error),
            },
        }
    }

    /// Frees a byte, if it is locked here.
    pub(crate) fn unlock(&self, byte: u64) -> io::Result<()> {
        self.unlock_in(byte, 1)
    }

    /// Frees `bytes` bytes; 0: all bytes from `from` on.
    fn unlock_in(&self, from: u64, bytes: u64) -> io::Result<()> {
        let freed = libc::flock { l_type: libc::F_UNLCK as libc::c_short, ..range(from, bytes) };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&freed))?;
        Ok(())
    }

    /// Whether another holder has a lock on any of the first `RANK_BYTES` bytes.
    pub(crate) fn is_locked(&self) -> io::Result<bool> {
        self.is_locked_in(0, RANK_BYTES)
    }

    /// The process with a lock for reading on the byte, which makes `try_lock` fail.
    fn reader_of(&self, byte: u64) -> Option<LockReader> {
        let found = self.in_the_way_of(range(byte, 1)).ok().flatten()?;
        let is_reader = found.l_type == libc::F_RDLCK as libc::c_short;
        is_reader.then(|| LockReader { process: u32::try_from(found.l_pid).ok().filter(|pid| *pid > 0) })
    }

    /// If this user owns the file, leaves only the owner the right to open it.
    fn make_private(&self) -> io::Result<()> {
        let found = self.file.metadata()?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o077 == 0 {
            return Ok(());
        }
        self.file.set_permissions(fs::Permissions::from_mode(found.mode() & 0o700))
    }

    /// A lock of another holder that conflicts with `wanted`. `Unsupported`: the file system has no locks.
    fn in_the_way_of(&self, mut wanted: libc::flock) -> io::Result<Option<libc::flock>> {
        match fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut wanted)) {
            Ok(_) if mutant::is(Mutant::LocksIgnored) => Ok(None),
            Ok(_) => Ok(Some(wanted).filter(|found| found.l_type != libc::F_UNLCK as libc::c_short)),
            Err(errno) => Err(match failed(errno) {
                error if is_unsupported(&error) => io::ErrorKind::Unsupported.into(),
                error => error,
            }),
        }
    }
}

/// The error of the call that has just failed, even one without a name in `nix`.
fn failed(errno: Errno) -> io::Error {
    if errno == Errno::UnknownErrno { io::Error::last_os_error() } else { errno.into() }
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn range(from: u64, bytes: u64) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: from as i64,
        l_len: bytes as i64,
        l_pid: 0,
    }
}

impl LockFile for ByteLocks {
    fn set(&self, byte: u64, lock: Lock) -> io::Result<LockOutcome> {
        match lock {
            Lock::Hold => self.try_lock(byte),
            Lock::Free => self.unlock(byte).map(|()| LockOutcome::Done),
        }
    }

    fn is_locked_in(&self, from: u64, bytes: u64) -> io::Result<bool> {
        let shared = libc::flock { l_type: libc::F_RDLCK as libc::c_short, ..range(from, bytes) };
        Ok(self.in_the_way_of(shared)?.is_some())
    }

    fn is_named(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() > 0)
    }
}

impl Drop for ByteLocks {
    /// A child that another thread has just started may still share this opening of the file, and with it the locks.
    fn drop(&mut self) {
        let fd = self.file.as_raw_fd();
        let forget = |open: &AtomicI32| open.compare_exchange(fd, NONE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // In a forked child the locks are the parent's.
        if OPEN.iter().any(forget) {
            let _ = self.unlock_in(0, 0);
        }
    }
}

const NONE: RawFd = -1;

/// Lock files open in this process. A plain array, because a forked child may take no lock and allocate nothing.
static OPEN: [AtomicI32; 256] = [const { AtomicI32::new(NONE) }; 256];

/// The number of forks between this process and the first one. A different number shows that a value is from a parent
/// process. This reads memory, while asking for the process id is a system call.
static FORKS: AtomicU32 = AtomicU32::new(0);

pub(crate) fn forks() -> u32 {
    register();
    FORKS.load(Ordering::Relaxed)
}

fn close_in_children(fd: RawFd) {
    register();
    for open in &OPEN {
        if open.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

#[allow(unsafe_code)]
fn register() {
    static REGISTERED: Once = Once::new();
    extern "C" fn close_all() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        for open in &OPEN {
            let fd = open.swap(NONE, Ordering::AcqRel);
            if fd != NONE {
                // SAFETY: closes only descriptors of this module, once; close is safe after fork.
                unsafe { libc::close(fd) };
            }
        }
    }
    // SAFETY: the handler touches only atomics and calls close.
    REGISTERED.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(close_all));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child of `posix_spawn` shares the opening until it starts its program; here a second descriptor does.
    #[test]
    fn locks_end_with_their_handle_though_a_child_shares_the_opening() {
        let found = tempfile::NamedTempFile::new().unwrap();
        let open = || Open::to_read_and_write().file(found.path()).unwrap();
        let locks = ByteLocks::of(open());
        let _shared = locks.file().try_clone().unwrap();
        for byte in [0, 7, RANK_BYTES + 3] {
            assert_eq!(locks.try_lock(byte).unwrap(), LockOutcome::Done);
        }
        drop(locks);
        let next = ByteLocks::of(open());
        for byte in [0, 7, RANK_BYTES + 3] {
            assert_eq!(next.try_lock(byte).unwrap(), LockOutcome::Done, "byte {byte}");
        }
    }
}
