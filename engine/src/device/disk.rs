//! A directory of the file system. Aligned transfers go past the page cache (O_DIRECT) where the
//! file system allows it; the rest, and file systems without it, go through the cache. On FUSE writes go past the
//! kernel's cache alone: it takes them in small requests, of which each would else have to be durable before the next.

use super::{
    Access, Device, File, FileSystem, LockFile, Room, Stripes,
    allocate::set_aside,
    available, lazy,
    lock::ByteLocks,
    on_demand::{OnDemand, Recent},
    status::known,
    stripes, within_limit,
};
use crate::{
    error::{Error, Result},
    printable::printable_path,
};
use nix::{
    fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, posix_fadvise},
    sys::statfs::{FUSE_SUPER_MAGIC, fstatfs},
};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::{self, Path, PathBuf},
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
    recent: Arc<Recent>,
}

impl Disk {
    /// The directory of a space that exists.
    pub fn existing(directory: &Path) -> Disk {
        Disk { directory: directory.to_owned(), device_number: OnceLock::new(), recent: Arc::default() }
    }

    /// Makes the directory, for this user alone, if it is missing.
    pub fn make(directory: &Path) -> Result<Disk> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        // The program may change its working directory before the first file is made.
        let found = made.and_then(|()| directory.canonicalize());
        found.map(|directory| Disk::existing(&directory)).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Error::NotASpace { path: printable_path(directory), why: "it is not a directory".to_owned() }
            }
            _ if directory.as_os_str().is_empty() => {
                Error::argument("path", "it is empty; give the directory of the space")
            }
            _ => Error::io("making the directory", printable_path(directory), e),
        })
    }

    /// A new file without a byte in it, striped as wished for.
    fn make_empty(&self, name: &str, file_system: &FileSystem, wanted: Stripes) -> io::Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if let (FileSystem::Lustre { lfs: Some(lfs) }, true) = (file_system, wanted.is_chosen()) {
            stripes::make_lustre(lfs, &self.directory.join(name), wanted)?;
        } else {
            options.create_new(true).mode(0o600);
        }
        let file = DiskFile::open(&self.directory.join(name), &options)?;
        stripes::choose(file_system, &file.cached, wanted).inspect_err(|_| self.forget(name))?;
        Ok(file)
    }

    /// Removes what could not be made; what is left is cleared away by the next opening.
    fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.directory.join(name));
    }
}

