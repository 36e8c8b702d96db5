//! A page shared by the program and the child that copies a snapshot. The child reports its progress in it.

use std::{
    io,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum CloneState {
    /// The child exists, and has done nothing yet.
    Cloned = 0,
    Copying,
    Done,
    /// The child does not have the source memory of a transfer.
    NoSource,
    /// The child does not have the destination memory of a transfer.
    NoDestination,
    /// The destination has no memory, and the system can provide none.
    NoRoom,
    /// The program is gone.
    Orphaned,
}

#[repr(C)]
struct Page {
    state: AtomicU32,
    index: AtomicU32,
    copied_bytes: AtomicU64,
}

/// The page; the kernel fills it with zeros.
#[derive(Debug)]
pub(super) struct Words(NonNull<Page>);

// SAFETY: it consists of atomics, in a mapping that lives as long.
#[allow(unsafe_code)]
unsafe impl Send for Words {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Words {}

#[allow(unsafe_code)]
impl Words {
    pub(super) fn new() -> io::Result<Words> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe { libc::mmap(ptr::null_mut(), size_of::<Page>(), access, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Words(NonNull::new(at.cast()).expect("a mapping is not at zero")))
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as `self` lives, aligned as a page is; any bytes are valid atomics.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn state(&self) -> CloneState {
        use CloneState::{Cloned, Copying, Done, NoDestination, NoRoom, NoSource, Orphaned};
        let state = self.page().state.load(Ordering::Acquire);
        [Cloned, Copying, Done, NoSource, NoDestination, NoRoom, Orphaned]
            .into_iter()
            .find(|known| *known as u32 == state)
            .expect("only our own code writes it")
    }

    /// The transfer that the state is about.
    pub(super) fn index(&self) -> usize {
        self.page().index.load(Ordering::Relaxed) as usize
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.page().copied_bytes.load(Ordering::Acquire)
    }

    pub(super) fn add_copied(&self, bytes: usize) {
        self.page().copied_bytes.fetch_add(bytes as u64, Ordering::Release);
    }

    /// Sets `state`, and wakes threads that wait for a change.
    pub(super) fn tell(&self, state: CloneState, index: usize) {
        let page = self.page();
        page.index.store(index as u32, Ordering::Relaxed);
        page.state.store(state as u32, Ordering::Release);
        // SAFETY: the word outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, page.state.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Returns once the state is no longer `state`, after `time` at the latest.
    pub(super) fn await_change(&self, state: CloneState, time: Duration) {
        let time = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ };
        let word = self.page().state.as_ptr();
        // SAFETY: word and time outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, state as u32, &raw const time) };
    }
}

impl Drop for Words {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping is our own; references to it borrow `self`.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Page>()) };
    }
}
