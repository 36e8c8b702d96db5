//! A shared mapping of a file. Forked children do not inherit it, because a surviving child would keep the memory
//! allocated.

use super::forks;
use std::{fs::File, io, os::fd::AsRawFd, ptr};

pub(crate) const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;

#[derive(Debug)]
pub(crate) struct Mapping {
    at: *mut u8,
    bytes: usize,
    forks: u32,
}

// SAFETY: other processes share the memory anyway; code that hands out references to it states why they do not overlap.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

/// Values that may be referenced while other processes write to them.
///
/// # Safety
/// The type consists of atomics only: any bytes are valid, and any thread may change them.
#[allow(unsafe_code)]
pub(crate) unsafe trait OfAtomics {}

#[allow(unsafe_code)]
impl Mapping {
    /// Maps the first `bytes` of `file`, at an address for huge pages.
    pub(crate) fn new(file: &File, bytes: u64) -> io::Result<Mapping> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = usize::try_from(bytes).map_err(|_| too_large())?.next_multiple_of(PAGE);
        let reserved = bytes.checked_add(HUGE_PAGE).ok_or_else(too_large)?;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let from = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0)
        };
        if from == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let from = from.cast::<u8>();
        let before = from.align_offset(HUGE_PAGE);
        // SAFETY: the address is inside the reserved range; the rest of the range is unmapped below.
        unsafe {
            let at = from.add(before);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            if libc::mmap(at.cast(), bytes, access, flags, file.as_raw_fd(), 0) == libc::MAP_FAILED {
                let error = io::Error::last_os_error();
                libc::munmap(from.cast(), reserved);
                return Err(error);
            }
            if before > 0 {
                libc::munmap(from.cast(), before);
            }
            libc::munmap(at.add(bytes).cast(), reserved - before - bytes);
            libc::madvise(at.cast(), bytes, libc::MADV_DONTFORK);
            Ok(Mapping { at, bytes, forks: forks() })
        }
    }

    /// The length of the mapping, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the `bytes` bytes from `at` on.
    pub(crate) fn part(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside of a mapping");
        // SAFETY: inside the mapping, as was just checked.
        unsafe { self.at.add(at) }
    }

    pub(crate) fn shared<T: OfAtomics>(&self, at: usize) -> &T {
        &self.shared_row(at, 1)[0]
    }

    /// The `count` consecutive values from `at` on.
    pub(crate) fn shared_row<T: OfAtomics>(&self, at: usize, count: usize) -> &[T] {
        assert!(at.is_multiple_of(align_of::<T>()) && count <= self.bytes / size_of::<T>());
        let first = self.part(at, count * size_of::<T>()).cast::<T>();
        // SAFETY: inside the mapping and aligned, as was just checked; any bytes are valid (`OfAtomics`).
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// Asks for huge pages: fewer faults and faster copies. The kernel collapses only ranges that already have a page.
    /// A kernel that cannot (before 6.1), or has no memory, leaves the range as it is.
    pub(crate) fn collapse(&self, at: usize, bytes: usize) {
        const MADV_COLLAPSE: libc::c_int = 25;
        self.advise(at, bytes, MADV_COLLAPSE);
    }

    /// Brings every page into the page table, without changing any. No fault then interrupts a copy.
    pub(crate) fn populate(&self, at: usize, bytes: usize) {
        // Before Linux 5.14 this does nothing, and faults come during the copy.
        self.advise(at, bytes, libc::MADV_POPULATE_WRITE);
    }

    fn advise(&self, at: usize, bytes: usize, advice: libc::c_int) {
        // SAFETY: advice on a mapping of our own; it changes no contents.
        unsafe { libc::madvise(self.part(at, bytes).cast(), bytes, advice) };
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // In a forked child, other memory may be at this address.
        if forks() == self.forks {
            // SAFETY: the mapping is our own; references to it borrow `self`.
            unsafe { libc::munmap(self.at.cast(), self.bytes) };
        }
    }
}
