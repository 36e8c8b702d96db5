//! Pools that size themselves.

use super::{
    super::{RankRecord, available::Available, word::ChunkState},
    peer::Peer,
    *,
};
use crate::space::format::PoolBound;
use std::{
    os::unix::fs::MetadataExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

pub(super) const AMPLE: Available =
    Available { memory_free: 1 << 40, group_free: 1 << 40, directory_bytes: 1 << 40, directory_free: 1 << 40 };

pub(super) fn growing(directory: &TempDir, members: u32) -> Pool {
    let shape = Shape { grows: true, chunk_bytes_max: 4 * CHUNK, ..shape(members, 1024) };
    let pool = create(directory.path(), &shape).unwrap();
    free(&pool, AMPLE);
    pool
}

pub(super) fn joined(directory: &TempDir, pool: &Pool, member: u32) -> Pool {
    let joined = Pool::join(directory.path(), pool.id(), member).unwrap();
    free(&joined, AMPLE);
    joined
}

/// Sets the free memory that `pool` sees from now on.
pub(super) fn free(pool: &Pool, room: Available) {
    *pool.shared.sizes.room.lock().unwrap() = Some(room);
}

/// Memory of the chunks, in whole chunks: the tables of a pool that was larger may have some pages more.
pub(super) fn memory(pool: &Pool) -> u64 {
    let constants = &pool.shared.constants;
    let tables = constants.memory_bytes(pool.bytes()) - pool.bytes();
    (pool.shared.file().metadata().unwrap().blocks() * 512).saturating_sub(tables) / CHUNK * CHUNK
}

#[test]
fn it_takes_what_its_members_want_and_grows_with_them() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    let second = joined(&directory, &first, 1);
    assert_eq!((first.bytes(), memory(&first)), (0, 0), "nothing is wanted");
    first.want(3 * CHUNK, 0);
    second.want(CHUNK + 1, 1);
    first.make_memory().unwrap();
    second.make_memory().unwrap();
    assert_eq!((first.bytes(), second.bytes(), memory(&first)), (6 * CHUNK, 6 * CHUNK, 6 * CHUNK));
    let chunks: Vec<Chunk> = [&first, &second].iter().flat_map(|pool| (0..3).map(|_| take(pool))).collect();
    assert_eq!(first.bound(), PoolBound::Needed);
    // All of the pool is in use.
    first.want(10 * CHUNK, 0);
    first.make_memory().unwrap();
    assert_eq!((first.bytes(), second.bytes(), take_all(&first).len()), (13 * CHUNK, 6 * CHUNK, 7));
    second.make_memory().unwrap();
    assert_eq!(second.bytes(), 13 * CHUNK);
    drop(chunks);
    assert_eq!(take_all(&second).len(), 13);
    // Memory that is no longer wanted stays for the next time.
    first.want(CHUNK, 0);
    first.make_memory().unwrap();
    assert_eq!(first.bytes(), 13 * CHUNK);
    drop((first, second));
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn it_takes_no_more_than_its_share_of_what_is_free_and_no_less_than_lets_all_go_on() {
    let rows = [
        (Available { memory_free: 40 * CHUNK, ..AMPLE }, 10, PoolBound::Memory),
        (Available { group_free: 24 * CHUNK, ..AMPLE }, 6, PoolBound::ControlGroup),
        (Available { directory_bytes: 16 * CHUNK, ..AMPLE }, 8, PoolBound::Directory),
        // The least is a chunk for each member and one more.
        (Available { memory_free: 0, ..AMPLE }, 4, PoolBound::Memory),
        (Available { directory_bytes: 0, directory_free: 0, ..AMPLE }, 4, PoolBound::Directory),
    ];
    for (room, chunks, bound) in rows {
        let directory = super::memory();
        let pool = growing(&directory, 3);
        free(&pool, room);
        pool.want(100 * CHUNK, 0);
        pool.make_memory().unwrap();
        assert_eq!((pool.bytes(), pool.bound()), (chunks * CHUNK, bound), "{room:?}");
        assert_eq!(take_all(&pool).len() as u64, chunks);
    }
    // A pool never exceeds the size that its file was laid out for.
    let directory = super::memory();
    let pool = growing(&directory, 1);
    pool.want(u64::MAX, u32::MAX);
    pool.make_memory().unwrap();
    assert_eq!(pool.bytes(), 1024 * CHUNK);
}

#[test]
fn it_gives_back_what_others_need_but_no_chunk_that_is_in_use() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    let second = joined(&directory, &first, 1);
    first.want(16 * CHUNK, 0);
    [&first, &second].into_iter().for_each(|pool| pool.make_memory().unwrap());
    first.adapt();
    assert_eq!(first.bytes(), 16 * CHUNK, "nobody needs it");

    let mut chunks = take_all(&second);
    let mut last = chunks.pop().unwrap();
    let mut of_second = take_highest(&mut chunks);
    [&mut last, &mut of_second].into_iter().for_each(|chunk| chunk.bytes_mut().fill(7));
    drop(chunks);
    let indices = [last.index(), of_second.index()];
    free(&first, Available { memory_free: 8 * CHUNK, ..AMPLE });
    first.adapt();
    // The pool gets a quarter of the free memory plus its own.
    assert_eq!((first.bytes(), second.bytes()), (6 * CHUNK, 6 * CHUNK));
    let kept = indices.iter().filter(|index| **index >= 6).count() as u64;
    assert!(kept > 0 && memory(&first) == (6 + kept) * CHUNK, "{kept} {}", memory(&first));
    assert!([&last, &of_second].iter().all(|chunk| chunk.bytes().iter().all(|byte| *byte == 7)));
    last.fill(1, 0, CHUNK).unwrap();
    last.await_turn().unwrap();
    last.written().unwrap();
    drop((last, of_second));
    for pool in [&first, &second] {
        assert_eq!(take_all(pool).len(), 6, "what was in use is taken no more");
    }

    free(&first, AMPLE);
    first.want(17 * CHUNK, 0);
    [&first, &second].into_iter().for_each(|pool| pool.make_memory().unwrap());
    assert_eq!((take_all(&second).len(), memory(&first)), (17, 17 * CHUNK));
    // Memory that no member wants is not kept forever either.
    first.want(2 * CHUNK, 0);
    first.adapt();
    assert_eq!((first.bytes(), memory(&first)), (3 * CHUNK, 3 * CHUNK));
}

