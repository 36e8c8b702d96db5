//! Snapshots of memory that the program's own instructions write.

use crate::capture::{
    changed::PageTracker,
    snapshot::{NotTaken, OwnMapping, Protected, Transfer, protect::next_noted},
    tests::memory::{PAGE, TestPages, in_child},
    userfaultfd::Event,
};
use std::{fs, io, ptr, thread, time::Instant};

const PAGES: usize = 16 * 512;

fn shared(pages: usize) -> TestPages {
    TestPages::mapped(ptr::null_mut(), pages, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
}

#[allow(unsafe_code)]
fn transfer(from: *const u8, to: *mut u8, bytes: usize) -> Transfer {
    // SAFETY: tests keep both.
    unsafe { Transfer::new(from, to, bytes) }
}

fn take(from: &TestPages, to: &TestPages) -> Protected {
    Protected::take(&[transfer(from.at(0), to.at(0), from.range().len())]).unwrap()
}

/// The kernel's report on the mapping at this memory.
fn smaps_field(memory: &TestPages, what: &str) -> String {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{:x}-", memory.range().start);
    let mapping = maps.lines().skip_while(|line| !line.starts_with(&start));
    mapping.skip(1).find_map(|line| line.strip_prefix(what)).unwrap().trim().to_owned()
}

fn huge_bytes(memory: &TestPages) -> usize {
    smaps_field(memory, "AnonHugePages:").trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Story: a thread waited to write beside memory that another thread had freed. The zeros there were then copied.
#[test]
fn memory_that_was_given_back_is_told_before_those_who_wait() {
    let (gave, waits) = (Event::GivenBack(4096..8192), Event::Fault(8192));
    for order in [[&waits, &gave, &waits], [&gave, &waits, &waits], [&waits, &waits, &gave]] {
        let mut noted: Vec<Event> = order.into_iter().cloned().collect();
        assert_eq!(
            [0; 4].map(|_| next_noted(&mut noted)),
            [Some(gave.clone()), Some(waits.clone()), Some(waits.clone()), None]
        );
    }
}

/// Story: a protected page was merged with another (KSM). The program's later writes to it were then copied.
#[test]
fn pages_that_are_alike_are_not_made_one() {
    if !fs::exists("/sys/kernel/mm/ksm").unwrap() {
        return;
    }
    in_child(|| {
        let (memory, to) = (TestPages::new(8), shared(8));
        memory.advise(0..8, libc::MADV_MERGEABLE);
        let is_mergeable = || smaps_field(&memory, "VmFlags:").split(' ').any(|flag| flag == "mg");
        assert!(is_mergeable());
        let mut taken = take(&memory, &to);
        assert!(!is_mergeable());
        taken.wait().unwrap();
    });
}

#[test]
fn bytes_are_those_at_the_call_and_huge_pages_stay_whole() {
    // In a process of its own: a fork by another test would split huge pages.
    in_child(|| {
        for huge in [true, false] {
            let (memory, to) = (if huge { TestPages::huge(PAGES) } else { TestPages::new(PAGES) }, shared(PAGES));
            memory.write_each((0..PAGES / 2).step_by(3));
            let before: Vec<u8> = (0..PAGES).map(|page| memory.read(page)).collect();
            let huge_before = huge_bytes(&memory);
            let mut taken = take(&memory, &to);
            thread::scope(|scope| {
                for thread in 0..3 {
                    let memory = &memory;
                    scope.spawn(move || memory.write_each((0..PAGES).rev().filter(|page| page % 3 == thread)));
                }
            });
            taken.wait().unwrap();
            assert!(matches!(taken.poll(), Some(Ok(()))));
            assert_eq!(taken.copied_bytes(), memory.range().len() as u64);
            assert!((0..PAGES).all(|page| to.read(page) == before[page]));
            assert!((0..PAGES).all(|page| memory.read(page) == before[page] + 1));
            assert!(huge_bytes(&memory) >= huge_before);
        }
    });
}

#[test]
fn regions_that_share_a_granule_or_a_page_are_both_as_they_were() {
    let (memory, to) = (TestPages::huge(1024), shared(1026));
    let odd = [(17, 5 * PAGE + 3), (5 * PAGE + 20, 700 * PAGE), (900 * PAGE, PAGE), (950 * PAGE, 0)];
    let at = |offset: usize| memory.at(0).wrapping_add(offset);
    let transfers = odd.map(|(offset, bytes)| transfer(at(offset), to.at(0).wrapping_add(offset), bytes));
    let mut taken = Protected::take(&transfers).unwrap();
    memory.write_each((0..1024).rev());
    taken.wait().unwrap();
    assert!([1, 5, 6, 600, 900].into_iter().all(|page| to.read(page) == 1));
    // Bytes before and behind the region are not copied.
    assert_eq!((to.read(0), to.read(800), memory.read(800)), (0, 0, 2));
}

#[test]
fn who_writes_goes_on_when_a_snapshot_is_given_up() {
    let (memory, to) = (TestPages::huge(PAGES), shared(PAGES));
    for _ in 0..5 {
        let taken = take(&memory, &to);
        thread::scope(|scope| {
            scope.spawn(|| memory.write_each((0..PAGES).rev()));
            drop(taken);
        });
    }
    assert_eq!(memory.read(7), 6);
    take(&memory, &to).wait().unwrap();
}

/// The kernel does not allow copying it before it is gone: the snapshot has failed, or has copied all of it.
#[test]
#[allow(unsafe_code)]
fn memory_that_is_given_back_is_saved_as_it_was_or_not_at_all() {
    in_child(|| {
        let (memory, to) = (TestPages::huge(PAGES), shared(PAGES));
        let mut failed = 0;
        for round in 0..200 {
            memory.write_each(0..PAGES);
            let before: Vec<u8> = (0..PAGES).map(|page| memory.read(page)).collect();
            let mut taken = take(&memory, &to);
            let (first, bytes) = (PAGES * (round % 4) / 4, PAGES / 4 * PAGE);
            // SAFETY: inside the memory, which is this test's.
            assert_eq!(unsafe { libc::madvise(memory.at(first).cast(), bytes, libc::MADV_DONTNEED) }, 0);
            match taken.wait() {
                Ok(()) => assert!((0..PAGES).all(|page| to.read(page) == before[page]), "round {round}"),
                Err(why) => {
                    assert!(why.to_string().contains("memory was freed"), "{why}");
                    failed += 1;
                }
            }
            if failed > 3 {
                return;
            }
        }
        panic!("{failed} of the snapshots had not copied freed memory");
    });
}

#[test]
fn memory_that_cannot_be_protected_is_refused() {
    let (memory, to) = (TestPages::new(8), shared(8));
    let refused = |transfers: &[Transfer]| match Protected::take(transfers) {
        Err(NotTaken::Unsuited { indices, why }) => format!("{}: {why}", indices[0]),
        other => panic!("{other:?}"),
    };
    let good = || transfer(memory.at(0), to.at(0), PAGE);
    assert!(refused(&[good(), transfer(to.at(0), to.at(1), PAGE)]).starts_with("1: it is a shared mapping"));
    let mut tracker = PageTracker::new().unwrap();
    tracker.watch(memory.range()).unwrap();
    let taken = Protected::take(&[good()]);
    assert!(matches!(&taken, Err(NotTaken::NoRoom(error)) if error.kind() == io::ErrorKind::ResourceBusy), "{taken:?}");
    drop(tracker);
    Protected::take(&[good()]).unwrap().wait().unwrap();
}

#[test]
fn a_child_that_is_forked_meanwhile_writes_and_ends_nothing() {
    let (memory, to) = (TestPages::huge(PAGES), shared(PAGES));
    let mut taken = Some(take(&memory, &to));
    in_child(|| {
        memory.write_each(0..PAGES);
        drop(taken.take());
    });
    taken.unwrap().wait().unwrap();
    assert!((0..PAGES).all(|page| to.read(page) == 1));
}

/// Story: closing the descriptor alone left the memory protected, and nothing could lift that.
#[test]
#[allow(unsafe_code)]
fn what_is_given_up_is_lifted_though_a_child_has_the_descriptor() {
    in_child(|| {
        let (memory, to) = (TestPages::huge(PAGES), shared(PAGES));
        let taken = take(&memory, &to);
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
        drop(taken);
        memory.write_each(0..PAGES);
        take(&memory, &to).wait().unwrap();
        // SAFETY: our own child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    });
}

/// For 1 GiB: the program's waiting time, beside a copy, and then the time to write every page.
#[test]
#[ignore = "a measurement"]
#[allow(unsafe_code)]
fn a_snapshot_of_a_gibibyte() {
    const BYTES: usize = 1 << 30;
    let (memory, to) = (OwnMapping::new(BYTES, None).unwrap(), shared(BYTES / PAGE));
    to.write_each(0..BYTES / PAGE);
    let write = || {
        // SAFETY: inside the allocation, which is this thread's.
        (0..BYTES).step_by(PAGE).for_each(|at| unsafe { memory.address().add(at).write_volatile(1) });
    };
    write();
    for _ in 0..5 {
        let begun = Instant::now();
        // SAFETY: both have this length and are not used elsewhere.
        unsafe { ptr::copy_nonoverlapping(memory.address(), to.at(0), BYTES) };
        let copy = begun.elapsed();
        let begun = Instant::now();
        let mut taken = Protected::take(&[transfer(memory.address(), to.at(0), BYTES)]).unwrap();
        let perceived = begun.elapsed();
        write();
        let written = begun.elapsed() - perceived;
        taken.wait().unwrap();
        println!(
            "copy {copy:?}, taken in {perceived:?}, all written in {written:?}, copied after {:?}",
            begun.elapsed()
        );
    }
}
