//! A disk that takes so many writes more, and then none: whoever writes waits until its process is killed.

use mainstay_engine::device::{Access, Device, Disk, File, LockFile};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// A copy is the same disk.
#[derive(Debug, Clone)]
pub struct Stuck {
    disk: Arc<Disk>,
    left: Arc<AtomicU64>,
}

#[derive(Debug)]
struct StuckFile {
    file: Arc<dyn File>,
    left: Arc<AtomicU64>,
}

impl Stuck {
    /// Takes all writes yet.
    pub fn new(disk: Disk) -> Stuck {
        Stuck { disk: Arc::new(disk), left: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    pub fn sticks_after(&self, writes: u64) {
        self.left.store(writes, Ordering::SeqCst);
    }

    /// How many writes more it takes.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }

    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(StuckFile { file, left: self.left.clone() })
    }
}

impl Device for Stuck {
    fn path(&self) -> String {
        self.disk.path()
    }

    fn directory(&self) -> PathBuf {
        self.disk.directory()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.disk.create(name, bytes)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.disk.open(name, access)?))
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
        self.disk.lock_file(name)
    }
}

impl File for StuckFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let one_less = |left: u64| left.checked_sub(1);
        while self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            thread::park();
        }
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}
