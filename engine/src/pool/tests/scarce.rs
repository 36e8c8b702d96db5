//! Pools that find less memory than they want, or whose memory another member fails to make.

use super::{
    super::Shared,
    growing::{AMPLE, free, growing, joined, memory},
    *,
};
use crate::space::format::PoolBound;
use std::{sync::atomic::Ordering, thread};

/// All members go on with the memory that exists.
#[test]
fn where_the_system_gives_no_more_it_stays_as_large_as_it_is() {
    let directory = super::memory();
    let pool = growing(&directory, 2);
    pool.want(4 * CHUNK, 0);
    pool.make_memory().unwrap();
    let no_memory = |_: &Shared| crate::Error::io("making", "the pool", std::io::ErrorKind::OutOfMemory.into());
    *pool.shared.sizes.fails.lock().unwrap() = Some(no_memory);
    pool.want(8 * CHUNK, 0);
    pool.make_memory().unwrap();
    assert_eq!((pool.bytes(), memory(&pool), take_all(&pool).len()), (4 * CHUNK, 4 * CHUNK, 4));
    // Nor is memory freed that another member was slow to make.
    let made_by_another = |shared: &Shared| {
        shared.control().made_bytes.store(6 * CHUNK, Ordering::SeqCst);
        crate::Error::io("making", "the pool", std::io::ErrorKind::OutOfMemory.into())
    };
    *pool.shared.sizes.fails.lock().unwrap() = Some(made_by_another);
    pool.make_memory().unwrap();
    assert_eq!((pool.bytes(), memory(&pool), take_all(&pool).len()), (6 * CHUNK, 6 * CHUNK, 6));
}

/// A member was refused memory although it could have made the memory itself, or gone on without it.
#[test]
fn who_waited_for_one_that_failed_goes_on_with_what_there_is() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    let _second = joined(&directory, &first, 1);
    first.want(4 * CHUNK, 0);
    first.make_memory().unwrap();
    let control = first.shared.control();
    control.making.store((1 << 32) + 1, Ordering::SeqCst);
    first.want(8 * CHUNK, 0);
    thread::scope(|scope| {
        let preparing = scope.spawn(|| first.make_memory());
        while control.made.waiters() == 0 {
            thread::yield_now();
        }
        control.making.store(3, Ordering::SeqCst);
        control.made.wake_all();
        preparing.join().unwrap().unwrap();
    });
    assert_eq!(first.bytes(), 8 * CHUNK);
}

/// The error blamed another rank, even in a job of one rank, where its own thread had failed.
#[test]
fn who_waited_for_one_that_failed_makes_what_it_needs_or_says_why_not() {
    let directory = super::memory();
    let first = growing(&directory, 2);
    let _second = joined(&directory, &first, 1);
    let control = first.shared.control();
    first.want(8 * CHUNK, 0);
    let made_after_failure = || {
        control.making.store((1 << 32) + 1, Ordering::SeqCst);
        thread::scope(|scope| {
            let preparing = scope.spawn(|| first.make_memory());
            while control.made.waiters() == 0 {
                thread::yield_now();
            }
            control.making.store(3, Ordering::SeqCst);
            control.made.wake_all();
            preparing.join().unwrap()
        })
    };
    let limited = |_: &Shared| crate::Error::io("making", "the pool", std::io::ErrorKind::FileTooLarge.into());
    *first.shared.sizes.fails.lock().unwrap() = Some(limited);
    let error = made_after_failure().unwrap_err();
    assert!(error.to_string().contains("file too large"), "{error}");
    *first.shared.sizes.fails.lock().unwrap() = None;
    made_after_failure().unwrap();
    assert_eq!(first.bytes(), 8 * CHUNK);
}

/// A program that only had to wait got the error for a full file system.
#[test]
fn a_full_file_system_has_room_again_once_a_chunk_is_written() {
    let Some(small) = SmallMemory::mount("1m") else { return };
    let shape = Shape { grows: true, held: PoolHeld::Checkpoint, ..shape(1, 8) };
    let pool = create(&small.path, &shape).unwrap();
    free(&pool, AMPLE);
    pool.want(8 * CHUNK, 0);
    pool.make_memory().unwrap();
    std::fs::write(small.path.join("others"), vec![1; 700 << 10]).unwrap();
    let chunk = take(&pool);
    let mut more = take_while_there_is_room(&pool);
    chunk.fill(1, 0, CHUNK).unwrap();
    assert!(pool.take_now().is_none(), "one is under way: there will be room");
    chunk.await_turn().unwrap();
    chunk.written().unwrap();
    drop(chunk);
    more.push(take(&pool));
    drop(more);
}

/// Takes chunks until the file system is full, with no chunk in progress.
fn take_while_there_is_room(pool: &Pool) -> Vec<Chunk> {
    let mut taken = Vec::new();
    loop {
        match pool.take_now().expect("not all are taken") {
            Ok(chunk) => taken.push(chunk),
            Err(error) => {
                assert!(matches!(error, crate::Error::PoolFull { .. }), "{error}");
                return taken;
            }
        }
    }
}

#[test]
fn it_takes_what_a_small_file_system_has_and_refuses_only_if_that_is_nothing() {
    let Some(small) = SmallMemory::mount("1m") else { return };
    let shape = Shape { grows: true, bytes: 512 << 10, ..shape(3, 8) };
    let pool = create(&small.path, &shape).unwrap();
    pool.want(64 << 20, 0);
    pool.make_memory().unwrap();
    assert_eq!((pool.bytes(), pool.bound()), (512 << 10, PoolBound::Directory));
    drop(pool);

    // Other processes have taken nearly all memory.
    let pool = create(&small.path, &shape).unwrap();
    std::fs::write(small.path.join("others"), vec![1; 700 << 10]).unwrap();
    pool.want(64 << 20, 0);
    pool.make_memory().unwrap();
    assert_eq!(pool.bytes(), 4 * CHUNK);
    drop(pool);
    let pool = create(&small.path, &shape).unwrap();
    std::fs::write(small.path.join("others"), vec![1; 900 << 10]).unwrap();
    pool.want(64 << 20, 0);
    let error = pool.make_memory().unwrap_err();
    assert!(matches!(error, crate::Error::PoolFull { .. }), "{error}");
    std::fs::remove_file(small.path.join("others")).unwrap();
    pool.make_memory().unwrap();
    assert!(pool.bytes() >= 4 * CHUNK);
}

/// A separate tmpfs; `None` for a user that may not mount one.
struct SmallMemory {
    path: std::path::PathBuf,
    _directory: TempDir,
}

impl SmallMemory {
    fn mount(size: &str) -> Option<SmallMemory> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory");
        std::fs::create_dir(&path).unwrap();
        let words = ["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"];
        let mounted = std::process::Command::new("mount").args(words).arg(&path).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(SmallMemory { path, _directory: directory })
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg(&self.path).status().unwrap();
    }
}
