//! A directory of the file system. Aligned transfers go past the page cache (O_DIRECT) where the
//! file system allows it; the rest, and file systems without it, go through the cache. On FUSE writes do too: it
//! takes them in small requests, of which each would have to be durable before the next one.

use super::{Access, Device, File, LockFile, allocate, lock::ByteLocks, status::known, within_limit};
use nix::{
    fcntl::{PosixFadviseAdvice, posix_fadvise},
    sys::statfs::{FUSE_SUPER_MAGIC, fstatfs},
};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// What O_DIRECT may ask of addresses, offsets and lengths on any device in use.
const ALIGNMENT: usize = 4096;

#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
    device_number: OnceLock<u64>,
}

impl Disk {
    /// The directory of a space that exists.
    pub fn existing(directory: &Path) -> Disk {
        Disk { directory: directory.to_owned(), device_number: OnceLock::new() }
    }

    /// Makes the directory, for this user alone, if it is missing.
    pub fn make(directory: &Path) -> io::Result<Disk> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // The program may change its working directory before the first file is made.
        Ok(Disk::existing(&directory.canonicalize()?))
    }

    fn open_with(&self, name: &str, options: &OpenOptions) -> io::Result<DiskFile> {
        let path = self.directory.join(name);
        // A pipe that lies there must not hold us.
        let cached = options.clone().custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path)?;
        if !cached.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        // The file exists by now: the second handle must not create, only go past the cache.
        let direct = options.clone().create_new(false).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECT).open(&path);
        let writes_direct = fstatfs(&cached).map_or(true, |found| found.filesystem_type() != FUSE_SUPER_MAGIC);
        Ok(DiskFile { cached, direct: direct.ok(), writes_direct, cached_writes: AtomicBool::new(false) })
    }
}

impl Device for Disk {
    fn path(&self) -> String {
        self.directory.display().to_string()
    }

    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn device_number(&self) -> u64 {
        let ask = || fs::metadata(&self.directory).map_or(0, |found| found.dev());
        *self.device_number.get_or_init(ask)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            // A name that is not text is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<dyn File>> {
        let file = self.open_with(name, OpenOptions::new().read(true).write(true).create_new(true).mode(0o600))?;
        if let Err(error) = allocate(&file.cached, bytes) {
            fs::remove_file(self.directory.join(name))?;
            return Err(error);
        }
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let file = self.open_with(name, OpenOptions::new().read(true).write(access == Access::Write))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        fs::File::open(&self.directory)?.sync_all()
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn LockFile>> {
        Ok(Box::new(ByteLocks::open(&self.directory.join(name))?))
    }
}

#[derive(Debug)]
struct DiskFile {
    cached: fs::File,
    direct: Option<fs::File>,
    writes_direct: bool,
    cached_writes: AtomicBool,
}

impl DiskFile {
    fn direct_for(&self, address: *const u8, bytes: usize, offset: u64) -> Option<&fs::File> {
        let aligned = (address.addr() | bytes | offset as usize).is_multiple_of(ALIGNMENT);
        self.direct.as_ref().filter(|_| aligned)
    }
}

impl File for DiskFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(direct) = self.direct_for(buffer.as_ptr(), buffer.len(), offset) {
            return direct.read_at(buffer, offset);
        }
        // What lies in the cache may be older than the medium (another mount) or a lie (a failed sync).
        let _ =
            posix_fadvise(&self.cached, offset as i64, buffer.len() as i64, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        self.cached.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        within_limit(offset.saturating_add(bytes.len() as u64))?;
        if self.writes_direct
            && let Some(direct) = self.direct_for(bytes.as_ptr(), bytes.len(), offset)
        {
            return direct.write_at(bytes, offset);
        }
        self.cached_writes.store(true, Ordering::Release);
        self.cached.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // Each descriptor reports the write errors that came since it was opened: sync what wrote.
        if self.cached_writes.load(Ordering::Acquire) || self.direct.is_none() {
            self.cached.sync_data()?;
        }
        self.direct.as_ref().map_or(Ok(()), fs::File::sync_data)?;
        // Nobody would ever find what lies in a file without a name.
        if known(&self.cached)?.links == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed meanwhile"));
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(known(&self.cached)?.bytes)
    }
}
