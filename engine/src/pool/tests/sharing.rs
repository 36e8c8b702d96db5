//! Chunks among living and dead members.

use super::{super::word::ChunkState, peer::Peer, *};
use std::{cell::Cell, sync::Barrier, thread};

#[test]
fn two_processes_share_few_chunks() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("pass", &pool);
    other.tell("2000");
    for round in 0..2000_u32 {
        let mut chunk = pool.take(&|| {}).unwrap();
        chunk.bytes_mut().fill(!(round as u8));
        assert!(chunk.bytes().iter().all(|&byte| byte == !(round as u8)), "two had the same chunk");
        chunk.fill(1, round, CHUNK).unwrap();
        chunk.await_turn().unwrap();
        chunk.written().unwrap();
    }
    assert_eq!(other.hear(), "passed");
    assert_eq!(take_all(&pool).len(), 3);
    other.end();
}

#[test]
fn chunks_of_a_killed_member_are_freed_and_the_others_go_on() {
    for states in [
        &[ChunkState::Filling][..],
        &[ChunkState::Full],
        &[ChunkState::Writing],
        &[ChunkState::Writing, ChunkState::Full, ChunkState::Filling],
    ] {
        let directory = memory();
        let pool = pool(&directory, 2, 3);
        let mut other = Peer::start("hold", &pool);
        for state in states {
            other.tell(&format!("{state:?}"));
            other.hear();
        }
        let own = take_all(&pool);
        assert_eq!(own.len() + states.len(), 3);
        assert!(pool.is_alive(1) && pool.dead().is_empty() && !pool.free_of(1, 0));
        other.kill();
        assert_eq!(pool.dead(), [1]);
        let calls = Cell::new(0);
        let reclaim = || {
            calls.set(calls.get() + 1);
            pool.dead().into_iter().for_each(|dead| assert!(pool.free_of(dead, 0)));
        };
        let got: Vec<Chunk> = states.iter().map(|_| pool.take(&reclaim).unwrap()).collect();
        assert_eq!(calls.get(), 1);
        assert!(pool.dead().is_empty());
        // Writing does not wait for earlier chunks of dead members.
        for chunk in own.iter().chain(&got) {
            chunk.fill(1, 0, CHUNK).unwrap();
            chunk.await_turn().unwrap();
            chunk.written().unwrap();
        }
        drop((own, got, pool));
        assert_eq!(files(directory.path()), [""; 0]);
    }
}

#[test]
fn the_dead_in_line_hold_up_nobody() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("hold", &pool);
    other.tell("Writing");
    other.hear();
    let chunk = take(&pool);
    chunk.fill(1, 0, CHUNK).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| chunk.await_turn());
        // While the member is alive, others wait for it.
        while pool.shared.control().turn.waiters() == 0 {
            thread::yield_now();
        }
        assert!(!waiting.is_finished());
        other.kill();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(pool.dead(), [1]);
    let next = take(&pool);
    next.fill(1, 1, CHUNK).unwrap();
    drop(chunk);
    assert!(!next.is_next(&[]) && next.is_next(&pool.dead()));
}

#[test]
fn full_chunks_are_written_in_the_order_in_which_they_were_filled() {
    let directory = memory();
    let first = pool(&directory, 2, 4);
    let second = Pool::join(directory.path(), first.id(), 1).unwrap();
    let chunks = [&first, &second, &first, &second].map(take);
    for (segment, chunk) in chunks.iter().enumerate() {
        chunk.fill(1, segment as u32, CHUNK).unwrap();
    }
    let order = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for (number, chunk) in chunks.iter().enumerate().rev() {
            let order = &order;
            scope.spawn(move || {
                chunk.await_turn().unwrap();
                order.lock().unwrap().push(number);
                chunk.written().unwrap();
            });
        }
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_chunk_that_is_dropped_unwritten_gives_up_its_turn() {
    let directory = memory();
    let pool = pool(&directory, 1, 2);
    let (first, second) = (take(&pool), take(&pool));
    first.fill(1, 0, CHUNK).unwrap();
    second.fill(1, 1, CHUNK).unwrap();
    let turn = &pool.shared.control().turn;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| second.await_turn());
        while turn.waiters() == 0 {
            thread::yield_now();
        }
        let before = turn.sequence();
        drop(first);
        waiting.join().unwrap().unwrap();
        assert_ne!(turn.sequence(), before, "it was found at a time-out only");
    });
}

/// Hashing slept 5 ms at a time: a checkpoint of a few KiB took three times as long as one without a pool.
#[test]
fn who_holds_back_is_woken_by_the_last_that_copies_and_by_who_needs_a_chunk() {
    let directory = memory();
    let first = pool(&directory, 3, 4);
    let [second, third] = [1, 2].map(|member| Pool::join(directory.path(), first.id(), member).unwrap());
    let copied = &first.shared.control().copied;
    let held_back_until = |hold: &(dyn Fn() -> bool + Sync), end: &dyn Fn()| {
        thread::scope(|scope| {
            let holding = scope.spawn(|| first.hold_while(hold));
            while copied.waiters() == 0 {
                thread::yield_now();
            }
            let before = copied.sequence();
            end();
            holding.join().unwrap();
            assert_ne!(copied.sequence(), before, "it was found at a time-out only");
        });
    };
    first.begin_copying(7);
    let others_copy = || first.others_copy();
    [&first, &second].into_iter().for_each(Pool::end_copying);
    held_back_until(&others_copy, &|| third.end_copying());
    // A member that leaves the all-reduce later announces it again.
    third.begin_copying(7);
    assert!(!others_copy());

    second.begin_copying(8);
    assert!(others_copy());
    let all = take_all(&second);
    thread::scope(|scope| {
        let nobody_waits = || !first.shared.control().freed.has_waiters();
        let waiting = std::cell::OnceCell::new();
        held_back_until(&nobody_waits, &|| drop(waiting.set(scope.spawn(|| third.take(&|| {})))));
        drop(all);
        waiting.into_inner().unwrap().join().unwrap().unwrap();
    });
}

