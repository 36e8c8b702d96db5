//! The contents of a snapshot, and the cases without one.

use super::{Cloned, PAGE, TestPages, await_progress, destination, endless, no_room, process_id, transfer, unsuited};
use crate::capture::{
    changed::PageTracker,
    tests::{confined::confine, memory::in_child},
    userfaultfd::Protection,
};
use std::{io, ops::Range, os::fd::FromRawFd, ptr, thread};

/// A byte of each page holds its number.
fn number(memory: &TestPages, pages: Range<usize>) {
    pages.for_each(|page| (0..1 + page % 251).for_each(|_| memory.write(page)));
}

#[test]
fn bytes_are_those_at_the_call_whatever_the_program_does_then() {
    let pages = 4096;
    for huge in [false, true] {
        let (memory, to) = (if huge { TestPages::huge(pages) } else { TestPages::new(pages) }, destination(pages + 2));
        // Some pages were never touched.
        number(&memory, 0..pages / 2);
        let before: Vec<u8> = (0..pages).map(|page| memory.read(page)).collect();
        // As one part, and in parts that do not begin on a page.
        let odd = 100 * PAGE + 17;
        let (first, rest) = (transfer(memory.at(0), to.at(0), odd), memory.range().len() - odd);
        let second = transfer(memory.at(0).wrapping_add(odd), to.at(1).wrapping_add(odd), rest);
        let mut cloned = Cloned::take(&[first, second]).unwrap();
        memory.write_each((0..pages).rev());
        memory.advise(0..pages / 4, libc::MADV_DONTNEED);
        memory.write_each(0..pages);
        cloned.wait().unwrap();
        cloned.wait().unwrap();
        assert!(matches!(cloned.poll(), Some(Ok(()))));
        assert_eq!(cloned.copied_bytes(), memory.range().len() as u64);
        let after = |page: usize| to.read(if page > 100 { page + 1 } else { page });
        assert!((0..pages).all(|page| after(page) == before[page]));
    }
}

#[test]
fn bytes_that_the_program_gives_back_are_copied_all_the_same() {
    in_child(|| {
        let (memory, to) = (TestPages::new(4096), destination(4096));
        number(&memory, 0..4096);
        let before: Vec<u8> = (0..4096).map(|page| memory.read(page)).collect();
        let mut cloned = Cloned::take(&[transfer(memory.at(0), to.at(0), memory.range().len())]).unwrap();
        drop(memory);
        cloned.wait().unwrap();
        assert!((0..4096).all(|page| to.read(page) == before[page]));
    });
}

#[test]
fn nothing_to_copy_is_copied() {
    Cloned::take(&[]).unwrap().wait().unwrap();
    let (memory, to) = (TestPages::new(1), destination(1));
    let mut cloned = Cloned::take(&[transfer(memory.at(0), to.at(0), 0)]).unwrap();
    poll_until_ended(&mut cloned).unwrap();
}

#[test]
fn written_pages_are_told_beside_a_snapshot() {
    let (memory, to) = (TestPages::new(64), destination(64));
    memory.write_each(0..64);
    let mut tracker = PageTracker::new().unwrap();
    tracker.watch(memory.range()).unwrap();
    let mut out = Vec::new();
    tracker.written(memory.range(), &mut out).unwrap();
    memory.write(1);
    let mut cloned = Cloned::take(&[transfer(memory.at(0), to.at(0), memory.range().len())]).unwrap();
    memory.write(3);
    out.clear();
    tracker.written(memory.range(), &mut out).unwrap();
    let page = |page: usize| memory.at(page) as usize..memory.at(page + 1) as usize;
    assert_eq!(out, [page(1), page(3)]);
    cloned.wait().unwrap();
    assert_eq!((to.read(1), to.read(3)), (2, 1));
}

