//! Counts the memory in use, over all threads, and refuses a request that no reader should make.
#![allow(unsafe_code)]

use crate::seed::tell;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

#[global_allocator]
static COUNTED: Counted = Counted;

/// A larger request fails.
const REQUEST_MAX: usize = 1 << 31;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counted;

/// Counts from now on. Returns the memory in use.
pub(crate) fn begin() -> usize {
    let begins = IN_USE.load(Relaxed);
    PEAK.store(begins, Relaxed);
    begins
}

/// The most memory in use since `begin`.
pub(crate) fn peak() -> usize {
    PEAK.load(Relaxed)
}

/// Whether the system may be asked. A refused request counts in the peak, too.
fn take(bytes: usize) -> bool {
    if bytes > REQUEST_MAX {
        PEAK.fetch_max(IN_USE.load(Relaxed).saturating_add(bytes), Relaxed);
        tell(&format_args!("a request of {bytes} bytes of memory"));
        return false;
    }
    PEAK.fetch_max(IN_USE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
    true
}

fn give_back(bytes: usize) {
    IN_USE.fetch_sub(bytes, Relaxed);
}

// SAFETY: all memory is the system's; only its bytes are counted.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc`.
        if take(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if take(layout.size()) { unsafe { System.alloc_zeroed(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !take(bytes) {
            return std::ptr::null_mut();
        }
        give_back(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}
