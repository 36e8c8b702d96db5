//! Programs that move, drop and replace watched memory: no new memory may look known.

use super::{PAGE, PageTracker, TestPages, knowing, tracker, written_pages};
use crate::capture::tests::memory::in_child;
use std::{fs::File, io::Write, mem::forget, ops::Range, os::fd::AsRawFd};

const PRIVATE: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

#[test]
fn memory_that_was_mapped_anew_is_all_told() {
    in_child(|| {
        let memory = TestPages::new(1024);
        let mut tracker = knowing(&memory);
        // Mapped over it; and after the middle was freed.
        forget(TestPages::mapped(memory.at(0), 1024, PRIVATE, -1));
        assert_eq!(written_pages(&mut tracker, &memory), memory.all());
        assert_eq!(written_pages(&mut tracker, &memory), []);
        memory.unmap(100..200);
        forget(TestPages::mapped(memory.at(100), 100, PRIVATE, -1));
        memory.write(150);
        assert_eq!(written_pages(&mut tracker, &memory), memory.all());
        memory.write(150);
        assert_eq!(written_pages(&mut tracker, &memory), [Range { start: 150, end: 151 }]);
        assert_eq!(written_pages(&mut tracker, &memory), []);
    });
}

/// To a scan the protection of another session looks like our own.
#[test]
fn what_another_watches_since_it_was_mapped_anew_is_left_to_that() {
    in_child(|| {
        let memory = TestPages::new(600);
        let (mut first, mut second) = (knowing(&memory), tracker());
        second.watch(memory.range()).unwrap_err();
        forget(TestPages::mapped(memory.at(0), 600, PRIVATE, -1));
        memory.write_each(0..600);
        second.watch(memory.range()).unwrap();
        assert_eq!(written_pages(&mut second, &memory), memory.all());
        memory.write(5);
        let mut out = Vec::new();
        assert!(first.written(memory.range(), &mut out).unwrap_err().contains("another userfaultfd"));
        assert_eq!(out, [memory.range()]);
        assert_eq!(written_pages(&mut second, &memory), [Range { start: 5, end: 6 }]);
        memory.write(6);
        drop(first);
        assert_eq!(written_pages(&mut second, &memory), [Range { start: 6, end: 7 }]);
    });
}

#[test]
fn two_arrays_that_change_places_are_all_told() {
    in_child(|| {
        let (one, two, aside) = (TestPages::new(600), TestPages::new(600), TestPages::new(600));
        one.write(5);
        let mut tracker = knowing(&one);
        tracker.watch(two.range()).unwrap();
        assert_eq!(written_pages(&mut tracker, &two), two.all());
        one.move_to(aside.at(0), 0);
        two.move_to(one.at(0), 0);
        aside.move_to(two.at(0), 0);
        forget(aside);
        assert_eq!((one.read(5), two.read(5)), (0, 1));
        for moved in [&one, &two] {
            assert_eq!(written_pages(&mut tracker, moved), moved.all());
            assert_eq!(written_pages(&mut tracker, moved), []);
            moved.write(6);
            assert_eq!(written_pages(&mut tracker, moved), [Range { start: 6, end: 7 }]);
        }
    });
}

