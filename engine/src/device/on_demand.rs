//! Files that are opened when they are used: a space can have more files than a process may have open.
//!
//! Invariant: a descriptor that wrote stays open until it is synced, because only that descriptor gets the errors of
//! its writes. A file that must stay open is never opened again.

use super::{Access, File, FileStatus, Known, MapNew, Mapped, Source, disk_file::DiskFile};
use crate::ground::{files::Open, lock};
use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, Weak},
};

/// The number of files of a directory that stay open after use.
const RECENT: usize = 8;

/// The files that were opened last, the oldest opening first.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Arc<DiskFile>>>);

#[derive(Debug)]
pub(super) struct OnDemand {
    path: PathBuf,
    access: Access,
    recent: Arc<Recent>,
    opening: Mutex<Opening>,
}

#[derive(Debug, Default)]
struct Opening {
    /// The open file, while it is recent or in use.
    file: Weak<DiskFile>,
    /// The open file, if it must stay open: until it is synced, or for good.
    kept: Option<Arc<DiskFile>>,
    stays: bool,
    /// The number of writes. A sync keeps the descriptor open if writes came meanwhile.
    writes: u64,
}

impl Recent {
    fn note(&self, file: &Arc<DiskFile>) {
        let mut files = lock(&self.0);
        files.push_back(file.clone());
        if files.len() > RECENT {
            files.pop_front();
        }
    }

    fn forget(&self, file: &Weak<DiskFile>) {
        lock(&self.0).retain(|other| !std::ptr::eq(Arc::as_ptr(other), file.as_ptr()));
    }
}

impl OnDemand {
    /// The file at `path`, which must be absolute because the program may change its directory.
    pub(super) fn open(path: PathBuf, access: Access, recent: &Arc<Recent>) -> io::Result<OnDemand> {
        let file = OnDemand { path, access, recent: recent.clone(), opening: Mutex::default() };
        file.opened()?;
        Ok(file)
    }

    fn opened(&self) -> io::Result<Arc<DiskFile>> {
        let mut opening = lock(&self.opening);
        if let Some(file) = opening.kept.clone().or_else(|| opening.file.upgrade()) {
            return Ok(file);
        }
        debug_assert!(!opening.stays, "a file that must stay open is opened again");
        let way = match self.access {
            Access::Read => Open::to_read(),
            Access::Write => Open::to_read_and_write(),
        };
        let file = Arc::new(DiskFile::open(&self.path, &way)?);
        opening.file = Arc::downgrade(&file);
        self.recent.note(&file);
        Ok(file)
    }
}

impl File for OnDemand {
    fn read(&self, buffer: &mut [u8], offset: u64, from: Source) -> io::Result<usize> {
        self.opened()?.read(buffer, offset, from)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let file = self.opened()?;
        let written = file.write_at(bytes, offset);
        let mut opening = lock(&self.opening);
        opening.writes += 1;
        opening.kept = Some(file);
        written
    }

    fn sync(&self) -> io::Result<()> {
        let writes = lock(&self.opening).writes;
        self.opened()?.sync()?;
        let mut opening = lock(&self.opening);
        if opening.writes == writes && !opening.stays {
            opening.kept = None;
        }
        Ok(())
    }

    fn status(&self, known: Known) -> io::Result<FileStatus> {
        self.opened()?.status(known)
    }

    fn map(&self, offset: u64, bytes: u64, new: MapNew) -> io::Result<Mapped> {
        self.opened()?.map(offset, bytes, new)
    }

    fn stay_open(&self) -> io::Result<()> {
        let file = self.opened()?;
        let mut opening = lock(&self.opening);
        opening.stays = true;
        opening.kept = Some(file);
        Ok(())
    }
}

impl Drop for OnDemand {
    /// A removed file takes room until it is closed.
    fn drop(&mut self) {
        self.recent.forget(&lock(&self.opening).file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FILES: usize = 3 * RECENT;

    fn files(directory: &tempfile::TempDir, recent: &Arc<Recent>) -> Vec<OnDemand> {
        let open = |index: usize| {
            let path = directory.path().join(index.to_string());
            fs::write(&path, [index as u8; 10]).unwrap();
            OnDemand::open(path, Access::Write, recent).unwrap()
        };
        (0..FILES).map(open).collect()
    }

    fn open_count(files: &[OnDemand]) -> usize {
        files.iter().filter(|file| lock(&file.opening).file.strong_count() > 0).count()
    }

    #[test]
    fn few_are_open_and_all_can_be_read() {
        let (directory, recent) = (tempfile::tempdir().unwrap(), Arc::default());
        let files = files(&directory, &recent);
        for _ in 0..2 {
            for (index, file) in files.iter().enumerate() {
                let mut bytes = [0; 10];
                assert_eq!(file.read(&mut bytes, 0, Source::Medium).unwrap(), 10);
                assert_eq!(bytes, [index as u8; 10]);
                assert!(open_count(&files) <= RECENT);
            }
        }
        drop(files);
        assert!(lock(&recent.0).is_empty(), "unused files are closed");
    }

    /// Story: a sync through a newer descriptor would not report a write that failed.
    #[test]
    fn what_wrote_stays_open_until_it_is_synced() {
        let (directory, recent) = (tempfile::tempdir().unwrap(), Arc::default());
        let files = files(&directory, &recent);
        let opened = |index: usize| lock(&files[index].opening).file.clone();
        for (index, file) in files.iter().enumerate() {
            file.write_at(&[index as u8], 0).unwrap();
        }
        assert_eq!(open_count(&files), FILES);
        let wrote: Vec<_> = (0..FILES).map(opened).collect();
        for (index, file) in files.iter().enumerate() {
            file.sync().unwrap();
            assert!(wrote[index].ptr_eq(&opened(index)), "synced through another descriptor");
        }
        assert!(open_count(&files) <= RECENT);
    }

    #[test]
    fn what_stays_is_never_opened_again() {
        let (directory, recent) = (tempfile::tempdir().unwrap(), Arc::default());
        let files = files(&directory, &recent);
        files[0].stay_open().unwrap();
        let before = lock(&files[0].opening).file.clone();
        files[0].write_at(&[1], 0).unwrap();
        files[0].sync().unwrap();
        for file in &files[1..] {
            file.read(&mut [0; 10], 0, Source::Medium).unwrap();
        }
        fs::remove_file(directory.path().join("0")).unwrap();
        assert_eq!(files[0].read(&mut [0; 10], 0, Source::Medium).unwrap(), 10);
        assert!(before.ptr_eq(&lock(&files[0].opening).file));
    }
}
