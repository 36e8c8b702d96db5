//! The work of the child that copies a snapshot. Its one thread may have been cloned at any point of the program.
//! Therefore nothing here allocates, takes a lock, panics or prints.

use super::words::{CloneState, Words};
use crate::capture::{copy, snapshot::Transfer, userfaultfd::page_bytes};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The child checks after each such step whether the program is still alive.
const STEP_BYTES: usize = 4 << 20;

/// Sets the signal for a descriptor, in place of SIGIO; libc has no name for it.
const F_SETSIG: libc::c_int = 10;

/// The process of which the child is a clone.
#[derive(Clone, Copy)]
pub(super) struct Parent {
    pid: libc::pid_t,
    /// The reading end of a pipe; only the program has the writing end. The pipe ends when the kernel closes the
    /// program's files, which is before another process can take the program's place.
    end: RawFd,
}

impl Parent {
    #[allow(unsafe_code)]
    pub(super) fn this(end: BorrowedFd<'_>) -> Parent {
        // SAFETY: no conditions.
        Parent { pid: unsafe { libc::getpid() }, end: end.as_raw_fd() }
    }

    /// Makes the kernel end this process with the program. The signal for a parent's death does not suffice: it comes
    /// when the thread that made the clone ends.
    #[allow(unsafe_code)]
    fn end_with(self) {
        // SAFETY: the descriptor is open here; the numbers are those that these commands take.
        unsafe {
            libc::fcntl(self.end, libc::F_SETOWN, libc::getpid());
            libc::fcntl(self.end, F_SETSIG, libc::SIGKILL);
            libc::fcntl(self.end, libc::F_SETFL, libc::O_ASYNC);
        }
    }

    /// Whether the pipe has ended, or this process has a new parent, in case a child of the program still has the
    /// writing end.
    #[allow(unsafe_code)]
    fn is_gone(self) -> bool {
        let mut end = libc::pollfd { fd: self.end, events: 0, revents: 0 };
        // SAFETY: one descriptor, which outlives the call.
        unsafe { libc::poll(&raw mut end, 1, 0) == 1 || libc::getppid() != self.pid }
    }
}

/// Copies, and reports the result.
pub(super) fn run(transfers: &[Transfer], witnesses: &[(usize, usize)], words: &Words, parent: Parent) {
    leave_the_program(parent);
    let (state, index) = copy_all(transfers, witnesses, words, parent);
    words.tell(state, index);
}

fn copy_all(
    transfers: &[Transfer],
    witnesses: &[(usize, usize)],
    words: &Words,
    parent: Parent,
) -> (CloneState, usize) {
    for (index, transfer) in transfers.iter().enumerate() {
        if !is_mapped(transfer.from, transfer.bytes) {
            return (CloneState::NoSource, index);
        }
        if !is_mapped(transfer.to, transfer.bytes) {
            return (CloneState::NoDestination, index);
        }
    }
    for (index, page) in witnesses {
        if !has_memory(*page) {
            return (CloneState::NoSource, *index);
        }
    }
    words.tell(CloneState::Copying, 0);
    for (index, transfer) in transfers.iter().enumerate() {
        let mut at = 0;
        while at < transfer.bytes {
            let bytes = STEP_BYTES.min(transfer.bytes - at);
            if parent.is_gone() {
                return (CloneState::Orphaned, index);
            }
            if !copy_step(transfer, at, bytes) {
                return (CloneState::NoRoom, index);
            }
            words.add_copied(bytes);
            at += bytes;
        }
    }
    (CloneState::Done, 0)
}

/// Gives up the program's files, locks and memory.
#[allow(unsafe_code)]
fn leave_the_program(parent: Parent) {
    // SAFETY: the descriptors are copies; the strings end with a zero, and outlive the calls.
    unsafe {
        let end = parent.end as libc::c_uint;
        libc::syscall(libc::SYS_close_range, end + 1, u32::MAX, 0);
        parent.end_with();
        libc::prctl(libc::PR_SET_NAME, c"mainstay-clone".as_ptr());
        // If memory runs out, the system should end the snapshot rather than the program. The standard descriptors are
        // still open here, so the file gets none of their numbers.
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        libc::write(file, c"1000".as_ptr().cast(), 4);
        libc::close(file);
        if end > 0 {
            libc::syscall(libc::SYS_close_range, 0, end - 1, 0);
        }
    }
}

/// Whether all of it is mapped.
#[allow(unsafe_code)]
fn is_mapped<T>(at: *const T, bytes: usize) -> bool {
    let start = at as usize / page_bytes() * page_bytes();
    // SAFETY: with nothing to write, this only checks whether the pages are mapped.
    unsafe { libc::msync(start as *mut libc::c_void, at as usize - start + bytes, libc::MS_ASYNC) == 0 }
}

/// Whether the child got the page with its contents.
#[allow(unsafe_code)]
fn has_memory(page: usize) -> bool {
    let mut is_there = 0;
    // SAFETY: one byte for one page.
    let status = unsafe { libc::mincore(page as *mut libc::c_void, page_bytes(), &raw mut is_there) };
    status == 0 && is_there & 1 == 1
}

/// Copies a step; false if there was no memory for it.
#[allow(unsafe_code)]
fn copy_step(transfer: &Transfer, at: usize, bytes: usize) -> bool {
    // SAFETY: both are mapped here, as checked before, and not in other use: this process has one thread, and `to` is
    // not accessed before the end (`Transfer::new`).
    unsafe {
        let to = transfer.to.add(at);
        let start = to as usize / page_bytes() * page_bytes();
        // Otherwise each page causes a fault, and missing memory causes a signal.
        let bytes_of_pages = to as usize - start + bytes;
        let populated = libc::madvise(start as *mut libc::c_void, bytes_of_pages, libc::MADV_POPULATE_WRITE);
        if populated != 0 && [libc::EFAULT, libc::ENOMEM].contains(&*libc::__errno_location()) {
            return false;
        }
        let from = std::slice::from_raw_parts(transfer.from.add(at), bytes);
        copy(from, std::slice::from_raw_parts_mut(to, bytes));
    }
    true
}