/// A member that had saved wanted less at once. Another that came late to t1 then lacked the room that the first one's
/// chunks still took, and waited for their writes.
#[test]
fn what_a_member_has_in_it_counts_though_it_wants_no_more() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    let late = joined(&directory, &first, 1);
    late.want(4 * CHUNK, 0);
    late.make_memory().unwrap();
    first.want(4 * CHUNK, 0);
    first.fit();
    first.make_memory().unwrap();
    let chunks: Vec<Chunk> = (0..4).map(|_| take(&first)).collect();
    first.want_less(4 * CHUNK);
    first.adapt();
    late.fit();
    late.make_memory().unwrap();
    assert_eq!((late.bytes(), take_all(&late).len(), late.bound()), (8 * CHUNK, 4, PoolBound::Needed));
    drop(chunks);
    first.adapt();
    assert_eq!(first.bytes(), 4 * CHUNK);
}

fn take_highest(chunks: &mut Vec<Chunk>) -> Chunk {
    let highest = (0..chunks.len()).max_by_key(|at| chunks[*at].index()).unwrap();
    chunks.remove(highest)
}

#[test]
fn chunks_suit_the_largest_shard_and_the_room() {
    let directory = super::memory();
    let pool = growing(&directory, 2);
    let ample = !u64::MAX;
    let rows = [
        ([0, ample], 1),
        ([3 * CHUNK, ample], 1),
        ([4 * CHUNK, ample], 2),
        ([100 * CHUNK, ample], 4),
        ([100 * CHUNK, !(3 * CHUNK)], 2),
        ([100 * CHUNK, !0], 1),
    ];
    for (facts, chunks) in rows {
        pool.set_chunk(facts);
        assert_eq!(pool.chunk_bytes(), chunks * CHUNK, "{facts:?}");
    }
    pool.want(64 * CHUNK, 0);
    free(&pool, Available { memory_free: 32 * CHUNK, ..AMPLE });
    assert_eq!(pool.chunk_facts(), [64 * CHUNK, !(2 * CHUNK)]);
}

