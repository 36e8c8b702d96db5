//! The program's own variables as regions, except Rust's: the engine is linked into this program, and Rust's variables
//! count as the engine's own. The behaviour for programs in C and Fortran is in tests/test_globals.py.
#![expect(unsafe_code, reason = "variables that C could have")]

use crate::incremental::written;
use mainstay_engine::{
    Capture, Config, ErrorKind, Reader, Region, Session, Track,
    group::Solo,
    space::format::{ElementType, Item},
};
use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
    },
};
use tempfile::TempDir;

const CELLS: usize = 30_000;

/// Only one test at a time may use the variables.
static ALONE: Mutex<()> = Mutex::new(());

#[unsafe(no_mangle)]
static MAINSTAY_TEST_FIELD: [AtomicU64; CELLS] = [const { AtomicU64::new(0) }; CELLS];
#[unsafe(no_mangle)]
static MAINSTAY_TEST_LEFT_OUT: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
#[unsafe(no_mangle)]
static MAINSTAY_TEST_BEGUN: AtomicU64 = AtomicU64::new(7);
/// Points to memory that is protected under a name of its own.
#[unsafe(no_mangle)]
static MAINSTAY_TEST_POINTER: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(no_mangle)]
static MAINSTAY_TEST_HANDLE: AtomicU64 = AtomicU64::new(0);
/// A variable of Rust, so not one of the regions.
static OF_RUST: AtomicU64 = AtomicU64::new(0);

fn set(step: u64) {
    for (cell, value) in (0..).zip(&MAINSTAY_TEST_FIELD) {
        value.store(step * 1_000_000 + cell, Relaxed);
    }
    for value in MAINSTAY_TEST_LEFT_OUT.iter().chain([&MAINSTAY_TEST_BEGUN, &OF_RUST]) {
        value.store(step, Relaxed);
    }
}

/// Opens a session of a program that has the memory `heap` and the handle `handle`.
fn open(space: &Path, config: Config, heap: &mut [u64], handle: usize) -> Session {
    let config = Config { pool_bytes: Some(1 << 20), ..config };
    let mut session = Session::open(Box::new(Solo), space, config).unwrap();
    MAINSTAY_TEST_POINTER.store(heap.as_mut_ptr(), Relaxed);
    MAINSTAY_TEST_HANDLE.store(handle as u64, Relaxed);
    // SAFETY: the memory outlives the session, and nobody else uses it meanwhile.
    let region = unsafe { Region::array("heap", heap.as_mut_ptr().cast(), ElementType::U64, &[heap.len() as u64]) };
    session.protect(region.unwrap()).unwrap();
    session.leave_out(MAINSTAY_TEST_LEFT_OUT.as_ptr().addr(), size_of_val(&MAINSTAY_TEST_LEFT_OUT) as u64).unwrap();
    // SAFETY: no other test uses these variables; all others are left out.
    unsafe { session.protect_globals(&[handle]) }.unwrap();
    session
}

#[test]
fn variables_come_back_and_pointers_point_to_this_run() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let space = TempDir::new().unwrap();
    let (mut first, mut second) = (vec![1_u64; 100], vec![2_u64; 100]);
    let mut session = open(space.path(), Config::default(), &mut first, 0x7000_0000_1230);
    set(3);
    session.checkpoint().unwrap();
    session.note("mine", "of the program").unwrap();
    set(4);
    let revision = session.checkpoint().unwrap();
    session.close().unwrap();

    let mut session = open(space.path(), Config::default(), &mut second, 0x7000_0000_4560);
    set(9);
    let restored = session.restore().unwrap().unwrap();
    assert_eq!(restored.revision, revision);
    assert_eq!(restored.notes.into_iter().collect::<Vec<_>>(), [("mine".to_owned(), "of the program".to_owned())]);
    assert!((0..).zip(&MAINSTAY_TEST_FIELD).all(|(cell, value)| value.load(Relaxed) == 4_000_000 + cell));
    assert_eq!(MAINSTAY_TEST_BEGUN.load(Relaxed), 4);
    assert!(MAINSTAY_TEST_LEFT_OUT.iter().chain([&OF_RUST]).all(|value| value.load(Relaxed) == 9), "what is left out");
    // The pointer and the handle are those of this run, though the saved values are of the run before.
    assert_eq!(MAINSTAY_TEST_POINTER.load(Relaxed), second.as_mut_ptr());
    assert_eq!((second[0], MAINSTAY_TEST_HANDLE.load(Relaxed)), (1, 0x7000_0000_4560));

    // SAFETY: it is refused.
    let twice = unsafe { session.protect_globals(&[]) }.unwrap_err();
    assert_eq!((twice.kind(), twice.to_string().contains("protected already")), (ErrorKind::InvalidArgument, true));
    // Unprotected variables are not saved, and a restore does not ask for them.
    session.unprotect_all().unwrap();
    session.begin(100).unwrap();
    session.write("alone", 0, &[1; 10]).unwrap();
    session.checkpoint().unwrap();
    session.close().unwrap();
    let reader = Reader::open(space.path(), None, "test").unwrap();
    let shard = reader.shard(0).unwrap();
    assert_eq!((shard.items.len(), shard.annex.notes.len()), (1, 0));
    let reader = Reader::open(space.path(), Some(revision), "test").unwrap();
    let items = &reader.shard(0).unwrap().items;
    let bytes = |name: &str| items.iter().find(|item: &&Item| item.name == name).map(|item| item.bytes);
    assert_eq!(bytes("globals/MAINSTAY_TEST_FIELD"), Some(8 * CELLS as u64), "{items:?}");
    assert_eq!(bytes("globals/MAINSTAY_TEST_BEGUN"), Some(8));
    assert_eq!([bytes("globals/MAINSTAY_TEST_LEFT_OUT"), bytes("globals/OF_RUST")], [None, None], "{items:?}");
    assert_eq!(bytes("globals/addresses"), Some(16 * 3));
}