#[test]
fn there_is_a_chunk_for_each_member_and_one_more() {
    let directory = memory();
    let wide = Shape { chunk_bytes: 4 << 20, ..shape(7, 16) };
    let pool = create(directory.path(), &wide).unwrap();
    assert_eq!((pool.chunk_bytes(), pool.chunks()), (128 << 10, 8));
    let narrow = create(directory.path(), &Shape { bytes: 16 * 4096, ..shape(16, 16) });
    assert!(narrow.unwrap_err().to_string().starts_with("pool_bytes: "));
}

#[test]
fn a_pool_for_checkpoints_has_memory_only_while_chunks_are_held() {
    use std::os::unix::fs::MetadataExt;
    let directory = memory();
    let held = PoolHeld::Checkpoint;
    let pool = create(directory.path(), &Shape { held, ..shape(1, 16) }).unwrap();
    let memory = || pool.shared.file().metadata().unwrap().blocks() * 512;
    pool.make_memory().unwrap();
    let empty = memory();
    assert!(empty < CHUNK, "{empty} bytes at start");
    let mut chunks = take_all(&pool);
    assert_eq!(memory(), empty + 16 * CHUNK);
    chunks.iter_mut().for_each(|chunk| chunk.bytes_mut().fill(1));
    drop(chunks);
    assert_eq!(memory(), empty);
}

#[test]
fn a_copy_is_the_same_member_and_the_last_one_leaves() {
    let directory = memory();
    let first = pool(&directory, 2, 3);
    let second = Pool::join(directory.path(), first.id(), 1).unwrap();
    let copy = first.clone();
    drop(first);
    assert!(second.is_alive(0));
    drop(copy);
    assert!(!second.is_alive(0));
    assert_eq!(files(directory.path()).len(), 1);
    drop(second);
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn members_that_leave_at_once_leave_nothing() {
    for _ in 0..100 {
        let directory = memory();
        let first = pool(&directory, 4, 5);
        let mut all: Vec<Pool> =
            (1..4).map(|member| Pool::join(directory.path(), first.id(), member).unwrap()).collect();
        all.push(first);
        let together = Barrier::new(all.len());
        thread::scope(|scope| {
            for pool in all {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    drop(pool);
                });
            }
        });
        assert_eq!(files(directory.path()), [""; 0]);
    }
}

#[test]
fn a_forked_child_gives_nothing_back() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let chunk = take(&pool);
    let mut status = -1;
    // SAFETY: the child calls only functions that take no lock, and ends without cleaning up; `status` outlives the
    // call.
    #[allow(unsafe_code)]
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            drop(chunk);
            drop(pool);
            libc::_exit(0);
        }
        libc::waitpid(child, &mut status, 0);
    }
    assert_eq!((status, files(directory.path()).len()), (0, 1));
    chunk.fill(1, 0, CHUNK).unwrap();
}

#[test]
fn a_forked_child_keeps_no_dead_member_alive() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("fork", &pool);
    let child: i32 = other.hear().parse().unwrap();
    assert!(pool.is_alive(1));
    other.kill();
    let was_alive = pool.is_alive(1);
    let maps = std::fs::read_to_string(format!("/proc/{child}/maps")).unwrap();
    // SAFETY: the number is that of the child, which waits until it is ended.
    #[allow(unsafe_code)]
    let killed = unsafe { libc::kill(child, libc::SIGKILL) };
    assert_eq!((was_alive, killed), (false, 0));
    assert!(!maps.contains("mainstay-pool"), "{maps}");
}

#[test]
#[ignore = "a measurement"]
fn how_long_the_making_takes() {
    let directory = memory();
    let shape = Shape { bytes: 64 << 20, chunk_bytes: 4 << 20, ..shape(2, 1) };
    let first = create(directory.path(), &shape).unwrap();
    let second = Pool::join(directory.path(), first.id(), 1).unwrap();
    for (what, pool) in [("made", &first), ("at hand for another", &second)] {
        let begun = std::time::Instant::now();
        pool.make_memory().unwrap();
        println!("{what}: {:?}", begun.elapsed());
    }
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let huge = maps.lines().filter(|line| line.starts_with("ShmemPmdMapped") && !line.contains(" 0 kB"));
    println!("huge pages: {:?}", huge.collect::<Vec<_>>());
}

#[test]
#[ignore = "a measurement"]
fn how_long_a_chunk_takes() {
    let directory = memory();
    let pool = pool(&directory, 2, 64);
    pool.make_memory().unwrap();
    let begun = std::time::Instant::now();
    for segment in 0..1_000_000 {
        take(&pool).fill(1, segment, CHUNK).unwrap();
    }
    println!("take, fill, drop: {:?}", begun.elapsed() / 1_000_000);
    let begun = std::time::Instant::now();
    for segment in 0..1_000_000 {
        let chunk = take(&pool);
        chunk.fill(1, segment, CHUNK).unwrap();
        chunk.await_turn().unwrap();
        chunk.written().unwrap();
    }
    println!("with a turn: {:?}", begun.elapsed() / 1_000_000);
}
