//! Memory of a test, by pages, and children of the test.

use std::{
    io::{self, Write},
    iter,
    ops::Range,
    panic, ptr,
};

pub(in crate::capture) const PAGE: usize = 4096;

pub(in crate::capture) struct TestPages {
    at: *mut u8,
    pages: usize,
}

// SAFETY: tests decide themselves which thread writes which byte.
#[allow(unsafe_code)]
unsafe impl Sync for TestPages {}

#[allow(unsafe_code)]
impl TestPages {
    /// Private memory that was never touched, at an address for huge pages.
    pub(in crate::capture) fn new(pages: usize) -> TestPages {
        let align = 512 * PAGE;
        let reserved = pages * PAGE + align;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping; its middle is kept.
        unsafe {
            let from = libc::mmap(ptr::null_mut(), reserved, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(from, libc::MAP_FAILED);
            let from = from.cast::<u8>();
            let before = from.align_offset(align);
            let at = from.add(before);
            if before > 0 {
                libc::munmap(from.cast(), before);
            }
            libc::munmap(at.add(pages * PAGE).cast(), align - before);
            TestPages { at, pages }
        }
    }

    /// A mapping by `mmap`, at `at` if that is not null.
    pub(in crate::capture) fn mapped(at: *mut u8, pages: usize, flags: libc::c_int, fd: libc::c_int) -> TestPages {
        let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
        // SAFETY: new, or in place of memory that the test gives up.
        let at =
            unsafe { libc::mmap(at.cast(), pages * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags | fixed, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        TestPages { at: at.cast(), pages }
    }

    /// With huge pages, each written to.
    pub(in crate::capture) fn huge(pages: usize) -> TestPages {
        let memory = TestPages::new(pages);
        memory.advise(0..pages, libc::MADV_HUGEPAGE);
        memory.write_each(0..pages);
        memory
    }

    pub(in crate::capture) fn range(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.pages * PAGE
    }

    pub(in crate::capture) fn all(&self) -> Vec<Range<usize>> {
        iter::once(0..self.pages).collect()
    }

    pub(in crate::capture) fn at(&self, page: usize) -> *mut u8 {
        assert!(page < self.pages);
        // SAFETY: in the mapping.
        unsafe { self.at.add(page * PAGE) }
    }

    /// Changes the first byte of a page by an ordinary store.
    pub(in crate::capture) fn write(&self, page: usize) {
        // SAFETY: in the mapping, and this thread's.
        unsafe { self.at(page).write_volatile(self.at(page).read_volatile().wrapping_add(1)) };
    }

    pub(in crate::capture) fn write_each(&self, pages: impl IntoIterator<Item = usize>) {
        pages.into_iter().for_each(|page| self.write(page));
    }

    pub(in crate::capture) fn read(&self, page: usize) -> u8 {
        // SAFETY: in the mapping.
        unsafe { self.at(page).read_volatile() }
    }

    pub(in crate::capture) fn advise(&self, pages: Range<usize>, advice: libc::c_int) {
        // SAFETY: the lost bytes are the test's.
        assert_eq!(0, unsafe { libc::madvise(self.at(pages.start).cast(), pages.len() * PAGE, advice) });
    }

    pub(in crate::capture) fn unmap(&self, pages: Range<usize>) {
        // SAFETY: nothing refers to it.
        assert_eq!(0, unsafe { libc::munmap(self.at(pages.start).cast(), pages.len() * PAGE) });
    }

    /// Moves its pages to `there`, replacing the memory there.
    pub(in crate::capture) fn move_to(&self, there: *mut u8, flags: libc::c_int) {
        let (bytes, flags) = (self.pages * PAGE, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | flags);
        // SAFETY: both places are the test's.
        let moved = unsafe { libc::mremap(self.at.cast(), bytes, bytes, flags, there.cast::<libc::c_void>()) };
        assert_eq!(moved, there.cast());
    }

    /// Changes the number of pages, without moving them.
    pub(in crate::capture) fn resize(&self, from: usize, to: usize) {
        // SAFETY: the lost bytes are the test's.
        let moved = unsafe { libc::mremap(self.at.cast(), from * PAGE, to * PAGE, 0) };
        assert_eq!(moved, self.at.cast());
    }
}

impl Drop for TestPages {
    fn drop(&mut self) {
        self.unmap(0..self.pages);
    }
}

/// Runs `work` in a forked child, where it is alone: no other test maps memory at a freed address.
#[track_caller]
#[allow(unsafe_code)]
pub(in crate::capture) fn in_child(work: impl FnOnce()) {
    let mut status = -1;
    // SAFETY: the child ends without cleaning up; `status` outlives the call.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            let ended = panic::catch_unwind(panic::AssertUnwindSafe(work));
            if let Err(panic) = &ended {
                let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
                let _ = writeln!(io::stderr(), "the child panicked: {}", said.unwrap_or("?"));
            }
            libc::_exit(ended.is_err().into());
        }
        libc::waitpid(child, &mut status, 0);
    }
    assert_eq!(status, 0, "how the child ended");
}
