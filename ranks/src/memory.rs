//! Mapping and copying memory of slots. The only place, besides the folder of the processor, that touches it.
//!
//! Invariant: a copy checks the rank's addresses against its slot. An address that is not mapped ends the process as a
//! fault of the rank would.
#![allow(unsafe_code)]

use crate::address::{Slot, Slots};
use std::{
    ffi::{c_int, c_void},
    fs::File,
    io, mem,
    ops::Range,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::FileExt,
    },
    ptr,
};
use zerocopy::{FromBytes, IntoBytes};

const HIDDEN: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn checked(result: i64) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes addresses that nothing has taken. Nothing can be read or written there.
pub(crate) fn reserve(range: Range<usize>) -> io::Result<()> {
    // SAFETY: the flag refuses addresses at which something lies already.
    let at = unsafe {
        let flags = HIDDEN | libc::MAP_FIXED_NOREPLACE;
        libc::mmap(range.start as *mut c_void, range.len(), libc::PROT_NONE, flags, -1, 0)
    };
    match at {
        at if at == libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at if at as usize != range.start => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        _ => Ok(()),
    }
}

/// Puts fresh memory, or the bytes of a file, at addresses of a slot.
pub(crate) fn map(
    slot: Slot,
    range: &Range<usize>,
    protection: c_int,
    file: Option<(BorrowedFd, u64)>,
) -> io::Result<()> {
    if !slot.has(range.start, range.len()) || range.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    let (flags, descriptor, offset) = match file {
        None => (HIDDEN, -1, 0),
        Some((file, offset)) => (libc::MAP_PRIVATE | libc::MAP_NORESERVE, file.as_raw_fd(), offset as i64),
    };
    let flags = flags | libc::MAP_FIXED;
    // SAFETY: the slot belongs to a rank, which does not run, and the host keeps no reference into it.
    let at = unsafe { libc::mmap(range.start as *mut c_void, range.len(), protection, flags, descriptor, offset) };
    checked(if at == libc::MAP_FAILED { -1 } else { 0 })
}

/// Puts a copy of a file's bytes at addresses of a slot, for memory that the rank may write.
pub(crate) fn map_copy(
    slot: Slot,
    range: &Range<usize>,
    protection: c_int,
    file: &File,
    offset: u64,
) -> io::Result<()> {
    map(slot, range, libc::PROT_READ | libc::PROT_WRITE, None)?;
    // SAFETY: the memory was mapped just now, and nothing else uses it.
    let into = unsafe { std::slice::from_raw_parts_mut(range.start as *mut u8, range.len()) };
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], offset + filled as u64)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    protect(slot, range, protection)
}

/// Gives memory back. The addresses stay reserved.
pub(crate) fn unmap(slot: Slot, range: &Range<usize>) -> io::Result<()> {
    map(slot, range, libc::PROT_NONE, None)
}

/// Gives all memory of a slot back. The addresses stay reserved.
pub(crate) fn clear(slot: Slot) -> io::Result<()> {
    map(slot, &slot.range(), libc::PROT_NONE, None)
}

/// Gives the memory of all slots back. The addresses stay reserved.
pub(crate) fn clear_all() -> io::Result<()> {
    let range = Slots::range();
    map(Slot { base: range.start, bytes: range.len() }, &range, libc::PROT_NONE, None)
}

pub(crate) fn protect(slot: Slot, range: &Range<usize>, protection: c_int) -> io::Result<()> {
    if !slot.has(range.start, range.len()) {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    // SAFETY: only memory of a rank that does not run changes.
    checked(unsafe { libc::mprotect(range.start as *mut c_void, range.len(), protection) }.into())
}

/// Reads a value of a rank.
pub(crate) fn get<T: FromBytes>(slot: Slot, address: usize) -> io::Result<T> {
    check(slot, address, mem::size_of::<T>())?;
    // SAFETY: the address lies in the slot, and every value of the bytes is a T.
    Ok(unsafe { (address as *const T).read_unaligned() })
}

/// Writes a value for a rank.
pub(crate) fn put<T: IntoBytes + zerocopy::Immutable>(slot: Slot, address: usize, value: &T) -> io::Result<()> {
    write(slot, address, value.as_bytes())
}

pub(crate) fn write(slot: Slot, address: usize, bytes: &[u8]) -> io::Result<()> {
    check(slot, address, bytes.len())?;
    // SAFETY: the bytes go to memory of a rank that does not run.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok(())
}

pub(crate) fn read(slot: Slot, address: usize, bytes: usize) -> io::Result<Vec<u8>> {
    check(slot, address, bytes)?;
    let mut copy = Vec::with_capacity(bytes);
    // SAFETY: the bytes come from memory of a rank that does not run, into room of their size.
    unsafe {
        ptr::copy_nonoverlapping(address as *const u8, copy.as_mut_ptr(), bytes);
        copy.set_len(bytes);
    }
    Ok(copy)
}

/// Copies from one slot to another, or within one.
pub(crate) fn copy(from: (Slot, usize), to: (Slot, usize), bytes: usize) -> io::Result<()> {
    check(from.0, from.1, bytes)?;
    check(to.0, to.1, bytes)?;
    // SAFETY: both lie in slots of ranks that do not run; they may overlap.
    unsafe { ptr::copy(from.1 as *const u8, to.1 as *mut u8, bytes) };
    Ok(())
}

/// Lends the bytes of a slot, for a call that only reads them.
pub(crate) fn with_bytes<R>(slot: Slot, address: usize, bytes: usize, reads: impl FnOnce(&[u8]) -> R) -> io::Result<R> {
    check(slot, address, bytes)?;
    if bytes == 0 {
        return Ok(reads(&[]));
    }
    // SAFETY: the rank does not run, and nothing else writes to its slot meanwhile.
    Ok(reads(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }))
}

/// A string of a rank, without its final NUL, of at most `PATH_MAX` bytes.
pub(crate) fn string(slot: Slot, address: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for at in address..address.saturating_add(libc::PATH_MAX as usize) {
        match get::<u8>(slot, at)? {
            0 => return Ok(text),
            byte => text.push(byte),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

fn check(slot: Slot, address: usize, bytes: usize) -> io::Result<()> {
    if bytes == 0 || slot.has(address, bytes) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}
