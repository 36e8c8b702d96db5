//! Writes, and other changes of a page.

use super::{PAGE, TestPages, knowing, tracker, written_pages};
use crate::capture::{changed::pages::FOUND_MAX, tests::memory::in_child};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    ops::Range,
    os::{
        fd::AsRawFd,
        unix::{fs::FileExt, net::UnixStream},
    },
    ptr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

#[test]
fn each_write_is_told_once_and_neighbours_as_one() {
    let memory = TestPages::new(5000);
    let mut tracker = knowing(&memory);
    assert_eq!(written_pages(&mut tracker, &memory), []);
    memory.write_each([0, 700, 701, 702, 4999]);
    assert_eq!(written_pages(&mut tracker, &memory), [0..1, 700..703, 4999..5000]);
    assert_eq!(written_pages(&mut tracker, &memory), []);
    assert_eq!((memory.read(3), memory.read(700)), (0, 1));
    assert_eq!(written_pages(&mut tracker, &memory), [], "pages that were only read");
    memory.write(701);
    assert_eq!(written_pages(&mut tracker, &memory), [Range { start: 701, end: 702 }]);
    tracker.forget(memory.range());
    assert_eq!(written_pages(&mut tracker, &memory), memory.all());
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

#[test]
fn every_other_page_is_more_than_one_call_of_the_kernel_tells() {
    let memory = TestPages::new(3 * 2 * FOUND_MAX);
    let mut tracker = knowing(&memory);
    let pages = || (0..memory.all()[0].end).step_by(2);
    memory.write_each(pages());
    assert!(written_pages(&mut tracker, &memory).into_iter().eq(pages().map(|page| page..page + 1)));
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

#[test]
fn what_shares_a_page_with_something_else_always_counts_as_written() {
    let memory = TestPages::new(8);
    let mut tracker = tracker();
    let start = memory.range().start;
    let ranges = [100..4 * PAGE + 7, 4 * PAGE + 7..4 * PAGE + 8, 4 * PAGE + 8..6 * PAGE, 6 * PAGE..6 * PAGE + 1];
    for range in &ranges {
        tracker.watch(start + range.start..start + range.end).unwrap();
    }
    let mut tell = |range: &Range<usize>| {
        let mut out = vec![Range { start: 0, end: start + range.start }];
        tracker.written(start + range.start..start + range.end, &mut out).unwrap();
        assert_eq!(out.remove(0), 0..start + range.start, "the caller's range stays");
        out.into_iter().map(|range| range.start - start..range.end - start).collect::<Vec<_>>()
    };
    for range in &ranges {
        assert_eq!(tell(range), std::slice::from_ref(range));
    }
    memory.write(2);
    assert_eq!(tell(&ranges[0]), [100..PAGE, 2 * PAGE..3 * PAGE, 4 * PAGE..4 * PAGE + 7]);
    memory.write(1);
    assert_eq!(tell(&ranges[0]), [100..2 * PAGE, 4 * PAGE..4 * PAGE + 7], "in one piece");
    assert_eq!(tell(&ranges[1]), ranges[1..2]);
    assert_eq!(tell(&ranges[2]), [Range { start: 4 * PAGE + 8, end: 5 * PAGE }]);
    memory.write(5);
    assert_eq!(tell(&ranges[2]), ranges[2..3]);
    assert_eq!(tell(&ranges[3]), ranges[3..]);
}

/// The model is a copy of the reported pages, made right after each report. It must never differ from the memory.
#[test]
fn a_thousand_random_changes_are_all_told() {
    let pages = 2048;
    let mut random = fastrand::Rng::with_seed(18);
    for huge in [false, true] {
        let memory = if huge { TestPages::huge(pages) } else { TestPages::new(pages) };
        let mut tracker = tracker();
        tracker.watch(memory.range()).unwrap();
        let (mut saved, mut bytes_told) = (vec![0; pages], 0);
        for change in 0..1000 {
            let page = random.usize(..pages);
            match random.u32(..50) {
                0 => memory.advise(page..pages.min(page + random.usize(1..1500)), libc::MADV_DONTNEED),
                1 => tracker.forget(memory.range()),
                2 => memory.advise(0..pages, libc::MADV_HUGEPAGE),
                _ => memory.write(page),
            }
            if random.u32(..8) == 0 || change == 999 {
                for range in written_pages(&mut tracker, &memory) {
                    bytes_told += range.len() * PAGE;
                    range.for_each(|page| saved[page] = memory.read(page));
                }
                assert!((0..pages).all(|page| saved[page] == memory.read(page)), "after {change} changes");
            }
        }
        assert!(bytes_told < 60 * pages * PAGE, "{bytes_told}");
    }
}

#[test]
fn huge_pages_are_told_by_the_page() {
    let memory = TestPages::huge(4 * 512);
    let mut tracker = knowing(&memory);
    assert_eq!(written_pages(&mut tracker, &memory), []);
    memory.write_each([5, 600]);
    assert_eq!(written_pages(&mut tracker, &memory), [5..6, 600..601]);
    // All of a huge page, and the half of another.
    memory.advise(512..1024, libc::MADV_DONTNEED);
    memory.advise(1536..1792, libc::MADV_DONTNEED);
    assert_eq!(written_pages(&mut tracker, &memory), [512..1024, 1536..1792]);
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

/// Threads go on until it is dropped, even by a failing test.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each thread counts up in pages of its own; reported pages are copied at once.
#[test]
fn no_write_of_a_thread_is_lost_while_pages_are_looked_for() {
    const THREADS: usize = 3;
    let memory = TestPages::huge(THREADS * 512);
    let mut tracker = knowing(&memory);
    let mut saved: Vec<u8> = (0..THREADS * 512).map(|page| memory.read(page)).collect();
    let (stop, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (memory, stop, writes) = (&memory, &stop, &writes);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                while !stop.load(Ordering::Relaxed) {
                    memory.write(random.usize(..512) * THREADS + thread);
                    writes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        for look in 0..300 {
            if look % 50 == 0 {
                let before = writes.load(Ordering::Relaxed);
                while writes.load(Ordering::Relaxed) < before + 1000 {
                    thread::yield_now();
                }
            }
            for range in written_pages(&mut tracker, &memory) {
                range.for_each(|page| saved[page] = memory.read(page));
            }
        }
    });
    written_pages(&mut tracker, &memory).into_iter().flatten().for_each(|page| saved[page] = memory.read(page));
    assert!((0..THREADS * 512).all(|page| saved[page] == memory.read(page)));
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

#[test]
#[allow(unsafe_code)]
fn the_kernel_writes_where_it_is_told_to_and_that_is_told() {
    let memory = TestPages::new(16);
    let mut tracker = knowing(&memory);
    // SAFETY: these pages are this thread's.
    let page = |page| unsafe { std::slice::from_raw_parts_mut(memory.at(page), PAGE) };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; PAGE]).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_exact(page(1)).unwrap();
    let (mut here, mut there) = UnixStream::pair().unwrap();
    here.write_all(&[7; PAGE]).unwrap();
    there.read_exact(page(3)).unwrap();
    // As MPI does within a node.
    let from = libc::iovec { iov_base: page(1).as_mut_ptr().cast(), iov_len: PAGE };
    let into = libc::iovec { iov_base: page(5).as_mut_ptr().cast(), iov_len: PAGE };
    // SAFETY: both are the test's memory.
    let moved = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &into, 1, 0) };
    assert_eq!(moved, PAGE as isize);
    // As a debugger does.
    let own = File::options().write(true).open("/proc/self/mem").unwrap();
    own.write_all_at(&[7; 8], memory.at(7) as u64).unwrap();
    // SAFETY: the page is the test's.
    assert_eq!(8, unsafe { libc::pread(file.as_raw_fd(), memory.at(9).cast(), 8, 0) });
    assert_eq!(written_pages(&mut tracker, &memory), [1..2, 3..4, 5..6, 7..8, 9..10]);
    assert!([1, 3, 5, 7, 9].into_iter().all(|page| memory.read(page) == 7));
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

#[test]
#[allow(unsafe_code)]
fn a_programs_own_handlers_of_faults_are_not_called() {
    extern "C" fn called(_: libc::c_int) {
        // SAFETY: ends the child.
        unsafe { libc::_exit(9) };
    }
    in_child(|| {
        let handler: extern "C" fn(libc::c_int) = called;
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: the handler only ends this process, a forked child with one thread.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        let memory = TestPages::huge(1024);
        let mut tracker = knowing(&memory);
        memory.write_each((0..1024).step_by(3));
        assert_eq!(written_pages(&mut tracker, &memory).len(), 342);
    });
}

#[test]
fn a_fork_loses_no_write_of_the_parent_and_tells_none_of_the_child() {
    let memory = TestPages::new(64);
    memory.write_each(0..64);
    let mut tracker = knowing(&memory);
    memory.write(1);
    in_child(|| memory.write(2));
    memory.write(3);
    assert_eq!(written_pages(&mut tracker, &memory), [1..2, 3..4]);
}

#[test]
fn a_forked_child_is_refused_and_takes_nothing_from_its_parent() {
    let memory = TestPages::new(64);
    let mut parents = Some(knowing(&memory));
    memory.write(1);
    in_child(|| {
        let tracker = parents.as_mut().unwrap();
        let mut out = Vec::new();
        let refused = tracker.written(memory.range(), &mut out).unwrap_err();
        assert!(refused.contains("is a fork"), "{refused}");
        assert_eq!(out, [memory.range()]);
        tracker.watch(memory.range()).unwrap_err();
        tracker.unwatch(memory.range());
        // A userfaultfd of its own behaves differently.
        let mut own = knowing(&memory);
        memory.write(5);
        assert_eq!(written_pages(&mut own, &memory), [Range { start: 5, end: 6 }]);
    });
    assert_eq!(written_pages(parents.as_mut().unwrap(), &memory), [Range { start: 1, end: 2 }]);
    memory.write(2);
    in_child(|| drop(parents.take()));
    assert_eq!(written_pages(parents.as_mut().unwrap(), &memory), [Range { start: 2, end: 3 }]);
}

#[test]
fn pages_of_a_file_count_as_written_until_they_are_the_programs() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 8 * PAGE]).unwrap();
    let memory = TestPages::mapped(ptr::null_mut(), 8, libc::MAP_PRIVATE, file.as_raw_fd());
    memory.write(1);
    let mut tracker = knowing(&memory);
    assert_eq!(memory.read(2), 7);
    assert_eq!(written_pages(&mut tracker, &memory), [0..1, 2..8]);
    // Another writer changes the file.
    file.write_all_at(&[9], 2 * PAGE as u64).unwrap();
    assert_eq!((memory.read(2), memory.read(1)), (9, 8));
    assert_eq!(written_pages(&mut tracker, &memory), [0..1, 2..8]);
    memory.write_each(0..8);
    assert_eq!(written_pages(&mut tracker, &memory), memory.all());
    assert_eq!(written_pages(&mut tracker, &memory), []);
    memory.write(6);
    assert_eq!(written_pages(&mut tracker, &memory), [Range { start: 6, end: 7 }]);
}