#[test]
fn memory_whose_pages_were_moved_away_is_all_told() {
    let (memory, there) = (TestPages::new(600), TestPages::new(600));
    memory.write_each(0..600);
    let mut tracker = knowing(&memory);
    memory.move_to(there.at(0), libc::MREMAP_DONTUNMAP);
    assert_eq!((memory.read(5), there.read(5)), (0, 1));
    assert_eq!(written_pages(&mut tracker, &memory), memory.all());
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

#[test]
fn an_array_that_shrank_and_grew_again_is_told_where_it_did() {
    in_child(|| {
        let memory = TestPages::new(600);
        memory.write_each(0..600);
        let mut tracker = knowing(&memory);
        memory.resize(600, 300);
        memory.resize(300, 600);
        let anew = written_pages(&mut tracker, &memory);
        assert!(anew == [Range { start: 300, end: 600 }] || anew == memory.all(), "{anew:?}");
        assert_eq!(written_pages(&mut tracker, &memory), []);
    });
}

#[test]
fn what_grew_in_place_is_watched_with_what_came() {
    in_child(|| {
        let memory = TestPages::new(600);
        memory.resize(600, 300);
        let half = memory.range().start..memory.at(300) as usize;
        let mut tracker = tracker();
        tracker.watch(half.clone()).unwrap();
        tracker.written(half.clone(), &mut Vec::new()).unwrap();
        memory.resize(300, 600);
        tracker.unwatch(half);
        tracker.watch(memory.range()).unwrap();
        assert_eq!(written_pages(&mut tracker, &memory), memory.all());
        memory.write_each([299, 300]);
        assert_eq!(written_pages(&mut tracker, &memory), [Range { start: 299, end: 301 }]);
    });
}

/// Also beside others: the kernel merges neighbours into one mapping.
#[test]
fn a_mapping_moves_of_whose_first_and_last_page_a_part_alone_is_watched() {
    in_child(|| {
        let (all, there) = (TestPages::new(90), TestPages::new(30));
        let parts = [0, 30, 60].map(|page| TestPages::mapped(all.at(page), 30, PRIVATE, -1));
        let mut tracker = tracker();
        for part in &parts {
            let range = part.range().start + 16..part.range().end - 16;
            tracker.watch(range.clone()).unwrap();
            tracker.written(range, &mut Vec::new()).unwrap();
        }
        parts[1].write(29);
        parts[1].move_to(there.at(0), 0);
        assert_eq!(there.read(29), 1);
        forget(parts);
        forget(all);
    });
}

#[test]
fn a_file_that_was_mapped_over_it_is_watched_as_a_file() {
    let memory = TestPages::new(8);
    let mut tracker = knowing(&memory);
    let mut file: File = tempfile::tempfile().unwrap();
    file.write_all(&[7; 8 * PAGE]).unwrap();
    forget(TestPages::mapped(memory.at(0), 8, libc::MAP_PRIVATE, file.as_raw_fd()));
    for _ in 0..3 {
        assert_eq!(written_pages(&mut tracker, &memory), memory.all());
    }
}

#[test]
fn pages_that_were_dropped_are_told_though_nobody_wrote() {
    let memory = TestPages::new(1500);
    memory.write_each(0..1500);
    let mut tracker = knowing(&memory);
    memory.advise(3..5, libc::MADV_DONTNEED);
    memory.advise(400..1200, libc::MADV_DONTNEED);
    assert_eq!(written_pages(&mut tracker, &memory), [3..5, 400..1200]);
    memory.advise(3..5, libc::MADV_DONTNEED);
    assert_eq!(written_pages(&mut tracker, &memory), [Range { start: 3, end: 5 }]);
    assert_eq!(written_pages(&mut tracker, &memory), []);
}

#[test]
fn what_became_a_shared_mapping_is_told_and_refused() {
    let memory = TestPages::new(64);
    let mut tracker = knowing(&memory);
    forget(TestPages::mapped(memory.at(10), 20, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1));
    for why in ["a shared mapping", "not watched"] {
        let mut out = vec![Range { start: 0, end: 1 }];
        let refused = tracker.written(memory.range(), &mut out).unwrap_err();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(out, [0..1, memory.range()]);
    }
}

/// The kernel drops the registration of the neighbour with which a moved mapping merges. It leaves the neighbour's
/// pages marked as protected although they are not.
#[test]
fn a_neighbour_with_which_a_moved_mapping_becomes_one_is_told() {
    in_child(|| {
        let all = TestPages::new(8);
        all.write_each(0..8);
        let (stays, moves) = (all.range().start..all.at(4) as usize, all.at(4) as usize..all.range().end);
        let away = TestPages::new(4);
        let mut tracker = tracker();
        let watch = |tracker: &mut PageTracker, range: &Range<usize>| {
            tracker.watch(range.clone()).unwrap();
            tracker.written(range.clone(), &mut Vec::new()).unwrap();
        };
        watch(&mut tracker, &stays);
        watch(&mut tracker, &moves);
        let moved = |from: *mut u8, to: *mut u8| {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: both places are the test's.
            #[expect(unsafe_code, reason = "memory is moved")]
            let at = unsafe { libc::mremap(from.cast(), 4 * PAGE, 4 * PAGE, flags, to.cast::<libc::c_void>()) };
            assert_eq!(at, to.cast());
        };
        moved(all.at(4), away.at(0));
        tracker.unwatch(moves.clone());
        watch(&mut tracker, &away.range());
        moved(away.at(0), all.at(4));
        tracker.unwatch(away.range());
        watch(&mut tracker, &moves);
        let written_pages = |tracker: &mut PageTracker| {
            let mut written_pages = Vec::new();
            tracker.written(stays.clone(), &mut written_pages).unwrap();
            written_pages
        };
        all.write_each(0..2);
        let first = written_pages(&mut tracker);
        assert!(first.iter().any(|range| range.start == stays.start), "{first:x?}");
        all.write_each(0..2);
        assert_eq!(written_pages(&mut tracker), [Range { start: stays.start, end: stays.start + 2 * PAGE }]);
        std::mem::forget(away);
    });
}
