//! A file in a directory. Aligned transfers bypass the page cache (O_DIRECT) if the file system allows it; all others
//! use the cache. On FUSE only writes bypass it, and only the kernel's cache: with the cache, they would go out as
//! small requests, and each would have to be durable before the next.

use super::{
    File, FileStatus, Known, MapNew, Mapped, Source, lazy, mapped::Whole, status::known, unsupported::is_unsupported,
    within_limit,
};
use crate::ground::{FileOperation, files::Open, perform};
use nix::{
    fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise},
    sys::statfs::{
        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FUSE_SUPER_MAGIC, FsType, TMPFS_MAGIC, XFS_SUPER_MAGIC, fstatfs,
    },
};
use std::{
    fs, io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// The alignment that O_DIRECT may require of addresses, offsets and lengths on any device in use.
const ALIGNMENT: usize = 4096;

/// File systems that only one machine uses.
const LOCAL: [FsType; 4] = [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC];

/// An open file, with a second handle that bypasses the page cache, if possible.
#[derive(Debug)]
pub(super) struct DiskFile {
    /// The handle that uses the page cache.
    pub(super) cached: fs::File,
    direct: Option<fs::File>,
    is_on_fuse: bool,
    /// No other machine writes to the file system.
    is_local: bool,
    is_lazy: bool,
    cached_writes: AtomicBool,
    mapping: Whole,
}

impl DiskFile {
    pub(super) fn open(path: &Path, way: &Open) -> io::Result<DiskFile> {
        let cached = way.file(path)?;
        // The file exists by now, so the second handle must not create it.
        let direct = way.clone().again().direct().file(path);
        let direct = match direct {
            Ok(direct) => Some(direct),
            Err(e) if refuses_direct(&e) => None,
            // With any other error, the file would silently use the cache.
            Err(e) => return Err(e),
        };
        let file_system = fstatfs(&cached).map(|found| found.filesystem_type());
        let is_lazy = file_system
            .is_ok_and(|of| [Some(&cached), direct.as_ref()].iter().flatten().all(|file| lazy::ask(file, of)));
        let is_on_fuse = file_system == Ok(FUSE_SUPER_MAGIC);
        let is_local = file_system.is_ok_and(|of| LOCAL.contains(&of));
        if is_on_fuse && direct.is_some() {
            // A failure here only costs speed.
            let _ = set_direct(&cached, true);
        }
        Ok(DiskFile {
            cached,
            direct,
            is_on_fuse,
            is_local,
            is_lazy,
            cached_writes: AtomicBool::new(false),
            mapping: Whole::default(),
        })
    }

    fn direct_for(&self, address: *const u8, bytes: usize, offset: u64) -> Option<&fs::File> {
        let aligned = (address.addr() | bytes | offset as usize).is_multiple_of(ALIGNMENT);
        self.direct.as_ref().filter(|_| aligned)
    }

    /// Does `transfer` through the file system's cache. On FUSE it bypasses the kernel's cache, unless the process that
    /// serves the file system refuses that.
    fn through_cache<T>(&self, mut transfer: impl FnMut(&fs::File) -> io::Result<T>) -> io::Result<T> {
        match transfer(&self.cached) {
            Err(e) if self.is_on_fuse && refuses_direct(&e) && set_direct(&self.cached, false).is_ok() => {
                transfer(&self.cached)
            }
            done => done,
        }
    }

    fn read_now(&self, buffer: &mut [u8], offset: u64, from: Source) -> io::Result<usize> {
        // A write past the cache drops the cached bytes of its range.
        if from == Source::Cache && self.is_local {
            return self.cached.read_at(buffer, offset);
        }
        if let Some(direct) = self.direct_for(buffer.as_ptr(), buffer.len(), offset) {
            return direct.read_at(buffer, offset);
        }
        // Cached bytes may be older than the medium (another mount) or wrong (a failed sync).
        let _ =
            posix_fadvise(&self.cached, offset as i64, buffer.len() as i64, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        self.through_cache(|cached| cached.read_at(buffer, offset))
    }

    fn write_now(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !self.is_on_fuse
            && let Some(direct) = self.direct_for(bytes.as_ptr(), bytes.len(), offset)
        {
            return direct.write_at(bytes, offset);
        }
        self.cached_writes.store(true, Ordering::Release);
        self.through_cache(|cached| cached.write_at(bytes, offset))
    }

    fn sync_now(&self) -> io::Result<()> {
        // A descriptor reports the write errors since it was opened, so the writing descriptor is synced. No other is:
        // a sync may wait for all that other processes have written to the file meanwhile.
        let direct = self.direct.as_ref().filter(|_| !self.is_on_fuse);
        if self.cached_writes.load(Ordering::Acquire) || direct.is_none() {
            self.cached.sync_data()?;
        }
        direct.map_or(Ok(()), fs::File::sync_data)?;
        // A file without a name cannot be found again, so its contents are lost.
        if known(&self.cached)?.links == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed meanwhile"));
        }
        Ok(())
    }
}

impl File for DiskFile {
    fn read(&self, buffer: &mut [u8], offset: u64, from: Source) -> io::Result<usize> {
        perform(FileOperation::Read { file: &self.cached }, || self.read_now(buffer, offset, from))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        within_limit(offset.saturating_add(bytes.len() as u64))?;
        perform(FileOperation::Write { file: &self.cached, at: offset, bytes }, || self.write_now(bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        perform(FileOperation::Sync { file: &self.cached }, || self.sync_now())
    }

    fn status(&self, of: Known) -> io::Result<FileStatus> {
        const UNIT: u64 = 512;
        let (bytes, allocated_bytes) = match of {
            Known::Here => (known(&self.cached)?.bytes, None),
            Known::Everywhere => {
                let found = self.cached.metadata()?;
                (found.len(), Some(found.blocks() * UNIT))
            }
        };
        Ok(FileStatus { bytes, allocated_bytes, is_lazy: self.is_lazy })
    }

    fn map(&self, offset: u64, bytes: u64, new: MapNew) -> io::Result<Mapped> {
        self.mapping.part(&self.cached, offset, bytes, new)
    }
}

/// With O_DIRECT, writes to a file on FUSE go from the program's memory to the file system's process without a copy in
/// the kernel. That process did not see the flag when it opened the file, and may cache the data.
fn set_direct(file: &fs::File, direct: bool) -> nix::Result<()> {
    let mut flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_DIRECT, direct);
    fcntl(file, FcntlArg::F_SETFL(flags)).map(drop)
}

fn refuses_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL) || is_unsupported(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A local file system refuses O_DIRECT for unaligned writes, as a process behind FUSE may.
    #[test]
    fn what_refuses_to_be_written_past_the_cache_is_written_through_it() {
        // The build folder is not on a tmpfs, which would accept them.
        let built = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        let options = Open::to_read_and_write().or_make();
        let file = DiskFile { is_on_fuse: true, ..DiskFile::open(&folder.path().join("file"), &options).unwrap() };
        set_direct(&file.cached, true).unwrap();
        assert_eq!(file.write_at(b"odd", 1).unwrap(), 3);
        set_direct(&file.cached, true).unwrap();
        let mut read = [0; 3];
        assert_eq!(file.read(&mut read, 1, Source::Medium).unwrap(), 3);
        assert_eq!(&read, b"odd");
        file.sync().unwrap();
    }

    /// A command's write past the cache is visible to a job that reads without asking the device.
    #[test]
    fn a_peek_sees_what_others_have_written() {
        const BYTES: usize = 4 * ALIGNMENT;
        let built = std::env::current_exe().unwrap();
        for folder in [built.parent().unwrap(), Path::new("/dev/shm")] {
            let folder = tempfile::tempdir_in(folder).unwrap();
            let (path, options) = (folder.path().join("file"), Open::to_read_and_write());
            let first = DiskFile::open(&path, &options.clone().or_make()).unwrap();
            first.write_at(&[0; BYTES], 0).unwrap();
            let second = DiskFile::open(&path, &options).unwrap();
            let mut memory = crate::space::Aligned::zeroed(BYTES as u64).unwrap();
            for round in 1..100_u8 {
                memory[..BYTES].fill(round);
                let (from, bytes) = if round % 3 == 0 { (ALIGNMENT + 1, 7) } else { (ALIGNMENT, 2 * ALIGNMENT) };
                second.write_at(&memory[from..from + bytes], from as u64).unwrap();
                let mut seen = [0; BYTES];
                assert_eq!(first.read(&mut seen, 0, Source::Cache).unwrap(), BYTES);
                assert!(seen[from..from + bytes].iter().all(|byte| *byte == round), "round {round}");
            }
        }
    }
}