/// Arrays of Fortran and C programs, in .data and .bss.
#[test]
fn globals_are_told_as_any_memory() {
    static DATA: [AtomicU64; 4096] = [const { AtomicU64::new(1) }; 4096];
    static BSS: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
    let mut tracker = tracker();
    for array in [&DATA, &BSS] {
        let range = array.as_ptr_range();
        let range = range.start as usize..range.end as usize;
        array.iter().for_each(|value| value.store(2, Ordering::Relaxed));
        tracker.watch(range.clone()).unwrap();
        let mut out = Vec::new();
        tracker.written(range.clone(), &mut out).unwrap();
        assert_eq!(out, std::slice::from_ref(&range));
        array[2000].store(3, Ordering::Relaxed);
        out.clear();
        tracker.written(range.clone(), &mut out).unwrap();
        let page = &raw const array[2000] as usize / PAGE * PAGE;
        assert!(out.contains(&(page..page + PAGE)), "{range:x?}: {out:x?}");
        assert!(out.iter().map(|range| range.len()).sum::<usize>() <= 3 * PAGE);
    }
}

#[test]
fn what_is_not_watched_any_more_is_all_told() {
    let memory = TestPages::new(8);
    let mut tracker = knowing(&memory);
    tracker.unwatch(memory.range());
    let mut out = Vec::new();
    assert_eq!(tracker.written(memory.range(), &mut out).unwrap_err(), "it is not watched");
    assert_eq!(out, [memory.range()]);
    tracker.watch(memory.range()).unwrap();
    assert_eq!(written_pages(&mut tracker, &memory), memory.all());
    // Watching the same range again begins anew.
    tracker.watch(memory.range()).unwrap();
    assert_eq!(written_pages(&mut tracker, &memory), memory.all());
    assert_eq!(written_pages(&mut tracker, &memory), []);
}
