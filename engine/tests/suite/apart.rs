//! A region that overlaps another is refused, by both names, because a restore would fill it twice. A region that only
//! touches another, has no bytes, or is in the gaps of another is accepted.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use mainstay_engine::{Config, ErrorKind, Region, Result, Session, group::Solo, space::format::ElementType};
use std::sync::{
    Arc,
    atomic::{AtomicPtr, Ordering},
};
use tempfile::TempDir;

/// A region of `bytes` bytes of `memory` that begins at byte `from`.
fn part(name: &str, memory: &mut [u64], from: usize, bytes: usize) -> Region {
    // SAFETY: the tests keep the memory for as long as the session.
    unsafe { Region::new(name, memory.as_mut_ptr().cast::<u8>().wrapping_add(from), bytes as u64) }.unwrap()
}

/// A region of every `apart`th element of `memory`, from element `first` on.
fn every(name: &str, memory: &mut [u64], first: usize, apart: usize) -> Region {
    let shape = [((memory.len() - first).div_ceil(apart)) as u64];
    // SAFETY: as above.
    unsafe {
        let at = memory.as_mut_ptr().wrapping_add(first).cast();
        let region = Region::array(name, at, ElementType::U64, &shape).unwrap();
        region.spread(&[8 * apart as u64]).unwrap()
    }
}

fn alone(work: impl FnOnce(&mut Session)) {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let mut session = Session::open(Box::new(Solo), folder.path(), Config::default()).unwrap();
    work(&mut session);
    session.unprotect_all().unwrap();
    session.close().unwrap();
}

#[track_caller]
fn refused(done: Result<()>, words: &[&str]) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn what_has_bytes_of_another_is_refused_with_both_names() {
    alone(|session| {
        let mut memory = [7_u64; 100];
        let at = memory.as_ptr().addr();
        session.protect(part("a", &mut memory, 80, 320)).unwrap();
        for (from, bytes, common) in [(80, 320, 320), (0, 800, 320), (100, 8, 8), (0, 81, 1), (399, 100, 1)] {
            let common =
                format!("memory of \"b\": {common} byte(s) of it, from {:#x} on, belong to \"a\"", at + from.max(80));
            refused(session.protect(part("b", &mut memory, from, bytes)), &[&common, "unprotect \"a\" first"]);
        }
        // The refused region does not exist, and its name is free.
        assert_eq!(session.unprotect("b").unwrap_err().kind(), ErrorKind::RegionMissing);
        session.protect(part("b", &mut memory, 0, 80)).unwrap();
        session.protect(part("c", &mut memory, 400, 400)).unwrap();
        for (name, from) in [("empty", 0), ("inside", 200), ("behind", 800)] {
            session.protect(part(name, &mut memory, from, 0)).unwrap();
        }
        // After `unprotect` the memory is free, too.
        session.unprotect("a").unwrap();
        session.protect(part("b2", &mut memory, 80, 160)).unwrap();
        session.protect(part("a", &mut memory, 240, 160)).unwrap();
        // A buffer for `put` may be protected memory.
        // SAFETY: it is not written meanwhile.
        let buffer = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), 800) };
        session.put("put", buffer).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        let saved = memory;
        memory.fill(0);
        session.restore().unwrap().unwrap();
        assert_eq!(memory, saved);
    });
}

/// Interleaved components are as common as arrays.
#[test]
fn gaps_are_free_for_others() {
    alone(|session| {
        let mut memory = [7_u64; 300];
        session.protect(every("x", &mut memory, 0, 3)).unwrap();
        session.protect(every("y", &mut memory, 1, 3)).unwrap();
        refused(session.protect(every("again", &mut memory, 3, 3)), &["8 byte(s)", "\"again\"", "belong to \"x\""]);
        refused(session.protect(every("both", &mut memory, 2, 2)), &["8 byte(s)", "\"both\"", "belong to \"x\""]);
        refused(session.protect(part("all", &mut memory, 0, 2400)), &["8 byte(s)", "\"all\"", "belong to \"x\""]);
        refused(session.protect(part("part", &mut memory, 44, 8)), &["4 byte(s)", "\"part\"", "belong to \"x\""]);
        session.protect(part("z2", &mut memory, 40, 8)).unwrap();
        refused(session.protect(every("z", &mut memory, 2, 3)), &["8 byte(s)", "\"z\"", "belong to \"z2\""]);
        session.unprotect("z2").unwrap();
        session.protect(every("z", &mut memory, 2, 3)).unwrap();
    });
}

/// Two regions may overlap between two moves, but not at a restore.
#[test]
fn what_was_moved_is_compared_at_a_restore() {
    alone(|session| {
        let (mut one, mut other) = ([1_u64; 50], [2_u64; 50]);
        session.protect(part("a", &mut one, 0, 400)).unwrap();
        session.protect(part("b", &mut other, 0, 400)).unwrap();
        session.checkpoint().unwrap();
        session.move_region(part("a", &mut other, 0, 400)).unwrap();
        refused(session.restore().map(drop), &["it overlaps \"", "\"a\"", "\"b\""]);
        session.move_region(part("b", &mut one, 0, 400)).unwrap();
        session.restore().unwrap().unwrap();
        assert_eq!((one, other), ([2; 50], [1; 50]));
        // Mainstay knows the new places of both regions, and their old places are free.
        refused(session.protect(part("c", &mut other, 8, 8)), &["belong to \"a\""]);
        let mut third = [3_u64; 50];
        session.move_region(part("a", &mut third, 0, 400)).unwrap();
        session.protect(part("c", &mut other, 8, 8)).unwrap();
        refused(session.protect(part("d", &mut third, 8, 8)), &["belong to \"a\""]);
    });
}

#[test]
fn what_follows_a_pointer_lies_where_that_points() {
    alone(|session| {
        let (mut one, mut other) = ([1_u64; 50], [2_u64; 50]);
        let pointer = Arc::new(AtomicPtr::new(one.as_mut_ptr()));
        let look = pointer.clone();
        session.protect(part("cur", &mut one, 0, 400)).unwrap();
        // SAFETY: it points to memory that outlives the session.
        session.follow("cur", move |region| unsafe { region.at(look.load(Ordering::Relaxed).cast(), None) }).unwrap();
        refused(session.protect(part("prev", &mut one, 0, 400)), &["400 byte(s)", "belong to \"cur\""]);
        // The pointer has moved on meanwhile.
        pointer.store(other.as_mut_ptr(), Ordering::Relaxed);
        session.protect(part("prev", &mut one, 0, 400)).unwrap();
        session.checkpoint().unwrap();
        refused(session.protect(part("more", &mut other, 0, 8)), &["8 byte(s)", "belong to \"cur\""]);
    });
}

/// A program may have this many regions. A comparison of each with all others would take minutes.
#[test]
fn a_hundred_thousand_are_compared_at_once() {
    alone(|session| {
        let mut memory = vec![0_u64; 200_000];
        for index in 0..100_000 {
            session.protect(part(&format!("r{index}"), &mut memory, 16 * index, 8)).unwrap();
        }
        refused(session.protect(part("last", &mut memory, 16 * 77_777 + 4, 8)), &["4 byte(s)", "belong to \"r77777\""]);
    });
}
