//! Mapped parts of a file in memory (tmpfs). A program's data is copied there, and messages between ranks are sent from
//! and received into there without a further copy.

use super::{MapNew, Mapping, allocate::is_memory, huge::give_all};
use crate::ground::lock;
use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex},
};

/// Bytes of a block as `stat` counts them.
const STATUS_BLOCK: u64 = 512;

/// Bytes of a file. They stay as long as the file is not cut short.
#[derive(Debug)]
pub struct Mapped {
    of: Arc<Mapping>,
    at: usize,
    bytes: usize,
}

/// The mapping of a whole file. It is made when a part is first requested, and kept as long as the file is open. Each
/// page then faults once, not for each revision.
#[derive(Debug, Default)]
pub(super) struct Whole {
    mapping: Mutex<Option<Arc<Mapping>>>,
}

impl Whole {
    /// A part of `file`. `Unsupported`: the file is not in memory, or not mapped yet and `new` is `Nothing`. Another
    /// error: there is no room for all bytes to map, and touching a missing page would end the program.
    pub(super) fn part(&self, file: &File, offset: u64, bytes: u64, new: MapNew) -> io::Result<Mapped> {
        let of = match new {
            MapNew::First(whole) => self.made(file, whole, 1)?,
            // If another thread maps the file just now, this does not wait for it.
            MapNew::Nothing => {
                self.mapping.try_lock().ok().and_then(|made| made.clone()).ok_or(io::ErrorKind::Unsupported)?
            }
        };
        let [at, bytes] = [offset, bytes].map(usize::try_from);
        let (at, bytes) = (at.map_err(io::Error::other)?, bytes.map_err(io::Error::other)?);
        if at.checked_add(bytes).is_none_or(|end| end > of.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Mapped { of, at, bytes })
    }

    /// Maps the first `whole` bytes of `file`, and allocates them by up to `threads` threads.
    pub(super) fn make(&self, file: &File, whole: u64, threads: usize) -> io::Result<()> {
        self.made(file, whole, threads).map(drop)
    }

    fn made(&self, file: &File, whole: u64, threads: usize) -> io::Result<Arc<Mapping>> {
        let mut kept = lock(&self.mapping);
        if let Some(mapping) = &*kept {
            return Ok(mapping.clone());
        }
        if !is_memory(file) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let metadata = file.metadata()?;
        // The length of a file that has grown is not trusted: it could take all of the machine's memory.
        let bytes = metadata.len().min(whole);
        let map = Mapping::new(file, bytes)?;
        // For allocated memory this is skipped: the kernel would look at every page.
        if metadata.len() > bytes || metadata.blocks().saturating_mul(STATUS_BLOCK) < bytes {
            give_all(file, &map, bytes, threads)?;
        }
        Ok(kept.insert(Arc::new(map)).clone())
    }
}

impl Mapped {
    /// The `bytes` bytes of this part from `from` on.
    pub(crate) fn part(&self, from: u64, bytes: u64) -> Mapped {
        assert!(from + bytes <= self.bytes as u64, "outside of a mapping");
        Mapped { of: self.of.clone(), at: self.at + from as usize, bytes: bytes as usize }
    }

    /// Brings the pages of this part into the page table, without changing any. No fault then interrupts a copy. In a
    /// new file this takes longer than the copy.
    pub(crate) fn touch(&self) {
        self.of.populate(self.at, self.bytes);
    }
}

impl AsRef<[u8]> for Mapped {
    #[allow(unsafe_code)]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: inside the mapping. The file is a portion. Its blocks have one writer, the holder of this part, while
        // they are filled, and none while they are read. Files of a space belong to this user only and are never cut
        // short.
        unsafe { std::slice::from_raw_parts(self.of.part(self.at, self.bytes), self.bytes) }
    }
}

impl AsMut<[u8]> for Mapped {
    #[allow(unsafe_code)]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.of.part(self.at, self.bytes), self.bytes) }
    }
}
