//! A part of a file in memory (tmpfs), mapped: messages between ranks are sent from there, and received there, without a
//! copy between.

use memmap2::{MmapMut, MmapOptions};
use nix::{
    fcntl::{FallocateFlags, fallocate},
    sys::statfs::{TMPFS_MAGIC, fstatfs},
};
use std::fs::File;

/// Bytes of a file, which are there as long as nobody cuts the file short.
#[derive(Debug)]
pub struct Mapped(MmapMut);

impl Mapped {
    /// `None` if `file` does not lie in memory, or has no room for these bytes: a page that is not there when it is
    /// touched would end the program.
    pub(super) fn of(file: &File, offset: u64, bytes: u64) -> Option<Mapped> {
        if bytes == 0 || fstatfs(file).ok()?.filesystem_type() != TMPFS_MAGIC {
            return None;
        }
        let end = offset.checked_add(bytes)?;
        if file.metadata().ok()?.len() < end {
            return None;
        }
        let flags = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(file, flags, i64::try_from(offset).ok()?, i64::try_from(bytes).ok()?).ok()?;
        #[allow(unsafe_code)]
        // SAFETY: the file is a portion, whose blocks have one writer, which is the holder of the mapping while it is
        // filled, and none while it is sent; files of a space are this user's alone and are never cut short.
        let map = unsafe { MmapOptions::new().offset(offset).len(usize::try_from(bytes).ok()?).map_mut(file) };
        map.ok().map(Mapped)
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Mapped {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
