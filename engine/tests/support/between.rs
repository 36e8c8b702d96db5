//! A disk with a test between it and the engine.

use mainstay_engine::device::{
    Access, Device, Directory, Disk, File, FileStatus, Known, LockFile, MapNew, Mapped, Naming, NewFile, Source,
};
use std::{fmt, io, sync::Arc};

/// The disk operations that a test can change. By default each goes to the disk unchanged.
pub trait Between: fmt::Debug + Send + Sync + 'static {
    fn list(&self, disk: &Disk) -> io::Result<Vec<String>> {
        disk.list()
    }
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        disk.open(name, Access::Write, Some(wanted))
    }
    fn open(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        disk.open(name, access, None)
    }
    fn rename(&self, disk: &Disk, from: &str, to: &str) -> io::Result<()> {
        disk.name(Naming::Rename { from, to })
    }
    fn remove(&self, disk: &Disk, name: &str) -> io::Result<()> {
        disk.name(Naming::Remove(name))
    }
    fn sync_directory(&self, disk: &Disk) -> io::Result<()> {
        disk.sync_directory()
    }
    fn lock_file(&self, disk: &Disk, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        disk.lock_file(name, access)
    }
    fn directory(&self, disk: &Disk) -> Arc<Directory> {
        disk.directory().clone()
    }
    fn read_at(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buffer, offset)
    }
    fn write_at(&self, file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }
    fn sync(&self, file: &dyn File) -> io::Result<()> {
        file.sync()
    }
    fn bytes(&self, file: &dyn File) -> io::Result<u64> {
        file.bytes()
    }
}

/// A clone is the same disk.
#[derive(Debug)]
pub struct Watched<B> {
    disk: Arc<Disk>,
    directory: Arc<Directory>,
    pub between: Arc<B>,
}

impl<B: Between> Watched<B> {
    pub fn new(disk: Disk, between: B) -> Watched<B> {
        Watched { directory: between.directory(&disk), disk: Arc::new(disk), between: Arc::new(between) }
    }

    fn watched(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { file, between: self.between.clone() })
    }
}

impl<B> Clone for Watched<B> {
    fn clone(&self) -> Watched<B> {
        Watched { disk: self.disk.clone(), directory: self.directory.clone(), between: self.between.clone() }
    }
}

impl<B: Between> Device for Watched<B> {
    fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.between.list(&self.disk)
    }
    fn open(&self, name: &str, access: Access, new: Option<&NewFile>) -> io::Result<Arc<dyn File>> {
        let file = match new {
            Some(wanted) => self.between.create(&self.disk, name, wanted)?,
            None => self.between.open(&self.disk, name, access)?,
        };
        Ok(self.watched(file))
    }
    fn name(&self, change: Naming<'_>) -> io::Result<()> {
        match change {
            Naming::Rename { from, to } => self.between.rename(&self.disk, from, to),
            Naming::Remove(name) => self.between.remove(&self.disk, name),
            Naming::Link { .. } => Err(io::ErrorKind::Unsupported.into()),
        }
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.between.sync_directory(&self.disk)
    }
    fn lock_file(&self, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        self.between.lock_file(&self.disk, name, access)
    }
}

#[derive(Debug)]
struct WatchedFile<B> {
    file: Arc<dyn File>,
    between: Arc<B>,
}

impl<B: Between> File for WatchedFile<B> {
    fn read(&self, buffer: &mut [u8], offset: u64, _: Source) -> io::Result<usize> {
        self.between.read_at(&*self.file, buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.between.write_at(&*self.file, bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.between.sync(&*self.file)
    }
    fn status(&self, known: Known) -> io::Result<FileStatus> {
        match known {
            Known::Here => Ok(FileStatus::of(self.between.bytes(&*self.file)?)),
            Known::Everywhere => self.file.status(known),
        }
    }
    /// What is mapped already is read all the same, so that the test sees the reads.
    fn map(&self, offset: u64, bytes: u64, new: MapNew) -> io::Result<Mapped> {
        if new == MapNew::Nothing {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.file.map(offset, bytes, new)
    }
    fn stay_open(&self) -> io::Result<()> {
        self.file.stay_open()
    }
}
