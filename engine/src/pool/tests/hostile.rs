//! Values that a hostile or half-dead process leaves in shared memory.

use super::{super::word::ChunkState, *};
use std::{
    os::unix::fs::FileExt,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// With any values in the words, nothing panics, no access leaves the pool, and a living member gets chunks, or an
/// error if its own chunk is taken away.
#[test]
fn any_words_at_all() {
    thread::scope(|scope| (0..40).for_each(|seed| drop(scope.spawn(move || with_words_of(seed)))));
}

fn with_words_of(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = memory();
    let shape = Shape { grows: seed % 2 == 1, ..shape(3, 5) };
    let first = create(directory.path(), &shape).unwrap();
    let second = Pool::join(directory.path(), first.id(), 1).unwrap();
    first.want(CHUNK * 5, 0);
    first.make_memory().unwrap();
    second.make_memory().unwrap();
    let held = take(&first);
    scribble(&first, &mut random);
    thread::scope(|scope| {
        for pool in [first, second] {
            scope.spawn(move || use_it(&pool));
        }
    });
    // A chunk with an overwritten word is lost and returns an error; it must not panic.
    let _ = held.fill(1, 0, CHUNK).and_then(|()| held.await_turn()).and_then(|()| held.written());
}

fn scribble(pool: &Pool, random: &mut fastrand::Rng) {
    let shared = &pool.shared;
    let (from, to) = (shared.constants.control_at(), shared.constants.tables_end() as usize);
    let mut words: Vec<u64> = (from..to).step_by(8).map(|_| random.u64(..)).collect();
    if random.bool() {
        words.iter_mut().for_each(|word| *word = *random.choice([&0, &1, &u64::MAX, &0xffff_ffff]).unwrap());
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    shared.file().write_all_at(&bytes, from as u64).unwrap();
    // A member could have written such words, but most of them are false.
    for entry in shared.chunk_entries() {
        let state = random.u64(0..6);
        if state < 5 {
            let word = state | random.u64(0..4) << 16 | random.u64(0..3) << 32;
            entry.word.store(word, Ordering::SeqCst);
        }
    }
}

fn use_it(pool: &Pool) {
    for _ in 0..2 {
        let begun = Instant::now();
        let reclaim = || {
            assert!(begun.elapsed() < Duration::from_secs(60), "no chunk ever");
            for dead in pool.dead() {
                pool.free_of(dead, 0);
            }
        };
        let mut chunk = pool.take(&reclaim).unwrap();
        chunk.bytes_mut().fill(1);
        let used = chunk.fill(1, 1, CHUNK).and_then(|()| chunk.await_turn()).and_then(|()| chunk.written());
        used.unwrap();
    }
    // There is no fourth member.
    assert!(pool.sealed(3).is_empty());
}

#[test]
fn a_chunk_that_was_taken_away_is_an_error_and_stays_away() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let chunk = take(&pool);
    let word = &pool.shared.chunk_entries()[chunk.index() as usize].word;
    let others = ChunkState::Full as u64 | 1 << 16;
    word.store(others, Ordering::SeqCst);
    let error = chunk.fill(1, 0, CHUNK).unwrap_err();
    assert!(error.to_string().contains("was changed by another process"), "{error}");
    drop(chunk);
    assert_eq!(word.load(Ordering::SeqCst), others);
    assert!(pool.free_of(1, 0));
    assert_eq!(take_all(&pool).len(), 3);
}

#[test]
fn chunks_that_say_they_are_a_members_who_does_not_know_are_freed_by_it() {
    let directory = memory();
    let first = pool(&directory, 2, 3);
    let second = Pool::join(directory.path(), first.id(), 1).unwrap();
    let held = take(&second);
    for entry in first.shared.chunk_entries() {
        let lie = ChunkState::Full as u64 | 1 << 16 | 7 << 32;
        let _ = entry.word.compare_exchange(0, lie, Ordering::SeqCst, Ordering::SeqCst);
    }
    assert!(first.take_now().is_none());
    first.repair();
    assert!(first.take_now().is_none(), "another member may hold them");
    second.repair();
    assert_eq!(take_all(&first).len(), 2, "all but the one that it holds");
    drop(held);
}

#[test]
fn a_making_that_nobody_is_at_is_begun_anew() {
    // Garbage, a number that no member has, a member that never joined, this member, old failures.
    for found in [77, 1 << 32 | 9, 1 << 32 | 1, 1 << 32, 2, 3, u64::MAX] {
        let directory = memory();
        let pool = pool(&directory, 2, 3);
        pool.shared.control().making.store(found, Ordering::SeqCst);
        pool.make_memory().unwrap();
        assert_eq!(pool.shared.control().making.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn making_it_again_changes_no_contents() {
    let directory = memory();
    let first = pool(&directory, 2, 64);
    let second = Pool::join(directory.path(), first.id(), 1).unwrap();
    let mut chunks = take_all(&first);
    chunks.iter_mut().for_each(|chunk| chunk.bytes_mut().fill(5));
    first.shared.control().making.store(0, Ordering::SeqCst);
    second.make_memory().unwrap();
    assert!(chunks.iter().all(|chunk| chunk.bytes().iter().all(|&byte| byte == 5)));
}