#[test]
fn a_shard_is_completed_whatever_size_chunks_had_and_the_pool_has_now() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    first.set_chunk([8 * CHUNK, !u64::MAX]);
    first.want(12 * CHUNK, 0);
    first.make_memory().unwrap();
    let mut record = RankRecord::create(&first, 0).unwrap();
    let mut chunks = take_all(&first);
    let mut chunk = take_highest(&mut chunks);
    assert_eq!((chunk.index(), chunk.bytes().len() as u64), (2, 4 * CHUNK));
    chunk.bytes_mut().fill(9);
    let shard = recording::stage(&mut record, &chunk);
    shard.seal(&recording::plan()).unwrap();
    drop(chunks);
    let complete = |sealed: &[super::super::Sealed], contents| {
        let held = sealed[0].chunk_of(contents, 0).unwrap().unwrap();
        assert!(held.iter().all(|byte| *byte == 9));
    };
    complete(&first.sealed(0), first.contents());
    first.want(0, 0);
    free(&first, Available { memory_free: 0, ..AMPLE });
    first.adapt();
    assert!(first.bytes() <= 12 * CHUNK);
    // A killed member leaves everything as it is.
    let id = first.id();
    let copy = tempfile::tempdir_in("/dev/shm").unwrap();
    for name in files(directory.path()) {
        std::fs::copy(directory.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let dead = Pool::open_dead(copy.path(), id).unwrap().unwrap();
    complete(&dead.staged().unwrap().sealed, dead.contents());
}

#[test]
fn what_a_killed_member_made_and_held_is_found_though_nobody_else_had_seen_it() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    first.want(CHUNK, 0);
    first.make_memory().unwrap();
    let before = take_all(&first);
    assert_eq!(before.len(), 3);
    first.shared.member_entries()[1].wanted_bytes.store(6 * CHUNK, Ordering::SeqCst);
    let mut other = Peer::start("grow", &first);
    let indices: Vec<u32> = (0..6)
        .map(|_| {
            other.tell(&format!("{:?}", ChunkState::Full));
            other.hear().parse().unwrap()
        })
        .collect();
    assert!(indices.iter().all(|index| (3..9).contains(index)), "{indices:?}");
    assert_eq!(first.bytes(), 3 * CHUNK);
    other.kill();
    assert_eq!(first.dead(), [1]);
    assert!(first.free_of(1, 0) && first.dead().is_empty());
    first.make_memory().unwrap();
    assert_eq!(take_all(&first).len(), 6);
    drop(before);
}

#[test]
fn who_died_making_or_taking_memory_holds_up_nobody() {
    for (making, made) in [((1 << 32) + 1, 5 * CHUNK), ((1 << 32) + 1, 0), (2, u64::MAX), (3, 400 * CHUNK)] {
        let directory = super::memory();
        let pool = growing(&directory, 2);
        pool.want(5 * CHUNK, 0);
        pool.make_memory().unwrap();
        let mut chunks = take_all(&pool);
        chunks.iter_mut().for_each(|chunk| chunk.bytes_mut().fill(3));
        let control = pool.shared.control();
        control.making.store(making, Ordering::SeqCst);
        control.made_bytes.store(made, Ordering::SeqCst);
        pool.want(9 * CHUNK, 0);
        pool.make_memory().unwrap();
        assert!(chunks.iter().all(|chunk| chunk.bytes().iter().all(|byte| *byte == 3)), "{making:#x} {made}");
        assert_eq!((pool.bytes(), take_all(&pool).len()), (9 * CHUNK, 4));
    }
}

/// Members take chunks as fast as they can, for a bounded number of rounds.
#[test]
fn members_that_fill_chunks_meet_others_that_make_the_pool_larger_and_smaller() {
    let directory = super::memory();
    let first = growing(&directory, 3);
    let others = [1, 2].map(|member| joined(&directory, &first, member));
    let ended = AtomicBool::new(false);
    first.want(3 * CHUNK, 0);
    thread::scope(|scope| {
        let filling = others.each_ref().map(|pool| {
            scope.spawn(move || {
                for round in 0..1500_u32 {
                    pool.want(u64::from(round % 7) * CHUNK, 0);
                    pool.make_memory().unwrap();
                    let mut taken: Vec<Chunk> =
                        (0..1 + round % 2).map_while(|_| pool.take_now()).map(Result::unwrap).collect();
                    let mark = (round as u8) ^ (pool.member() as u8) << 7;
                    taken.iter_mut().for_each(|chunk| chunk.bytes_mut().fill(mark));
                    assert!(taken.iter().all(|chunk| chunk.bytes().iter().all(|byte| *byte == mark)), "lost or shared");
                }
            })
        });
        let (first, ended) = (&first, &ended);
        scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                free(first, Available { memory_free: 0, ..AMPLE });
                first.adapt();
                free(first, AMPLE);
                first.make_memory().unwrap();
            }
        });
        let done = filling.map(|thread| thread.join());
        ended.store(true, Ordering::Relaxed);
        done.into_iter().for_each(|done| done.unwrap());
    });
    drop((first, others));
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn one_for_checkpoints_alone_has_memory_only_for_chunks_in_use() {
    let directory = super::memory();
    let shape = Shape { grows: true, held: PoolHeld::Checkpoint, ..shape(2, 64) };
    let pool = create(directory.path(), &shape).unwrap();
    free(&pool, AMPLE);
    pool.want(8 * CHUNK, 0);
    pool.make_memory().unwrap();
    assert_eq!((pool.bytes(), memory(&pool)), (8 * CHUNK, 0));
    let chunks = take_all(&pool);
    assert_eq!((chunks.len(), memory(&pool)), (8, 8 * CHUNK));
    drop(chunks);
    pool.adapt();
    assert_eq!((pool.bytes(), memory(&pool)), (8 * CHUNK, 0));
}

