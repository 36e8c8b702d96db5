//! Counts the bytes that each thread has allocated.
#![expect(unsafe_code, reason = "an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static HIGHEST: Cell<i64> = const { Cell::new(0) };
    static IS_PAUSED: Cell<bool> = const { Cell::new(false) };
}

fn add(bytes: i64) {
    if !IS_PAUSED.get() {
        LIVE.set(LIVE.get() + bytes);
        HIGHEST.set(HIGHEST.get().max(LIVE.get()));
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Does `work` without counting: the ranks of an MPI job do not pay for the threads that stand in for them.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_PAUSED.replace(true);
    let done = work();
    IS_PAUSED.set(before);
    done
}

/// The bytes of this thread: now, and the most since the last call.
pub fn live_and_highest() -> [u64; 2] {
    let live = LIVE.get();
    [live, HIGHEST.replace(live)].map(|bytes| bytes.max(0) as u64)
}
