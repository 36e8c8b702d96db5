//! Memory that Mainstay allocates for the program: in huge pages, which are protected and copied as such.

use crate::device::HUGE_PAGE;
use std::{io, ops::Range, ptr};

/// Zeros at first; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Allocation {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory like any other; who uses it says how.
#[allow(unsafe_code)]
unsafe impl Send for Allocation {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Allocation {}

#[allow(unsafe_code)]
impl Allocation {
    /// At least `bytes` bytes, at an address of a huge page. With `at`, at that address: `AlreadyExists`, if something
    /// is there. Where the system has no huge pages left it is made of others.
    pub(crate) fn new(bytes: usize, at: Option<usize>) -> io::Result<Allocation> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes.max(1).checked_next_multiple_of(HUGE_PAGE).ok_or_else(too_large)?;
        let allocation = match at {
            Some(at) => Allocation { at: map(at as *mut u8, bytes, libc::MAP_FIXED_NOREPLACE)?, bytes },
            None => {
                let from = map(ptr::null_mut(), bytes.checked_add(HUGE_PAGE).ok_or_else(too_large)?, 0)?;
                let before = from.align_offset(HUGE_PAGE);
                // SAFETY: inside the new mapping, of which the middle is kept.
                unsafe {
                    if before > 0 {
                        libc::munmap(from.cast(), before);
                    }
                    libc::munmap(from.add(before + bytes).cast(), HUGE_PAGE - before);
                    Allocation { at: from.add(before), bytes }
                }
            }
        };
        // SAFETY: a mapping of our own; both are wishes, and the name outlives the call.
        unsafe {
            libc::madvise(allocation.at.cast(), bytes, libc::MADV_HUGEPAGE);
            let (set, name) = (libc::PR_SET_VMA_ANON_NAME, c"mainstay".as_ptr());
            libc::prctl(libc::PR_SET_VMA, set, allocation.at, bytes, name);
        }
        Ok(allocation)
    }

    /// Its addresses.
    pub(crate) fn range(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.bytes
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.at
    }
}

impl Drop for Allocation {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and who had it from us is done with it.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

#[allow(unsafe_code)]
fn map(at: *mut u8, bytes: usize, flags: libc::c_int) -> io::Result<*mut u8> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which replaces no other.
    let mapped = unsafe { libc::mmap(at.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_has_a_name_and_comes_back_at_its_address() {
        let first = Allocation::new(3 << 20, None).unwrap();
        let range = first.range();
        assert!(range.start.is_multiple_of(HUGE_PAGE) && range.len() == 4 << 20);
        assert_eq!(first.address() as usize, range.start);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", range.start))).unwrap();
        assert!(line.ends_with("[anon:mainstay]") || !line.contains("[anon"), "{line}");
        assert_eq!(Allocation::new(1, Some(range.start)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(Allocation::new(usize::MAX, None).is_err());
        // Far from where the system puts things, so that no other test has it meanwhile.
        let at = 0x2a00_0000_0000;
        drop(Allocation::new(1, Some(at)).unwrap());
        assert_eq!(Allocation::new(1, Some(at)).unwrap().range(), at..at + HUGE_PAGE);
    }
}
