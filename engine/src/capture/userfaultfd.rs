//! Write protection by userfaultfd. With WP_ASYNC the kernel lifts the protection at a write, and PAGEMAP_SCAN on
//! `/proc/self/pagemap` finds such pages and protects them again. Without it the writer waits, and the reader of the
//! descriptor gets the address. No library has the second call, so both are made here, with the layouts of
//! `linux/userfaultfd.h` and `linux/fs.h`.
//!
//! Invariant: addresses go to the kernel and are never dereferenced here. A call on memory that is not the program's,
//! or not mapped, returns an error.

use crate::ground::{above_standard, files};
use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Do not report faults of the kernel's own accesses; without them no privilege is needed. With WP_ASYNC the kernel
/// handles these too.
const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xAA;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
/// A thread that frees pages (MADV_DONTNEED) waits until the event was read.
const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
/// Missing pages can be protected; their first use is then a write.
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
/// The first write to a protected page lifts its protection, without a signal or a message.
const FEATURE_WP_ASYNC: u64 = 1 << 15;
#[cfg(test)]
const REGISTER_MODE_MISSING: u64 = 1 << 0;
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRange {
    start: u64,
    bytes: u64,
}

#[repr(C)]
struct UffdioWriteprotect {
    range: UffdioRange,
    mode: u64,
}

/// A message of the descriptor. After the event come flags, address and thread of a fault, or the beginning and end of
/// the freed pages.
#[repr(C)]
#[derive(Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    argument: [u64; 3],
}

const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_REMOVE: u8 = 0x15;

/// An event of protected memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A thread waits to write to this address.
    Fault(usize),
    /// These pages are being freed and will be zeros.
    GivenBack(Range<usize>),
}

#[repr(C)]
struct UffdioRegister {
    range: UffdioRange,
    mode: u64,
    ioctls: u64,
}

pub(super) const UFFDIO_API: libc::Ioctl = libc::_IOWR::<UffdioApi>(0xAA, 0x3F);
const UFFDIO_REGISTER: libc::Ioctl = libc::_IOWR::<UffdioRegister>(0xAA, 0x00);
const UFFDIO_WRITEPROTECT: libc::Ioctl = libc::_IOWR::<UffdioWriteprotect>(0xAA, 0x06);
const UFFDIO_UNREGISTER: libc::Ioctl = libc::_IOR::<UffdioRange>(0xAA, 0x01);

/// A stretch of pages found by a scan.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ScannedPages {
    pub(super) start: u64,
    pub(super) end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    found: u64,
    found_max: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<UffdioRegister>() == 32 && size_of::<Message>() == 32);
const _: () = assert!(size_of::<UffdioWriteprotect>() == 24 && size_of::<ScanArguments>() == 96);

pub(super) const PAGEMAP_SCAN: libc::Ioctl = libc::_IOWR::<ScanArguments>(b'f' as u32, 16);
/// Protects the found pages in the same step.
const SCAN_WP_MATCHING: u64 = 1 << 0;
/// Fails with EPERM if a mapping is not registered.
const SCAN_CHECK_WPASYNC: u64 = 1 << 1;
const PAGE_IS_WPALLOWED: u64 = 1 << 0;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
/// The kernel's shared page of zeros, in memory that was only read.
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// The pages that a scan finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedPages {
    /// Pages that lost their protection, or were added or freed since.
    Written,
    /// Also pages of a file, resident or not, because another process may write them. Pages in swap are included.
    WrittenOrOfFile,
}

/// A userfaultfd that protects memory from writes.
#[derive(Debug)]
pub(super) struct Protection(OwnedFd);

/// The number of our userfaultfds in this process.
static OURS: AtomicUsize = AtomicUsize::new(0);

/// Whether this process has a userfaultfd other than ours; true also if this cannot be found out.
pub(super) fn are_others_open() -> bool {
    let is_one = |entry: io::Result<fs::DirEntry>| {
        let target = entry.and_then(|entry| fs::read_link(entry.path()));
        target.is_ok_and(|target| target.as_os_str() == "anon_inode:[userfaultfd]")
    };
    let before = OURS.load(Ordering::SeqCst);
    let Ok(all) = files::entries("/proc/self/fd") else { return true };
    let open = all.map(is_one).filter(|is_one| *is_one).count();
    // Other threads may have opened or closed one meanwhile.
    open > before.min(OURS.load(Ordering::SeqCst))
}

