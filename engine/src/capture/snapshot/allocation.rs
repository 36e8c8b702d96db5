//! Memory that Mainstay allocates for the program. It uses huge pages, which are protected and copied as such; a region
//! that fills no huge page gets ordinary ones.

use crate::{
    device::HUGE_PAGE,
    error::{Error, Result},
    ground::lock,
    space::format::hash,
};
use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    ptr,
    sync::{Arc, Mutex, Weak},
};

/// The addresses for memory that has the same address in every run, far from the places that systems use. The hash of a
/// region's name gives its place. The places are close together, so two of many small regions rarely meet.
const PLACES_AT: usize = 0x2000_0000_0000;
const PLACES: u128 = (32 << 40) / HUGE_PAGE as u128;

const PAGE: usize = 4096;

/// All of Mainstay's memory that only the program's instructions write, by its address.
static PROTECTABLE: Mutex<BTreeMap<usize, Weak<OwnMapping>>> = Mutex::new(BTreeMap::new());

/// The program's wishes for memory that Mainstay allocates for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocated {
    /// MPI or system calls such as `read` write into it too. Snapshots of it are then not taken by write protection,
    /// because these calls would fail with EFAULT.
    pub written_by_system: bool,
    /// It has the same address in every run, given by its name, so pointers into it stay valid.
    pub same_address: bool,
}

/// Memory that Mainstay has allocated; zeros at first. It is unmapped once it is neither used nor copied.
#[derive(Debug, Clone)]
pub struct OwnMemory(Arc<OwnMapping>);

impl OwnMemory {
    /// Memory for `bytes` bytes of the region `name`.
    pub(crate) fn new(name: &str, bytes: u64, how: Allocated) -> Result<OwnMemory> {
        let region = || format!("region {name:?}");
        let wanted =
            usize::try_from(bytes).map_err(|_| Error::argument(region(), format!("{bytes} bytes of memory")))?;
        let at = how.same_address.then(|| place_of(name));
        let allocation = OwnMapping::new(wanted, at).map_err(|error| match at {
            Some(at) if error.kind() == io::ErrorKind::AlreadyExists => {
                let why = format!(
                    "other memory is at {at:#x}, the address that belongs to this name; take another name, or wait for the \
                     checkpoint if it was freed while a snapshot copies it"
                );
                Error::argument(region(), why)
            }
            _ => Error::io("allocating", format!("{bytes} bytes for the region {name:?}"), error),
        })?;
        let allocation = Arc::new(allocation);
        if !how.written_by_system {
            lock(&PROTECTABLE).insert(allocation.at as usize, Arc::downgrade(&allocation));
        }
        Ok(OwnMemory(allocation))
    }

    /// Memory at this address; system calls may write it too. `AlreadyExists`: other memory is there.
    pub(in crate::capture) fn at(address: usize, bytes: usize) -> io::Result<OwnMemory> {
        Ok(OwnMemory(Arc::new(OwnMapping::new(bytes, Some(address))?)))
    }

    pub fn address(&self) -> *mut u8 {
        self.0.address()
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.0.range()
    }
}

/// The memory at this address, if it may be protected from writes.
pub(super) fn protectable_at(at: usize) -> Option<Arc<OwnMapping>> {
    let nearest = lock(&PROTECTABLE).range(..=at).next_back().map(|(_, memory)| memory.clone());
    // Without the lock: this may be the last use of memory that another thread frees.
    nearest?.upgrade().filter(|memory| memory.range().contains(&at))
}

/// Whether memory at this address has the same address in every run.
pub(crate) fn has_same_address(at: usize) -> bool {
    (PLACES_AT..PLACES_AT + PLACES as usize * HUGE_PAGE).contains(&at)
}

fn place_of(name: &str) -> usize {
    PLACES_AT + (u128::from_le_bytes(hash(name.as_bytes())) % PLACES) as usize * HUGE_PAGE
}

#[derive(Debug)]
pub(crate) struct OwnMapping {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory like any other; its users state how they use it.
#[allow(unsafe_code)]
unsafe impl Send for OwnMapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for OwnMapping {}

#[allow(unsafe_code)]
impl OwnMapping {
    /// At least `bytes` bytes, at an address of a huge page if they fill one. With `at`, at that address;
    /// `AlreadyExists` if other memory is there. If the system has no huge pages left, the memory has ordinary pages.
    pub(super) fn new(bytes: usize, at: Option<usize>) -> io::Result<OwnMapping> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(too_large)?;
        let allocation = match at {
            Some(at) => OwnMapping { at: map(at as *mut u8, bytes, libc::MAP_FIXED_NOREPLACE)?, bytes },
            None if bytes < HUGE_PAGE => OwnMapping { at: map(ptr::null_mut(), bytes, 0)?, bytes },
            None => {
                let from = map(ptr::null_mut(), bytes.checked_add(HUGE_PAGE).ok_or_else(too_large)?, 0)?;
                let before = from.align_offset(HUGE_PAGE);
                // SAFETY: inside the new mapping; its middle is kept.
                unsafe {
                    if before > 0 {
                        libc::munmap(from.cast(), before);
                    }
                    libc::munmap(from.add(before + bytes).cast(), HUGE_PAGE - before);
                    OwnMapping { at: from.add(before), bytes }
                }
            }
        };
        // SAFETY: a mapping of our own; both calls are hints, and the name outlives the call.
        unsafe {
            libc::madvise(allocation.at.cast(), bytes, libc::MADV_HUGEPAGE);
            let (set, name) = (libc::PR_SET_VMA_ANON_NAME, c"mainstay".as_ptr());
            libc::prctl(libc::PR_SET_VMA, set, allocation.at, bytes, name);
        }
        Ok(allocation)
    }