#[test]
fn memory_that_a_clone_does_not_have_as_its_own_is_refused() {
    in_child(|| {
        let (memory, to) = (TestPages::new(8), destination(8));
        let at = |from: *const u8, to: *mut u8| transfer(from, to, 4 * PAGE);
        let good = || at(memory.at(0), to.at(0));
        let shared = TestPages::mapped(ptr::null_mut(), 4, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        let (index, why) = unsuited(Cloned::take(&[good(), at(shared.at(0), to.at(0))]));
        assert!(index == 1 && why.contains("shared mapping"), "{why}");
        // RDMA libraries do this with buffers that they register.
        let pinned = TestPages::new(8);
        pinned.advise(3..4, libc::MADV_DONTFORK);
        let (index, why) = unsuited(Cloned::take(&[good(), good(), at(pinned.at(0), to.at(0))]));
        assert!(index == 2 && why.contains("MADV_DONTFORK"), "{why}");
        Cloned::take(&[at(pinned.at(4), to.at(0))]).unwrap().wait().unwrap();
        // Cryptography libraries do this with their keys.
        let wiped = TestPages::new(8);
        wiped.write(6);
        wiped.advise(4..8, libc::MADV_WIPEONFORK);
        let (index, why) = unsuited(Cloned::take(&[good(), at(wiped.at(4), to.at(0))]));
        assert!(index == 1 && why.contains("MADV_WIPEONFORK"), "{why}");
        Cloned::take(&[at(wiped.at(0), to.at(0))]).unwrap().wait().unwrap();
        // Zeros that were read, and never written.
        let zeros = TestPages::new(8);
        assert_eq!(zeros.read(1), 0);
        Cloned::take(&[at(zeros.at(0), to.at(0))]).unwrap().wait().unwrap();
        let gone = TestPages::new(8);
        gone.unmap(0..8);
        let (index, why) = unsuited(Cloned::take(&[good(), at(gone.at(0), to.at(0))]));
        assert!(index == 1 && why.contains("not mapped"), "{why}");
        let (index, why) = unsuited(Cloned::take(&[at(memory.at(0), gone.at(0))]));
        assert!(index == 0 && why.contains("does not reach"), "{why}");
    });
}

/// Its pages change with the file, and vanish if the file is cut off.
#[test]
#[allow(unsafe_code)]
fn a_private_view_of_a_file_is_refused() {
    // SAFETY: makes a descriptor, which nothing else owns.
    let file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"viewed".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(8 * PAGE as u64).unwrap();
    let view = TestPages::mapped(ptr::null_mut(), 8, libc::MAP_PRIVATE, std::os::fd::AsRawFd::as_raw_fd(&file));
    let (memory, to) = (TestPages::new(8), destination(8));
    let at = |from: *const u8| transfer(from, to.at(0), 8 * PAGE);
    let (index, why) = unsuited(Cloned::take(&[at(memory.at(0)), at(view.at(0))]));
    assert!(index == 1 && why.contains("a view of a file, /memfd:viewed"), "{why}");
}

/// The program's file cannot be written while it runs.
#[test]
fn variables_of_the_program_are_copied() {
    static VARIABLES: std::sync::Mutex<[u8; 4 * PAGE]> = std::sync::Mutex::new([7; 4 * PAGE]);
    let to = destination(4);
    let variables = VARIABLES.lock().unwrap();
    Cloned::take(&[transfer(variables.as_ptr(), to.at(0), 4 * PAGE)]).unwrap().wait().unwrap();
    assert_eq!((to.read(0), to.read(3)), (7, 7));
}

/// A clone does not run the program's fault handlers, and the program's userfaultfd does not serve the clone's pages.
#[test]
#[allow(unsafe_code)]
fn memory_that_the_program_fills_when_it_is_asked_for_is_refused() {
    in_child(|| {
        let (memory, to) = (TestPages::new(8), destination(8));
        memory.write_each(0..8);
        let take =
            |pages: Range<usize>| Cloned::take(&[transfer(memory.at(pages.start), to.at(0), pages.len() * PAGE)]);
        // SAFETY: memory of this test, which is not touched meanwhile.
        let protect = |access| unsafe { assert_eq!(0, libc::mprotect(memory.at(4).cast(), 2 * PAGE, access)) };
        protect(libc::PROT_NONE);
        let (index, why) = unsuited(take(0..8));
        assert!(index == 0 && why.contains("may not be read"), "{why}");
        take(0..4).unwrap().wait().unwrap();
        protect(libc::PROT_READ | libc::PROT_WRITE);
        take(0..8).unwrap().wait().unwrap();
        let other = Protection::that_fills(&(memory.at(4) as usize..memory.at(6) as usize));
        let (index, why) = unsuited(take(0..8));
        assert!(index == 0 && why.contains("a userfaultfd of the program"), "{why}");
        take(0..4).unwrap().wait().unwrap();
        drop(other);
        take(0..8).unwrap().wait().unwrap();
    });
}

#[test]
#[allow(unsafe_code)]
fn a_copy_without_memory_is_an_error_and_no_signal() {
    let memory = TestPages::new(8);
    memory.write_each(0..8);
    // SAFETY: makes a descriptor, which nothing else owns.
    let file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"short".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(3 * PAGE as u64).unwrap();
    let to = TestPages::mapped(ptr::null_mut(), 8, libc::MAP_SHARED, std::os::fd::AsRawFd::as_raw_fd(&file));
    let mut cloned = Cloned::take(&[transfer(memory.at(0), to.at(0), 8 * PAGE)]).unwrap();
    assert_eq!(cloned.wait().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_system_that_has_no_room_for_a_clone_says_so() {
    let take = |call, errno| {
        let confined = move || {
            confine(call, None, errno);
            let (memory, to) = (TestPages::new(8), destination(8));
            no_room(Cloned::take(&[transfer(memory.at(0), to.at(0), 8 * PAGE)]))
        };
        thread::spawn(confined).join().unwrap()
    };
    for (call, errno) in [
        (libc::SYS_clone, libc::ENOMEM),
        (libc::SYS_clone, libc::EAGAIN),
        (libc::SYS_clone, libc::EPERM),
        (libc::SYS_close_range, libc::ENOSYS),
    ] {
        assert_eq!(take(call, errno), errno);
    }
}

fn poll_until_ended(cloned: &mut Cloned) -> io::Result<()> {
    loop {
        if let Some(ended) = cloned.poll() {
            return ended;
        }
        thread::yield_now();
    }
}

#[test]
#[allow(unsafe_code)]
fn a_clone_that_is_killed_is_an_error() {
    let (memory, to) = (TestPages::new(1024), destination(1024));
    for ask in [Cloned::wait, poll_until_ended] {
        let mut cloned = endless(&memory, &to);
        await_progress(&mut cloned);
        // SAFETY: our own child, which was not waited for.
        unsafe { libc::kill(process_id(&cloned), libc::SIGKILL) };
        let error = ask(&mut cloned).unwrap_err();
        assert!(error.to_string().contains("by signal 9"), "{error}");
        assert!(cloned.wait().is_err() && cloned.poll().unwrap().is_err());
    }
}

#[test]
fn a_snapshot_outlives_the_thread_that_took_it() {
    let (memory, to) = (TestPages::new(1024), destination(1024));
    memory.write_each(0..1024);
    thread::scope(|scope| {
        let taken = scope.spawn(|| endless(&memory, &to));
        let mut cloned = taken.join().unwrap();
        for _ in 0..20 {
            await_progress(&mut cloned);
        }
    });
}
