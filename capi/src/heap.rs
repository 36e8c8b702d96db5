//! The heap: memory for programs full of pointers.

use crate::{
    error::{Status, guard},
    session::{Session, session_of},
};
use mainstay_engine::heap;
use std::{ffi::c_void, process, ptr};

const ALIGNMENT: usize = 16;

/// As malloc: `bytes` bytes at a multiple of 16, or NULL if there is no memory for them. What the heap gives out lies at the same
/// address in each run that makes the same calls, and mainstay_protect_heap has all of it saved. May be called by any thread, at
/// any time, also before a session is open.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_heap_malloc(bytes: usize) -> *mut c_void {
    heap::allocate(bytes, ALIGNMENT).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// As calloc: memory for `count` elements of `bytes` bytes each, all zero, or NULL.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_heap_calloc(count: usize, bytes: usize) -> *mut c_void {
    count.checked_mul(bytes).and_then(heap::allocate_zeros).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// As aligned_alloc: `bytes` bytes at a multiple of `alignment`, a power of two up to 2 MiB, or NULL.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub extern "C" fn mainstay_heap_aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return ptr::null_mut();
    }
    heap::allocate(bytes, alignment.max(ALIGNMENT)).map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// As realloc: memory of `bytes` bytes with what is at `memory`, which is given back, or NULL, and `memory` is as it was. With a
/// `memory` of NULL as mainstay_heap_malloc. Ends the program where the heap has given out nothing at `memory`.
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

/// As free: gives back memory of the heap. NULL does nothing. Ends the program where the heap has given out nothing at
/// `memory`, as what was freed twice or came from malloc.
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
    eprintln!("mainstay: {call}: the heap has given out nothing at {memory:?}; free once, and only what came from it");
    process::abort()
}

/// Has all memory that the heap (mainstay_heap_malloc) has given out, and will give out, saved and restored, as regions whose
/// names begin with "heap/". Local; in one session at a time. A restore brings the heap back as it was saved, at the same
/// addresses, whether or not this run has made the same calls before: allocations of this run that were not saved are gone
/// then. With mainstay_protect_globals, in a program linked with -no-pie, all pointers between the program's variables and the
/// heap are valid after it. A heap comes back to as many ranks as saved it: MAINSTAY_RANK_COUNT. Between mainstay_begin and
/// mainstay_checkpoint it may not grow or shrink: MAINSTAY_INVALID_ARGUMENT.
///
/// # Safety
/// `session` is open. No other thread uses the heap during a checkpoint or a restore.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_protect_heap(session: *mut Session) -> Status {
    // SAFETY: the caller's promises are passed on.
    guard(|| unsafe { session_of(session)?.engine.protect_heap() })
}
