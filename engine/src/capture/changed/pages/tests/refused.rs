//! Memory, and systems, where changes cannot be seen: the error says why.

use super::{super::misses_pages, PAGE, TestPages, knowing, tracker, written_pages};
use crate::capture::{
    changed::PageTracker,
    tests::{confined::confine, memory::in_child},
    userfaultfd::{PAGEMAP_SCAN, Protection, UFFDIO_API},
};
use std::{fs::File, os::fd::AsRawFd, ptr, thread};

#[track_caller]
fn refused(memory: &TestPages, why: &str) {
    let said = tracker().watch(memory.range()).unwrap_err();
    assert!(said.contains(why), "{said}");
}

#[test]
fn shared_mappings_are_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 * PAGE as u64).unwrap();
    refused(&TestPages::mapped(ptr::null_mut(), 4, libc::MAP_SHARED, file.as_raw_fd()), "a shared mapping of /");
    refused(&TestPages::mapped(ptr::null_mut(), 4, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1), "a shared mapping");
    let zero = File::options().read(true).write(true).open("/dev/zero").unwrap();
    let memory = TestPages::mapped(ptr::null_mut(), 4, libc::MAP_PRIVATE, zero.as_raw_fd());
    tracker().watch(memory.range()).unwrap();
}

/// Story: their revisions were complete, verified, and wrong.
#[test]
fn kernels_that_miss_pages_are_refused() {
    let refused = ["6.7.0", "6.7.12-amd64", "6.8.0-45-generic", "6.8.9", "6.7", "6.8", "6.8.0+"];
    let taken = ["6.8.10", "6.8.12-arch1", "6.9.0-rc1", "6.18.5", "7.7.0", "5.15.0", "6.1.80", "6.70.1", ""];
    assert!(refused.into_iter().all(misses_pages));
    assert!(!taken.into_iter().any(misses_pages));
}

#[test]
fn memory_that_is_not_there_is_refused() {
    in_child(|| {
        let memory = TestPages::new(8);
        memory.unmap(3..4);
        refused(&memory, "nothing is mapped at");
        tracker().watch(memory.range().start..memory.at(3) as usize).unwrap();
    });
}

#[test]
fn memory_of_another_userfaultfd_is_refused_until_that_lets_go() {
    let memory = TestPages::new(8);
    let other = Protection::lifted_by_the_kernel().unwrap();
    other.register(&memory.range()).unwrap();
    refused(&memory, "another userfaultfd");
    // If only dropped, it could live on in a child that another test has forked.
    other.unregister(&memory.range()).unwrap();
    knowing(&memory);
}

#[test]
fn overlapping_memory_is_refused() {
    let memory = TestPages::new(8);
    let mut tracker = tracker();
    let part = memory.at(2) as usize..memory.at(5) as usize;
    tracker.watch(part.clone()).unwrap();
    for other in [memory.range(), part.start..part.start + 1, part.end - 1..part.end + 1, part.start - 1..part.end] {
        let said = tracker.watch(other).unwrap_err();
        assert!(said.contains("overlaps"), "{said}");
    }
    tracker.watch(memory.range().start..part.start).unwrap();
    tracker.watch(part.end..memory.range().end).unwrap();
}

/// Otherwise a surviving child would keep the memory registered.
#[test]
#[allow(unsafe_code)]
fn a_dropped_tracker_leaves_the_memory_to_others_whatever_children_there_are() {
    let memory = TestPages::new(8);
    let first = knowing(&memory);
    // SAFETY: the child does nothing but wait, and is ended below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends by itself if the parent does not end it.
        unsafe {
            libc::alarm(60);
            libc::pause();
            libc::_exit(0);
        }
    }
    drop(first);
    let second = tracker().watch(memory.range());
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
    second.unwrap();
}

#[test]
fn a_system_that_refuses_is_named() {
    let why = |call: i64, argument: Option<u32>, errno: i32| {
        let run = move || {
            confine(call, argument, errno);
            PageTracker::new().map(|_| ()).unwrap_err()
        };
        thread::spawn(run).join().unwrap()
    };
    let userfaultfd = libc::SYS_userfaultfd;
    assert_eq!(why(userfaultfd, None, libc::EPERM), "this system, or a container, does not allow userfaultfd");
    assert_eq!(why(userfaultfd, None, libc::ENOSYS), "this system has no userfaultfd");
    assert!(why(libc::SYS_ioctl, Some(UFFDIO_API as u32), libc::EINVAL).contains("needs Linux 6.8.10"));
    assert!(why(libc::SYS_ioctl, Some(PAGEMAP_SCAN as u32), libc::ENOTTY).contains("written pages"));
    assert!(why(libc::SYS_openat, None, libc::EACCES).contains("/proc/self/pagemap"));
    let memory = TestPages::new(8);
    let mut tracker = knowing(&memory);
    memory.write(3);
    assert_eq!(written_pages(&mut tracker, &memory).len(), 1, "other threads are not confined");
}
