//! Parts of a file in memory (tmpfs), mapped: what a program saves is copied there, and messages between ranks are sent
//! from there, and received there, without a copy between.

use super::{Mapping, allocate::is_memory, huge::give_all};
use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Bytes of a block as `stat` counts them.
const STATUS_BLOCK: u64 = 512;

/// Bytes of a file, which are there as long as nobody cuts the file short.
#[derive(Debug)]
pub struct Mapped {
    of: Arc<Mapping>,
    at: usize,
    bytes: usize,
}

/// The mapping of a whole file: made when a part of it is first asked for, and kept as long as the file is open, so that
/// each page is met once, and not by each revision anew.
#[derive(Debug, Default)]
pub(super) struct Whole {
    mapping: Mutex<Option<Arc<Mapping>>>,
    /// A thread is going to map the file.
    is_awaited: AtomicBool,
}

impl Whole {
    /// A part of `file`, of which nothing beyond the first `whole` bytes is mapped. `Unsupported`: the file does not lie in memory; another error: the
    /// file has no room for all of its bytes, and a page that is not there when it is touched would end the program.
    pub(super) fn part(&self, file: &File, offset: u64, bytes: u64, whole: u64) -> io::Result<Mapped> {
        let of = self.get(file, whole)?;
        let [at, bytes] = [offset, bytes].map(usize::try_from);
        let (at, bytes) = (at.map_err(io::Error::other)?, bytes.map_err(io::Error::other)?);
        if at.checked_add(bytes).is_none_or(|end| end > of.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Mapped { of, at, bytes })
    }

    /// The same of a file that is mapped already.
    pub(super) fn part_if_made(&self, offset: u64, bytes: u64) -> Option<Mapped> {
        let of = self.mapping.try_lock().ok()?.clone()?;
        let (at, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        at.checked_add(bytes).filter(|end| *end <= of.bytes()).map(|_| Mapped { of, at, bytes })
    }

    /// A thread is going to map the file, which takes as long as it takes to give the file its memory.
    pub(super) fn await_mapping(&self) {
        self.is_awaited.store(true, Ordering::Release);
    }

    /// Whether whoever asks for a part now has to wait for that thread.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Acquire)
    }

    /// Maps the first `whole` bytes of `file`, and gives them their memory by up to `threads` threads.
    pub(super) fn make(&self, file: &File, whole: u64, threads: usize) -> io::Result<()> {
        self.made(file, whole, threads).map(drop)
    }

    fn get(&self, file: &File, whole: u64) -> io::Result<Arc<Mapping>> {
        let mapping = self.made(file, whole, 1);
        self.is_awaited.store(false, Ordering::Release);
        mapping
    }

    fn made(&self, file: &File, whole: u64, threads: usize) -> io::Result<Arc<Mapping>> {
        let mut kept = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = &*kept {
            return Ok(mapping.clone());
        }
        if !is_memory(file) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let metadata = file.metadata()?;
        // A file that is longer than it was made is not believed: its memory would be the machine's.
        let bytes = metadata.len().min(whole);
        let map = Mapping::new(file, bytes)?;
        // The kernel would look at every page of what is allocated already.
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

    /// Has the pages of this part at hand, without changing any: no fault then comes in the middle of a copy. In a new file
    /// this takes longer than the copy.
    pub(crate) fn touch(&self) {
        self.of.populate(self.at, self.bytes);
    }
}

impl AsRef<[u8]> for Mapped {
    #[allow(unsafe_code)]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: inside the mapping. The file is a portion, whose blocks have one writer, which is the holder of this part
        // while it is filled, and none while it is read; files of a space are this user's alone and are never cut short.
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