    /// The addresses of the memory.
    pub(crate) fn range(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.bytes
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.at
    }
}

impl Drop for OwnMapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        lock(&PROTECTABLE).remove(&(self.at as usize));
        // SAFETY: the mapping is ours, and no user of it is left.
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
    use super::{
        super::{Protectable, Transfer},
        *,
    };

    #[test]
    fn the_same_name_has_the_same_address_again_and_no_other_has_it() {
        let how = Allocated { same_address: true, ..Allocated::default() };
        let first = OwnMemory::new("allocation/one", 5 << 20, how).unwrap();
        let at = first.address() as usize;
        assert!(OwnMemory::new("allocation/one", 1, how).unwrap_err().to_string().contains("another name"));
        assert!(protectable_at(at).is_some() && protectable_at(at - 1).is_none());
        assert_ne!(OwnMemory::new("allocation/two", 1, how).unwrap().address() as usize, at);
        drop(first);
        let how = Allocated { written_by_system: true, ..how };
        assert_eq!(OwnMemory::new("allocation/one", 1, how).unwrap().address() as usize, at);
        assert!(protectable_at(at).is_none());
    }

    /// Story: the snapshot of one session kept the memory of all sessions mapped. Another session that had freed memory
    /// could not allocate it again at its address.
    #[test]
    #[allow(unsafe_code)]
    fn a_snapshot_keeps_only_the_memory_that_it_reads() {
        let how = Allocated { same_address: true, ..Allocated::default() };
        let [read, other] = ["keeps/read", "keeps/other"].map(|name| OwnMemory::new(name, 1 << 20, how).unwrap());
        let mut copied = [0; 8];
        // SAFETY: nothing is copied.
        let transfers = [unsafe { Transfer::new(read.address(), copied.as_mut_ptr(), copied.len()) }];
        let kept = Protectable::of(&transfers);
        assert!(kept.has(&transfers[0]));
        drop((read, other));
        OwnMemory::new("keeps/other", 1, how).unwrap();
        OwnMemory::new("keeps/read", 1, how).unwrap_err();
        drop(kept);
        OwnMemory::new("keeps/read", 1, how).unwrap();
    }

    #[test]
    fn a_thousand_names_have_a_thousand_addresses() {
        let how = Allocated { same_address: true, ..Allocated::default() };
        let all: Result<Vec<_>> = (0..1000).map(|at| OwnMemory::new(&format!("patch-{at}"), 100_000, how)).collect();
        assert_eq!(all.unwrap().len(), 1000);
    }

    #[test]
    #[allow(unsafe_code)]
    fn small_memory_takes_no_more_than_its_pages() {
        for (bytes, takes) in [(1, PAGE), (PAGE, PAGE), (HUGE_PAGE - 1, HUGE_PAGE), (HUGE_PAGE + 1, HUGE_PAGE + PAGE)] {
            let one = OwnMapping::new(bytes, None).unwrap();
            assert_eq!(one.range().len(), takes);
            // SAFETY: the bytes are this test's.
            unsafe { ptr::write_bytes(one.address(), 1, bytes) };
        }
    }

    #[test]
    fn an_allocation_has_a_name_and_comes_back_at_its_address() {
        let first = OwnMapping::new(3 << 20, None).unwrap();
        let range = first.range();
        assert!(range.start.is_multiple_of(HUGE_PAGE) && range.len() == 3 << 20);
        assert_eq!(first.address() as usize, range.start);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", range.start))).unwrap();
        assert!(line.ends_with("[anon:mainstay]") || !line.contains("[anon"), "{line}");
        assert_eq!(OwnMapping::new(1, Some(range.start)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(OwnMapping::new(usize::MAX, None).is_err());
        // Far from the places that the system uses, so no other test takes it meanwhile.
        let at = 0x4a00_0000_0000;
        drop(OwnMapping::new(1, Some(at)).unwrap());
        assert_eq!(OwnMapping::new(1, Some(at)).unwrap().range(), at..at + PAGE);
    }
}
