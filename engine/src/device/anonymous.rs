//! A file without a name, in memory. A shard from another rank is read from it as from any other file.

use super::{File, FileStatus, Known, MapNew, Mapped, Source, mapped::Whole};
use crate::ground::files;
use std::{fs, io, os::unix::fs::FileExt};

#[derive(Debug)]
pub(crate) struct Anonymous {
    file: fs::File,
    mapping: Whole,
}

impl Anonymous {
    /// An empty file of `bytes` bytes.
    pub(crate) fn of(bytes: u64) -> io::Result<Anonymous> {
        let file = files::in_memory(c"mainstay")?;
        file.set_len(bytes)?;
        Ok(Anonymous { file, mapping: Whole::default() })
    }

    /// The same, mapped and allocated by up to `threads` threads.
    pub(crate) fn with_memory(bytes: u64, threads: usize) -> io::Result<Anonymous> {
        let made = Anonymous::of(bytes)?;
        made.mapping.make(&made.file, bytes, threads)?;
        Ok(made)
    }
}

impl File for Anonymous {
    fn read(&self, buffer: &mut [u8], offset: u64, _: Source) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    /// Does nothing: the file ends with the process.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn status(&self, _: Known) -> io::Result<FileStatus> {
        Ok(FileStatus::of(self.file.metadata()?.len()))
    }

    fn map(&self, offset: u64, bytes: u64, new: MapNew) -> io::Result<Mapped> {
        self.mapping.part(&self.file, offset, bytes, new)
    }
}