/// Mainstay finds the changes by the pages of .bss and .data, or by hashes. The second revision shares blocks with the
/// first, and the next job with the revision that it has restored.
#[test]
fn what_changed_of_the_variables_is_written_and_all_comes_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (capture, track) in [
        (Capture::Incremental, Track::Auto),
        (Capture::Incremental, Track::Hashes),
        (Capture::IncrementalSnapshot, Track::Auto),
    ] {
        let space = TempDir::new_in("/dev/shm").unwrap();
        let config = Config { capture, track, audit: 1, snapshot_bytes: Some(0), keep: 2, ..Config::default() };
        let mut heap = vec![1_u64; 100];
        let cell = |index: usize| &MAINSTAY_TEST_FIELD[index % CELLS];
        let mut step = 3;
        set(step);
        for job in 0..3 {
            let mut session = open(space.path(), config.clone(), &mut heap, 0x7000_0000_1230 + job);
            let now: Vec<u64> = MAINSTAY_TEST_FIELD.iter().map(|value| value.load(Relaxed)).collect();
            set(99);
            if session.restore().unwrap().is_some() {
                assert!(now.iter().zip(&MAINSTAY_TEST_FIELD).all(|(was, now)| now.load(Relaxed) == *was), "job {job}");
                assert_eq!(MAINSTAY_TEST_BEGUN.load(Relaxed), step);
                assert_eq!(MAINSTAY_TEST_POINTER.load(Relaxed), heap.as_mut_ptr());
            } else {
                set(step);
            }
            for round in 0..4 {
                let number = session.checkpoint().unwrap();
                session.wait().unwrap();
                let bytes = written(space.path(), number);
                // Only the first revision writes more than the bytes of the field: all variables of this program.
                let is_first = job == 0 && round == 0;
                assert!(is_first == (bytes > 8 * CELLS as u64), "{capture:?}, {track:?}: {bytes} bytes, round {round}");
                // A change in one cell and in another variable.
                step += 1;
                cell(700 * step as usize).fetch_add(1, Relaxed);
                MAINSTAY_TEST_BEGUN.store(step, Relaxed);
            }
            session.checkpoint().unwrap();
            session.close().unwrap();
        }
    }
}

/// A buffer that the program put beside the variables is no region of the next job.
#[test]
fn a_revision_of_something_that_was_put_comes_back_with_the_variables() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let space = TempDir::new_in("/dev/shm").unwrap();
    let mut heap = vec![1_u64; 100];
    for job in 0..3 {
        let mut session = open(space.path(), Config::default(), &mut heap, 0x7000_0000_1230 + job);
        let came = session.restore().unwrap();
        assert_eq!(came.map(|came| came.revision), (job > 0).then_some(2 * job as u64), "job {job}");
        session.put("object", &[job as u8; 5000]).unwrap();
        session.wait().unwrap();
        assert!(session.restore().unwrap().is_some());
        session.put("object", &[job as u8; 5000]).unwrap();
        session.close().unwrap();
    }
}

/// A variable that is protected later under a name of its own stays a global variable, too: it has both names.
#[test]
fn a_variable_may_have_a_name_of_its_own_besides() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (space, mut heap) = (TempDir::new().unwrap(), vec![1_u64; 100]);
    let field = || {
        let at = MAINSTAY_TEST_FIELD.as_ptr().cast_mut().cast();
        // SAFETY: the variables stay, and are those of this test alone.
        unsafe { Region::array("field", at, ElementType::U64, &[CELLS as u64]) }.unwrap()
    };
    let mut session = open(space.path(), Config::default(), &mut heap, 0x7000_0000_1230);
    session.protect(field()).unwrap();
    set(5);
    session.checkpoint().unwrap();
    set(6);
    session.restore().unwrap().unwrap();
    assert!((0..).zip(&MAINSTAY_TEST_FIELD).all(|(cell, value)| value.load(Relaxed) == 5_000_000 + cell));
    // A variable may not have two names of its own.
    // SAFETY: as above.
    let again = unsafe { Region::new("again", MAINSTAY_TEST_FIELD.as_ptr().cast_mut().cast(), 8) }.unwrap();
    assert!(session.protect(again).unwrap_err().to_string().contains("belong to \"field\" already"));
    session.close().unwrap();
}