impl Protection {
    /// The first write to a page lifts its protection. `InvalidInput`: needs Linux 6.7.
    pub(super) fn lifted_by_the_kernel() -> io::Result<Protection> {
        Protection::new(FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC)
    }

    /// A thread that writes to a page waits until `lift`; a system call that writes to it fails with EFAULT.
    /// `InvalidInput`: needs Linux 6.4.
    pub(super) fn lifted_by_us() -> io::Result<Protection> {
        Protection::new(FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_UNPOPULATED | FEATURE_EVENT_REMOVE)
    }

    #[allow(unsafe_code)]
    fn new(features: u64) -> io::Result<Protection> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        let protection = above_standard(|| {
            // SAFETY: makes a descriptor, and touches no memory.
            let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: a new descriptor, which nothing else owns.
            Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
        });
        let protection = Protection(protection?);
        OURS.fetch_add(1, Ordering::SeqCst);
        call(protection.0.as_raw_fd(), UFFDIO_API, &mut UffdioApi { api: UFFD_API, features, ioctls: 0 })?;
        Ok(protection)
    }

    /// Protects all of `pages`, which must be registered.
    pub(super) fn protect(&self, pages: &Range<usize>) -> io::Result<()> {
        self.set(pages, WRITEPROTECT_MODE_WP)
    }

    /// Lifts the protection of `pages`; threads that wait for them go on.
    pub(super) fn lift(&self, pages: &Range<usize>) -> io::Result<()> {
        self.set(pages, 0)
    }

    /// A descriptor as a program may have one: it gets the faults of missing pages in `pages`.
    #[cfg(test)]
    pub(super) fn that_fills(pages: &Range<usize>) -> OwnedFd {
        let protection = Protection::new(0).unwrap();
        let mut register = UffdioRegister { range: range(pages), mode: REGISTER_MODE_MISSING, ioctls: 0 };
        call(protection.0.as_raw_fd(), UFFDIO_REGISTER, &mut register).unwrap();
        protection.0.try_clone().unwrap()
    }

    fn set(&self, pages: &Range<usize>, mode: u64) -> io::Result<()> {
        let mut argument = UffdioWriteprotect { range: range(pages), mode };
        call(self.0.as_raw_fd(), UFFDIO_WRITEPROTECT, &mut argument)?;
        Ok(())
    }

    /// The next unread event; waiting writers come first.
    #[allow(unsafe_code)]
    pub(super) fn next_event(&self) -> io::Result<Option<Event>> {
        let mut message = Message::default();
        let bytes = size_of::<Message>();
        // SAFETY: the message has this many bytes, and outlives the call.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut message).cast(), bytes) };
        let [first, second] = [0, 1].map(|index| message.argument[index] as usize);
        match usize::try_from(read) {
            Ok(read) if read != bytes => Ok(None),
            Ok(_) => Ok(match message.event {
                EVENT_PAGEFAULT => Some(Event::Fault(second)),
                EVENT_REMOVE => Some(Event::GivenBack(first..second)),
                _ => None,
            }),
            Err(_) => match io::Error::last_os_error() {
                none if none.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Prepares whole pages for scans that protect; no effect if they are prepared. `AlreadyExists` or `ResourceBusy`:
    /// another userfaultfd has them.
    pub(super) fn register(&self, pages: &Range<usize>) -> io::Result<()> {
        let mut register = UffdioRegister { range: range(pages), mode: REGISTER_MODE_WP, ioctls: 0 };
        call(self.0.as_raw_fd(), UFFDIO_REGISTER, &mut register)?;
        Ok(())
    }

    /// Undoes `register`, and lifts all protection.
    pub(super) fn unregister(&self, pages: &Range<usize>) -> io::Result<()> {
        call(self.0.as_raw_fd(), UFFDIO_UNREGISTER, &mut range(pages))?;
        Ok(())
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        OURS.fetch_sub(1, Ordering::SeqCst);
    }
}

#[allow(unsafe_code)]
pub(crate) fn page_bytes() -> usize {
    // SAFETY: no conditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("a system has pages")
}

/// `/proc/self/pagemap`.
#[derive(Debug)]
pub(super) struct Pagemap(File);

impl Pagemap {
    pub(super) fn open() -> io::Result<Pagemap> {
        files::kernel_file("/proc/self/pagemap").map(Pagemap)
    }

    /// `PermissionDenied`: some of `pages` are not registered with any userfaultfd. Does not look at single pages.
    pub(super) fn check_registered(&self, pages: &Range<usize>) -> io::Result<()> {
        // The scan skips registered mappings whole, and reports the others as an error.
        let mut scan = ScanArguments {
            flags: SCAN_CHECK_WPASYNC,
            category_inverted: PAGE_IS_WPALLOWED,
            category_mask: PAGE_IS_WPALLOWED,
            return_mask: PAGE_IS_WPALLOWED,
            ..arguments(pages)
        };
        call(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut scan)?;
        Ok(())
    }

    /// Protects all of `pages`. `PermissionDenied`: some are not registered.
    pub(super) fn protect(&self, pages: &Range<usize>) -> io::Result<()> {
        let mut scan = ScanArguments { flags: SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC, ..arguments(pages) };
        call(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut scan)?;
        Ok(())
    }

    /// The first of `pages` with memory of its own that is not in swap. An error if the kernel does not say.
    pub(super) fn first_present(&self, pages: &Range<usize>) -> io::Result<Option<usize>> {
        let mut found = ScannedPages::default();
        let mut scan = ScanArguments {
            found: (&raw mut found) as u64,
            found_max: 1,
            pages_max: 1,
            category_inverted: PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
            return_mask: PAGE_IS_PRESENT,
            ..arguments(pages)
        };
        let count = call(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut scan)?;
        Ok((count > 0).then_some(found.start as usize))
    }

    /// Finds the `wanted` pages at the front of `pages` and protects them. Returns the number of stretches in `found`,
    /// and the end of the scanned part. After an error, some pages may be protected without being reported.
    /// `PermissionDenied`: some are not registered.
    pub(super) fn take_written(
        &self,
        pages: &Range<usize>,
        wanted: WantedPages,
        found: &mut [ScannedPages],
    ) -> io::Result<(usize, usize)> {
        let categories = match wanted {
            // The kernel has a fast path for exactly these arguments.
            WantedPages::Written => {
                ScanArguments { category_mask: PAGE_IS_WRITTEN, return_mask: PAGE_IS_WRITTEN, ..arguments(pages) }
            }
            WantedPages::WrittenOrOfFile => ScanArguments {
                category_inverted: PAGE_IS_PRESENT,
                category_anyof_mask: PAGE_IS_WRITTEN | PAGE_IS_FILE | PAGE_IS_PRESENT,
                ..arguments(pages)
            },
        };
        let mut scan = ScanArguments {
            flags: SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
            found: found.as_mut_ptr() as u64,
            found_max: found.len() as u64,
            ..categories
        };
        let count = call(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut scan)?;
        // If `found` is full, the kernel may have looked further than it says.
        let end = found[..count].last().map_or(0, |last| last.end);
        Ok((count, scan.walk_end.max(end) as usize))
    }
}

fn range(pages: &Range<usize>) -> UffdioRange {
    UffdioRange { start: pages.start as u64, bytes: pages.len() as u64 }
}

fn arguments(pages: &Range<usize>) -> ScanArguments {
    let size = size_of::<ScanArguments>() as u64;
    ScanArguments { size, start: pages.start as u64, end: pages.end as u64, ..Default::default() }
}

/// An ioctl; `argument` must have the type that `request` encodes.
#[allow(unsafe_code)]
fn call<T>(fd: RawFd, request: libc::Ioctl, argument: &mut T) -> io::Result<usize> {
    // SAFETY: the kernel reads and writes `argument`, which has the size that the request says, and the array of
    // `ScannedPages` that it points to. Protection changes no byte of the program.
    let returned = unsafe { libc::ioctl(fd, request, std::ptr::from_mut(argument)) };
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
