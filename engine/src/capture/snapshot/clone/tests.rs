//! Snapshots of programs that write, fork, wait, handle signals and die.

mod copied;
mod cost;
mod unnoticed;

use crate::capture::snapshot::{Cloned, NotTaken, Transfer};
use crate::capture::tests::memory::{PAGE, TestPages};
use std::{fs, os::fd::AsRawFd, ptr};

/// The destination of a snapshot.
fn destination(pages: usize) -> TestPages {
    let memory = TestPages::mapped(ptr::null_mut(), pages, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
    memory.advise(0..pages, libc::MADV_DONTFORK);
    memory
}

#[allow(unsafe_code)]
fn transfer(from: *const u8, to: *mut u8, bytes: usize) -> Transfer {
    // SAFETY: tests keep both, or check the result if they do not.
    unsafe { Transfer::new(from, to, bytes) }
}

/// A snapshot that takes as long to copy as a test needs.
fn endless(from: &TestPages, to: &TestPages) -> Cloned {
    let whole = || transfer(from.at(0), to.at(0), from.range().len());
    Cloned::take(&(0..100_000).map(|_| whole()).collect::<Vec<_>>()).unwrap()
}

fn process_id(cloned: &Cloned) -> i32 {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", cloned.process.pidfd.as_raw_fd())).unwrap();
    info.lines().find_map(|line| line.strip_prefix("Pid:")).unwrap().trim().parse().unwrap()
}

fn unsuited(taken: Result<Cloned, NotTaken>) -> (usize, String) {
    match taken {
        Err(NotTaken::Unsuited { indices, why }) => (indices[0], why),
        other => panic!("{other:?}"),
    }
}

fn no_room(taken: Result<Cloned, NotTaken>) -> i32 {
    match taken {
        Err(NotTaken::NoRoom(error)) => error.raw_os_error().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Waits until `cloned` has copied more than it has now.
fn await_progress(cloned: &mut Cloned) {
    let before = cloned.copied_bytes();
    while cloned.copied_bytes() == before {
        assert!(cloned.poll().is_none(), "it ended");
        std::thread::yield_now();
    }
}