impl Device for Disk {
    fn path(&self) -> String {
        printable_path(&self.directory)
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

    fn create(&self, name: &str, room: &Room) -> io::Result<Arc<dyn File>> {
        let file_system = if room.bytes > 0 { self.file_system() } else { FileSystem::Other };
        let file = self.make_empty(name, &file_system, room.stripes)?;
        set_aside(&file.cached, room, file_system.sets_aside()).inspect_err(|_| self.forget(name))?;
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let path = path::absolute(self.directory.join(name))?;
        Ok(Arc::new(OnDemand::open(path, access, &self.recent)?))
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

    fn file_system(&self) -> FileSystem {
        FileSystem::of(&self.directory)
    }

    fn available_bytes(&self) -> Option<u64> {
        fs::File::open(&self.directory).ok().as_ref().and_then(available)
    }

    fn stripe_bytes(&self, wanted: Stripes, probe: &str) -> io::Result<u64> {
        let file_system = self.file_system();
        match wanted.bytes {
            _ if !file_system.has_stripes() => Ok(0),
            // What a file gets that nobody chose for, only a file tells.
            0 => {
                let file = self.make_empty(probe, &file_system, wanted)?;
                let bytes = stripes::stripe_bytes(&file_system, &self.directory.join(probe), &file.cached);
                self.forget(probe);
                bytes
            }
            chosen => Ok(chosen),
        }
    }
}

/// A file that is open, with a handle past the page cache where there can be one.
#[derive(Debug)]
pub(super) struct DiskFile {
    cached: fs::File,
    direct: Option<fs::File>,
    is_on_fuse: bool,
    is_lazy: bool,
    cached_writes: AtomicBool,
}

impl DiskFile {
    pub(super) fn open(path: &Path, options: &OpenOptions) -> io::Result<DiskFile> {
        // A pipe that lies there must not hold us.
        let cached = options.clone().custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        if !cached.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        // The file exists by now: the second handle must not create, only go past the cache.
        let direct = options.clone().create_new(false).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECT).open(path);
        let direct = match direct {
            Ok(direct) => Some(direct),
            Err(e) if refuses_direct(&e) => None,
            // Without it the file would go through the cache, and nobody would know.
            Err(e) => return Err(e),
        };
        let file_system = fstatfs(&cached).map(|found| found.filesystem_type());
        let is_lazy = file_system
            .is_ok_and(|of| [Some(&cached), direct.as_ref()].iter().flatten().all(|file| lazy::ask(file, of)));
        let is_on_fuse = file_system == Ok(FUSE_SUPER_MAGIC);
        if is_on_fuse && direct.is_some() {
            // Good for speed alone.
            let _ = set_direct(&cached, true);
        }
        Ok(DiskFile { cached, direct, is_on_fuse, is_lazy, cached_writes: AtomicBool::new(false) })
    }

    fn direct_for(&self, address: *const u8, bytes: usize, offset: u64) -> Option<&fs::File> {
        let aligned = (address.addr() | bytes | offset as usize).is_multiple_of(ALIGNMENT);
        self.direct.as_ref().filter(|_| aligned)
    }

    /// Has `transfer` done through the file system's cache; on FUSE past the kernel's, unless the process there refuses
    /// that.
    fn through_cache<T>(&self, mut transfer: impl FnMut(&fs::File) -> io::Result<T>) -> io::Result<T> {
        match transfer(&self.cached) {
            Err(e) if self.is_on_fuse && refuses_direct(&e) && set_direct(&self.cached, false).is_ok() => {
                transfer(&self.cached)
            }
            done => done,
        }
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
        self.through_cache(|cached| cached.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        within_limit(offset.saturating_add(bytes.len() as u64))?;
        if !self.is_on_fuse
            && let Some(direct) = self.direct_for(bytes.as_ptr(), bytes.len(), offset)
        {
            return direct.write_at(bytes, offset);
        }
        self.cached_writes.store(true, Ordering::Release);
        self.through_cache(|cached| cached.write_at(bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        // Each descriptor reports the write errors that came since it was opened: sync what wrote, and nothing
        // else, for a sync may wait for all that other processes have written to the file meanwhile.
        let direct = self.direct.as_ref().filter(|_| !self.is_on_fuse);
        if self.cached_writes.load(Ordering::Acquire) || direct.is_none() {
            self.cached.sync_data()?;
        }
        direct.map_or(Ok(()), fs::File::sync_data)?;
        // Nobody would ever find what lies in a file without a name.
        if known(&self.cached)?.links == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed meanwhile"));
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(known(&self.cached)?.bytes)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        const UNIT: u64 = 512;
        Ok(self.cached.metadata()?.blocks() * UNIT)
    }

    fn available_bytes(&self) -> Option<u64> {
        available(&self.cached)
    }

    fn is_lazy(&self) -> bool {
        self.is_lazy
    }

    fn takes_processor(&self) -> bool {
        self.is_on_fuse
    }
}

/// With O_DIRECT, what is written to a file on FUSE goes from the program's memory to the file system's process without
/// a copy in the kernel between. That process was not told of it when it opened the file, and may cache what it gets.
fn set_direct(file: &fs::File, direct: bool) -> nix::Result<()> {
    let mut flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_DIRECT, direct);
    fcntl(file, FcntlArg::F_SETFL(flags)).map(drop)
}

fn refuses_direct(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a process behind FUSE may, a local file system refuses O_DIRECT for what is not aligned.
    #[test]
    fn what_refuses_to_be_written_past_the_cache_is_written_through_it() {
        // Where it was built is no tmpfs, which would take it.
        let built = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
        let file = DiskFile { is_on_fuse: true, ..DiskFile::open(&folder.path().join("file"), &options).unwrap() };
        set_direct(&file.cached, true).unwrap();
        assert_eq!(file.write_at(b"odd", 1).unwrap(), 3);
        set_direct(&file.cached, true).unwrap();
        let mut read = [0; 3];
        assert_eq!(file.read_at(&mut read, 1).unwrap(), 3);
        assert_eq!(&read, b"odd");
        file.sync().unwrap();
    }
}
