//! The pool: a bounded number of aligned chunks in one mapping of /dev/shm, allocated for real and
//! touched at start, so that neither a full /dev/shm nor a page fault comes in the middle of a copy.

use crate::{
    device::{allocate, within_limit},
    error::{Error, Result},
    place::Carried,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use memmap2::{MmapOptions, MmapRaw};
use nix::sys::statvfs::fstatvfs;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    map: MmapRaw,
    chunk_bytes: usize,
    /// Indices of the chunks that nobody holds.
    free: (Sender<usize>, Receiver<usize>),
}

/// One chunk, held by one thread at a time; goes back to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Chunk {
    pool: Arc<Shared>,
    index: usize,
}

impl Pool {
    /// Makes a pool of `bytes` in `directory`. Its file has no name: it ends with the process.
    pub(crate) fn new(directory: &Path, bytes: u64, chunk_bytes: u64) -> Result<Pool> {
        let map = map_shared(directory, bytes)?;
        let (bytes, chunk_bytes) = (bytes as usize, chunk_bytes as usize);
        touch(&map);
        let chunks = bytes / chunk_bytes;
        let free = bounded(chunks);
        for index in 0..chunks {
            // Cannot fail: there is room for all, and the receiver lives beside the sender.
            let _ = free.0.send(index);
        }
        Ok(Pool { shared: Arc::new(Shared { map, chunk_bytes, free }) })
    }

    /// Whether there is room for `pools` pools of `bytes` in `directory`.
    pub(crate) fn check_room(directory: &Path, bytes: u64, pools: u64) -> Result<()> {
        open_with_room(directory, bytes.saturating_mul(pools)).map(drop)
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.shared.chunk_bytes as u64
    }

    /// A free chunk, if there is one.
    pub(crate) fn take_now(&self) -> Option<Chunk> {
        self.shared.free.1.try_recv().ok().map(|index| Chunk { index, pool: self.shared.clone() })
    }

    /// Waits for a free chunk.
    pub(crate) fn take(&self) -> Chunk {
        let index = self.shared.free.1.recv();
        // The sender lives as long as the pool, so that the channel never closes.
        Chunk {
            index: index.unwrap_or_else(|_| unreachable!("the pool holds its own sender")),
            pool: self.shared.clone(),
        }
    }
}

impl Chunk {
    #[allow(unsafe_code)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.index * self.pool.chunk_bytes;
        // SAFETY: the index left the free list when this chunk was made and returns when it is dropped,
        // so that no other reference to these bytes exists; they lie inside the mapping.
        unsafe { std::slice::from_raw_parts_mut(self.pool.map.as_mut_ptr().add(at), self.pool.chunk_bytes) }
    }
}

impl Carried for Chunk {
    #[allow(unsafe_code)]
    fn bytes(&self) -> &[u8] {
        let at = self.index * self.pool.chunk_bytes;
        // SAFETY: as in `bytes_mut`; whoever writes has the chunk for itself.
        unsafe { std::slice::from_raw_parts(self.pool.map.as_ptr().add(at), self.pool.chunk_bytes) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let _ = self.pool.free.0.send(self.index);
    }
}

fn map_shared(directory: &Path, bytes: u64) -> Result<MmapRaw> {
    // Asked first: allocating until it fails would take the memory away from everyone for a while.
    let file = open_with_room(directory, bytes)?;
    let failed = |e| failed(directory, e);
    within_limit(bytes).and_then(|()| file.set_len(bytes)).map_err(failed)?;
    let map = MmapOptions::new().len(bytes as usize).map_raw(&file).map_err(failed)?;
    make_huge_pages(&file, &map);
    allocate(&file, bytes).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOSPC) => full(directory, bytes, &file),
        _ => failed(e),
    })?;
    Ok(map)
}

/// An empty file in a directory that has room for `bytes`.
fn open_with_room(directory: &Path, bytes: u64) -> Result<File> {
    // Without a name and closed to others; nothing is left in the directory, whatever happens.
    let flags = libc::O_TMPFILE | libc::O_EXCL;
    let file = OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(directory);
    let file = file.map_err(|e| failed(directory, e))?;
    if bytes > available(&file) { Err(full(directory, bytes, &file)) } else { Ok(file) }
}

fn available(file: &File) -> u64 {
    match fstatvfs(file) {
        // A tmpfs without a limit (size=0) tells of no blocks at all.
        Ok(room) if room.blocks() > 0 => room.blocks_available().saturating_mul(room.fragment_size()),
        _ => u64::MAX,
    }
}

fn full(directory: &Path, needed: u64, file: &File) -> Error {
    Error::PoolFull { path: directory.display().to_string(), needed, available: available(file) }
}

fn failed(directory: &Path, error: io::Error) -> Error {
    Error::io("making the pool in", directory.display(), error)
}

/// Asks for huge pages: fewer faults and faster copies. Asked before the rest is allocated they are made
/// at once, else small pages are made first and then copied. The kernel collapses only what holds a page
/// already, hence the byte in each; one that cannot (before 6.1), or has no room, leaves it as it is.
#[allow(unsafe_code)]
fn make_huge_pages(file: &File, map: &MmapRaw) {
    const HUGE_PAGE: usize = 2 << 20;
    const MADV_COLLAPSE: libc::c_int = 25;
    // Written, not stored: where /dev/shm is full this is an error, and a store would be a SIGBUS.
    let begun = (0..map.len()).step_by(HUGE_PAGE).all(|at| file.write_at(&[0], at as u64).is_ok());
    if begun {
        // SAFETY: advice on a mapping of our own; it changes no contents.
        unsafe { libc::madvise(map.as_mut_ptr().cast(), map.len(), MADV_COLLAPSE) };
    }
}

#[allow(unsafe_code)]
fn touch(map: &MmapRaw) {
    for at in (0..map.len()).step_by(4096) {
        // SAFETY: inside the mapping, which nobody else uses yet.
        unsafe { map.as_mut_ptr().add(at).write_volatile(0) };
    }
}