/// Free memory was looked at only once: a pool that had been large then filled memory that others had taken since.
#[test]
fn one_for_checkpoints_alone_is_as_large_as_there_is_room_at_each_checkpoint() {
    let directory = super::memory();
    let shape = Shape { grows: true, held: PoolHeld::Checkpoint, ..shape(2, 64) };
    let first = create(directory.path(), &shape).unwrap();
    let second = joined(&directory, &first, 1);
    let pools = [&first, &second];
    pools.iter().for_each(|pool| pool.want(8 * CHUNK, 0));
    let scarce = |chunks: u64| Available { memory_free: 4 * chunks * CHUNK, ..AMPLE };
    for (room, chunks) in [(AMPLE, 16), (scarce(6), 6), (scarce(0), 3), (AMPLE, 16), (scarce(9), 9)] {
        pools.iter().for_each(|pool| free(pool, room));
        // Called as each rank does at t1: before the ranks have met, and after.
        for pool in pools {
            pool.make_memory().unwrap();
            let expected = if room == AMPLE { 1 << 40 } else { room.memory_free };
            assert_eq!(pool.chunk_facts(), [8 * CHUNK, !(expected / 4 / 4)], "{room:?}");
        }
        pools.iter().for_each(|pool| {
            pool.fit();
            pool.make_memory().unwrap();
        });
        let taken: Vec<Chunk> = (0..).map_while(|turn| pools[turn % 2].take_now()).map(Result::unwrap).collect();
        assert_eq!((first.bytes(), second.bytes(), taken.len() as u64), (chunks * CHUNK, chunks * CHUNK, chunks));
        assert_eq!(memory(&first), chunks * CHUNK);
        let bound = if room == AMPLE { PoolBound::Needed } else { PoolBound::Memory };
        assert_eq!(pools.map(Pool::bound), [bound; 2], "{room:?}");
        // Memory of the chunks in use was free before.
        if let Some(left) = room.memory_free.checked_sub(chunks * CHUNK) {
            free(&first, Available { memory_free: left, ..room });
            assert!(!first.chunk_facts()[1] >= room.memory_free / 4 / 4, "{room:?}");
        }
    }
}

/// If chunks were in use when a pool was made smaller, their memory stayed allocated until the pool ended.
#[test]
fn what_was_in_use_when_it_was_made_smaller_is_given_back_afterwards() {
    let directory = super::memory();
    let pool = growing(&directory, 1);
    pool.want(128 * CHUNK, 0);
    pool.make_memory().unwrap();
    let chunks = take_all(&pool);
    free(&pool, Available { memory_free: 0, ..AMPLE });
    pool.adapt();
    assert_eq!((pool.bytes(), memory(&pool)), (32 * CHUNK, 128 * CHUNK));
    drop(chunks);
    // No other process needs memory by now.
    free(&pool, AMPLE);
    pool.want(32 * CHUNK, 0);
    pool.adapt();
    assert_eq!((pool.bytes(), memory(&pool)), (32 * CHUNK, 32 * CHUNK));
}

#[test]
fn who_takes_memory_back_stops_once_another_has_taken_over() {
    let directory = super::memory();
    let pool = growing(&directory, 2);
    pool.want(8 * CHUNK, 0);
    pool.make_memory().unwrap();
    let making = &pool.shared.control().making;
    let made = making.load(Ordering::SeqCst);
    making.store((1 << 32) + 1, Ordering::SeqCst);
    pool.shared.take_free_memory_back(0);
    assert_eq!(memory(&pool), 8 * CHUNK);
    making.store(made, Ordering::SeqCst);
    assert_eq!(take_all(&pool).len(), 8);
}

/// A thread makes the pool smaller between checkpoints while the program wants more.
#[test]
fn memory_that_one_thread_makes_another_of_the_same_process_does_not_take_back() {
    let directory = super::memory();
    let pool = growing(&directory, 1);
    for round in 0..300 {
        pool.want(400 * CHUNK, 0);
        pool.make_memory().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| pool.shared.shrink(10 * CHUNK));
            for _ in 0..round % 7 {
                thread::yield_now();
            }
            pool.make_memory().unwrap();
        });
        let made = pool.shared.control().made_bytes.load(Ordering::SeqCst);
        assert!(memory(&pool) >= made / CHUNK * CHUNK, "round {round}: {} of {made} bytes are there", memory(&pool));
    }
}
