//! The heap: memory for programs full of pointers.

use crate::{
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::{heap, say};
use std::{ffi::c_void, process, ptr};

const ALIGNMENT: usize = 16;

/// Like malloc: `bytes` bytes at a multiple of 16, or NULL if there is no memory for them. The heap returns the same
/// addresses in each run that makes the same calls, and mainstay_protect_heap protects all of its memory. Any thread
/// may call this at any time, even before a session is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_heap_malloc(bytes: usize) -> *mut c_void {
    heap::allocate(bytes, ALIGNMENT).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Like calloc: memory for `count` elements of `bytes` bytes each, all zero, or NULL.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_heap_calloc(count: usize, bytes: usize) -> *mut c_void {
    count.checked_mul(bytes).and_then(heap::allocate_zeros).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Like aligned_alloc: `bytes` bytes at a multiple of `alignment`, a power of two up to 2 MiB, or NULL.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_heap_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return ptr::null_mut();
    }
    heap::allocate(bytes, alignment.max(ALIGNMENT)).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Like realloc: memory of `bytes` bytes with the contents of `memory`, which is freed; or NULL, and `memory` stays
/// as it was. With a `memory` of NULL it is mainstay_heap_malloc. Ends the program if `memory` is not an allocation
/// of the heap.
///
/// # Safety
/// Nothing uses `memory` any more.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_heap_realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    if memory.is_null() {
        return mainstay_heap_malloc(bytes);
    }
    if !heap::has_given(memory.cast()) {
        end("mainstay_heap_realloc", memory);
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { heap::resize(memory.cast(), bytes) }.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Like free: frees memory of the heap. NULL does nothing. Ends the program if `memory` is not an allocation of the
/// heap, for instance if it was freed before or came from malloc.
///
/// # Safety
/// Nothing uses `memory` any more.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_heap_free(memory: *mut c_void) {
    if !memory.is_null() && !heap::release(memory.cast()) {
        end("mainstay_heap_free", memory);
    }
}

fn end(call: &str, memory: *mut c_void) -> ! {
    say(&format!("{call}: {memory:?} is no allocation of the heap; free each only once"));
    process::abort()
}

/// Protects all memory that the heap (mainstay_heap_malloc) has returned and will return, as regions with names
/// that begin with "heap/". Local; in one session at a time. A restore brings the heap back as it was saved, at the same
/// addresses, whether or not this run has made the same calls before. Allocations of this run that were not saved are
/// then gone. With mainstay_protect_globals, in a program linked with -no-pie, all pointers between the program's
/// variables and the heap are valid after it. A heap comes back only on the same number of ranks:
/// MAINSTAY_RANK_COUNT. Between mainstay_begin and mainstay_checkpoint it must not grow or shrink:
/// MAINSTAY_INVALID_ARGUMENT.
///
/// # Safety
/// `session` is open. No other thread uses the heap during a checkpoint or a restore.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_heap(session: *mut Session) -> Status {
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe { session_of(session)?.engine.protect_heap() })
}
