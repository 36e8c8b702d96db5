//! A file without a name, in memory: what came from another rank is read there as from any other file.

use super::{File, Mapped};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{fs, io, os::unix::fs::FileExt};

#[derive(Debug)]
pub(crate) struct Anonymous(fs::File);

impl Anonymous {
    /// An empty one of `bytes` bytes.
    pub(crate) fn of(bytes: u64) -> io::Result<Anonymous> {
        let file = fs::File::from(memfd_create(c"mainstay", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(bytes)?;
        Ok(Anonymous(file))
    }
}

impl File for Anonymous {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    /// Nothing of it outlives the process.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn map(&self, offset: u64, bytes: u64) -> Option<Mapped> {
        Mapped::of(&self.0, offset, bytes)
    }
}
