//! What the child that copies a snapshot does. Its one thread may have been cloned in the middle of anything: nothing here
//! allocates, takes a lock, panics or prints.

use super::words::{State, Words};
use crate::capture::{copy, snapshot::Transfer, userfaultfd::page_bytes};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// How often the child looks whether the program is still there.
const STEP_BYTES: usize = 4 << 20;

/// Which signal tells of a descriptor in place of SIGIO; libc has no name for it.
const F_SETSIG: libc::c_int = 10;

/// The process whose clone the child is.
#[derive(Clone, Copy)]
pub(super) struct Parent {
    pid: libc::pid_t,
    /// The reading end of a pipe whose writing end the program alone has: it ends when the kernel closes the files of the
    /// program, which is before anybody can take the program's place.
    end: RawFd,
}

impl Parent {
    #[allow(unsafe_code)]
    pub(super) fn this(end: BorrowedFd<'_>) -> Parent {
        // SAFETY: no conditions.
        Parent { pid: unsafe { libc::getpid() }, end: end.as_raw_fd() }
    }

    /// Has the kernel end this process with the program. The signal that goes with the parent would not do: it goes with the
    /// thread that has made the clone.
    #[allow(unsafe_code)]
    fn end_with(self) {
        // SAFETY: the descriptor is open here; the numbers are what these commands take.
        unsafe {
            libc::fcntl(self.end, libc::F_SETOWN, libc::getpid());
            libc::fcntl(self.end, F_SETSIG, libc::SIGKILL);
            libc::fcntl(self.end, libc::F_SETFL, libc::O_ASYNC);
        }
    }

    /// Whether the pipe has ended, or, where a child of the program still has its writing end, this process was given to
    /// another parent.
    #[allow(unsafe_code)]
    fn is_gone(self) -> bool {
        let mut end = libc::pollfd { fd: self.end, events: 0, revents: 0 };
        // SAFETY: one descriptor, which outlives the call.
        unsafe { libc::poll(&raw mut end, 1, 0) == 1 || libc::getppid() != self.pid }
    }
}

/// Copies, and tells what became of it.
pub(super) fn run(transfers: &[Transfer], witnesses: &[(usize, usize)], words: &Words, parent: Parent) {
    leave_the_program(parent);
    let (state, index) = copy_all(transfers, witnesses, words, parent);
    words.tell(state, index);
}

fn copy_all(transfers: &[Transfer], witnesses: &[(usize, usize)], words: &Words, parent: Parent) -> (State, usize) {
    for (index, transfer) in transfers.iter().enumerate() {
        if !is_mapped(transfer.from, transfer.bytes) {
            return (State::NoSource, index);
        }
        if !is_mapped(transfer.to, transfer.bytes) {
            return (State::NoDestination, index);
        }
    }
    for (index, page) in witnesses {
        if !has_memory(*page) {
            return (State::NoSource, *index);
        }
    }
    words.tell(State::Copying, 0);
    for (index, transfer) in transfers.iter().enumerate() {
        let mut at = 0;
        while at < transfer.bytes {
            let bytes = STEP_BYTES.min(transfer.bytes - at);
            if parent.is_gone() {
                return (State::Orphaned, index);
            }
            if !copy_step(transfer, at, bytes) {
                return (State::NoRoom, index);
            }
            words.add_copied(bytes);
            at += bytes;
        }
    }
    (State::Done, 0)
}

/// Files, locks and memory of the program are none of the child's business.
#[allow(unsafe_code)]
fn leave_the_program(parent: Parent) {
    // SAFETY: the descriptors are copies; the strings end with a zero, and outlive the calls.
    unsafe {
        let end = parent.end as libc::c_uint;
        libc::syscall(libc::SYS_close_range, end + 1, u32::MAX, 0);
        parent.end_with();
        libc::prctl(libc::PR_SET_NAME, c"mainstay-clone".as_ptr());
        // Where memory runs out, a snapshot is easier to do without than the program. The standard descriptors are still
        // occupied here, so that the file gets none of them.
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        libc::write(file, c"1000".as_ptr().cast(), 4);
        libc::close(file);
        if end > 0 {
            libc::syscall(libc::SYS_close_range, 0, end - 1, 0);
        }
    }
}

/// Whether all of it is there.
#[allow(unsafe_code)]
fn is_mapped<T>(at: *const T, bytes: usize) -> bool {
    let start = at as usize / page_bytes() * page_bytes();
    // SAFETY: without anything to write this only looks whether something is mapped.
    unsafe { libc::msync(start as *mut libc::c_void, at as usize - start + bytes, libc::MS_ASYNC) == 0 }
}

/// Whether the page was passed on with what is in it.
#[allow(unsafe_code)]
fn has_memory(page: usize) -> bool {
    let mut is_there = 0;
    // SAFETY: one byte for one page.
    let told = unsafe { libc::mincore(page as *mut libc::c_void, page_bytes(), &raw mut is_there) };
    told == 0 && is_there & 1 == 1
}

/// Whether there was memory for it.
#[allow(unsafe_code)]
fn copy_step(transfer: &Transfer, at: usize, bytes: usize) -> bool {
    // SAFETY: both are mapped here, as was seen, and nobody else has them: this process has one thread, and nobody
    // refers to `to` before the end (`Transfer::new`).
    unsafe {
        let to = transfer.to.add(at);
        let start = to as usize / page_bytes() * page_bytes();
        // Else a fault comes with each page, and memory that cannot be had is a signal.
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
