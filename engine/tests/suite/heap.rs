//! The heap: memory by calls like malloc, which a session saves whole and brings back at its addresses.
#![expect(unsafe_code, reason = "memory of the program")]

use crate::support::in_sessions;
use mainstay_engine::{Capture, Config, ErrorKind, Region, Session, Track, group::Solo, heap};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};
use tempfile::TempDir;

/// All tests share the heap of the process: one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A list. The value of its first element is one less than the number of elements.
#[repr(C)]
struct Element {
    value: u64,
    next: *mut Element,
}

/// Puts an element before `next`.
fn element(value: u64, next: *mut Element) -> *mut Element {
    let at = heap::allocate(size_of::<Element>(), 16).unwrap().cast::<Element>();
    // SAFETY: memory of this size that was just given out.
    unsafe { at.write(Element { value, next }) };
    at
}

fn values(mut at: *mut Element) -> Vec<u64> {
    let mut values = Vec::new();
    while !at.is_null() {
        // SAFETY: the list consists of elements of the heap.
        let element = unsafe { &*at };
        values.push(element.value);
        at = element.next;
    }
    values
}

fn let_go(mut at: *mut Element) {
    while !at.is_null() {
        // SAFETY: as in `values`.
        let next = unsafe { (*at).next };
        assert!(heap::release(at.cast()));
        at = next;
    }
}

/// The list and an array: all that the heap holds.
struct State {
    list: *mut Element,
    array: *mut u8,
    bytes: usize,
}

impl State {
    fn new(count: u64, bytes: usize) -> State {
        let list = (0..count).fold(std::ptr::null_mut(), |next, value| element(value, next));
        let array = heap::allocate_zeros(bytes).unwrap();
        // SAFETY: memory of this size that was just given out.
        unsafe { std::ptr::write_bytes(array, count as u8, bytes) };
        State { list, array, bytes }
    }

    fn check(&self, count: u64) {
        assert_eq!(values(self.list), (0..count).rev().collect::<Vec<_>>());
        // SAFETY: memory of this size of the heap.
        let array = unsafe { std::slice::from_raw_parts(self.array, self.bytes) };
        assert!(array.iter().all(|byte| *byte == count as u8));
    }

    fn let_go(&self) {
        let_go(self.list);
        assert!(heap::release(self.array));
    }
}

fn open(space: &Path, config: &Config) -> Session {
    let mut session = Session::open(Box::new(Solo), space, config.clone()).unwrap();
    // SAFETY: the tests use the heap in one thread.
    unsafe { session.protect_heap() }.unwrap();
    session
}

#[test]
fn what_the_heap_held_comes_back_whatever_it_holds_by_then() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (capture, track) in [
        (Capture::Whole, Track::Auto),
        (Capture::Incremental, Track::Auto),
        (Capture::Incremental, Track::Hashes),
        (Capture::Snapshot, Track::Auto),
    ] {
        let space = TempDir::new_in("/dev/shm").unwrap();
        let config = Config { capture, track, snapshot_bytes: Some(0), keep: 2, ..Config::default() };
        let mut session = open(space.path(), &config);
        assert!(session.restore().unwrap().is_none());
        let state = State::new(3000, 3 << 20);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        // The heap has other memory now, and less. The program frees the array while the checkpoint is under way.
        let more = State::new(50, 700_000);
        let_go(state.list);
        session.checkpoint().unwrap();
        assert!(heap::release(state.array));
        more.check(50);
        let others = State::new(7, 5 << 20);
        assert_eq!(session.restore_revision(1).unwrap().unwrap().revision, 1);
        state.check(3000);
        assert!(!heap::release(others.array) || others.array == state.array, "{capture:?}: what was not saved is gone");
        // The job goes on from there, and the next job restores that revision.
        let next = State::new(9, 200_000);
        session.checkpoint().unwrap();
        session.close().unwrap();
        next.let_go();
        state.let_go();
        let odd = State::new(100, 2 << 20);
        let mut session = open(space.path(), &config);
        session.restore().unwrap().unwrap();
        state.check(3000);
        next.check(9);
        assert!(odd.array != next.array || odd.bytes != next.bytes);
        state.let_go();
        next.let_go();
        session.close().unwrap();
    }
}

#[test]
fn one_session_saves_the_heap_and_it_stays_while_a_checkpoint_is_under_way() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [space, other] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let mut session = open(space.path(), &Config::default());
    let mut second = Session::open(Box::new(Solo), other.path(), Config::default()).unwrap();
    // SAFETY: it is refused.
    let refused = unsafe { second.protect_heap() }.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.to_string().contains("protects the heap already")),
        (ErrorKind::InvalidArgument, true)
    );

    session.begin(1000).unwrap();
    session.write("stream", 0, &[1; 10]).unwrap();
    let state = State::new(3, 1 << 20);
    let refused = session.checkpoint().unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().contains("grown or shrunk")), (ErrorKind::InvalidArgument, true));
    assert!(session.wait().is_err());
    session.checkpoint().unwrap();
    session.unprotect_all().unwrap();
    // SAFETY: nobody else uses the heap.
    unsafe { second.protect_heap() }.unwrap();
    second.close().unwrap();
    // The heap is in the revision, but no longer protected.
    let refused = session.restore().unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().contains("heap/")), (ErrorKind::RegionMissing, true));
    session.close().unwrap();
    state.check(3);
    state.let_go();
}

#[test]
fn a_heap_comes_back_to_as_many_ranks_and_only_where_one_was_saved() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [space, bare] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let state = State::new(3, 1 << 20);
    let mut session = open(space.path(), &Config::default());
    session.checkpoint().unwrap();
    session.close().unwrap();
    in_sessions(space.path(), 2, &Config::default(), |rank, session| {
        if rank == 0 {
            // SAFETY: the other rank does not use the heap.
            unsafe { session.protect_heap() }.unwrap();
        }
        assert_eq!(session.restore().unwrap_err().kind(), ErrorKind::RankCount);
    });
    let mut session = Session::open(Box::new(Solo), bare.path(), Config::default()).unwrap();
    session.begin(10).unwrap();
    session.write("stream", 0, &[1; 10]).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    // A region of the heap under a name of its own is saved. A restore refuses the region if the saved heap has no
    // memory there.
    // SAFETY: memory of the heap, of this size.
    let there = unsafe { Region::new("named", state.array, 1 << 20) }.unwrap();
    let named = TempDir::new().unwrap();
    let mut session = open(named.path(), &Config::default());
    session.protect(there).unwrap();
    session.checkpoint().unwrap();
    session.restore().unwrap();
    session.close().unwrap();
    let far = State::new(1, 20 << 20);
    // SAFETY: as above.
    let far_region = unsafe { Region::new("named", far.array, 1 << 20) }.unwrap();
    let mut session = open(named.path(), &Config::default());
    session.protect(far_region).unwrap();
    let refused = session.restore().unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().contains("is in the heap")), (ErrorKind::InvalidArgument, true));
    session.close().unwrap();
    far.let_go();
    let mut session = open(bare.path(), &Config::default());
    let refused = session.restore().unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().contains("not in revision 1")), (ErrorKind::RegionMissing, true));
    session.close().unwrap();
    // The refusals have changed nothing.
    state.check(3);
    state.let_go();
}
