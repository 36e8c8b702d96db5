//! Memory that Mainstay allocates.

use crate::{
    argument::null,
    error::{Status, guard},
    region::name_of,
    session::{Session, session_of},
};
use mainstay_engine::{Allocated, Error, Region};
use std::ffi::{c_char, c_void};

/// Properties of memory that mainstay_alloc allocates: any sum of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "plain is for the header only")]
#[repr(C)]
pub enum AllocFlag {
    /// Only the program's own instructions write to it. It may have any address.
    Plain = 0,
    /// MPI, or system calls such as read(), write into it, too.
    WrittenBySystem = 1,
    /// It has the same address in every run, derived from its name: pointers into it stay valid. Pointers to
    /// functions or constants stay valid only in a program that is linked with -no-pie. In other programs, restoring
    /// them is MAINSTAY_INVALID_ARGUMENT.
    SameAddress = 2,
}

/// Allocates `bytes` bytes of zeros, puts their address into `*memory`, and protects them under `name`, as
/// mainstay_protect does. It uses pages of 2 MiB if the system has them. Local. The memory stays until mainstay_free
/// or mainstay_close. `flags` is a sum of mainstay_alloc_flag. While a snapshot copies memory that only the program
/// writes, MPI and system calls that write into it fail (EFAULT): pass MAINSTAY_ALLOC_FLAG_WRITTEN_BY_SYSTEM
/// if your program makes such calls.
/// MAINSTAY_INVALID_ARGUMENT: the name has memory already, or its address is taken. MAINSTAY_DUPLICATE_NAME: a region
/// has the name, and stays protected. For an array of elements, call mainstay_unprotect and protect the memory as an
/// array.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, `memory` points to room for a pointer.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_alloc(
    session: *mut Session,
    name: *const c_char,
    bytes: usize,
    flags: u32,
    memory: *mut *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: as the caller promised.
        let (session, name) = unsafe { (session_of(session)?, name_of(name)?) };
        // SAFETY: null or as the caller promised.
        let memory = unsafe { memory.as_mut() }.ok_or_else(|| null("memory"))?;
        *memory = std::ptr::null_mut();
        let of = |flag: AllocFlag| flags & flag as u32 != 0;
        let how =
            Allocated { written_by_system: of(AllocFlag::WrittenBySystem), same_address: of(AllocFlag::SameAddress) };
        if flags > 3 {
            return Err(Error::argument("flags", format!("{flags} is no sum of mainstay_alloc_flag")));
        }
        let address = session.engine.allocate(&name, bytes as u64, how)?.address();
        // SAFETY: it stays until mainstay_free, which unprotects it, or until the session is closed.
        let region = unsafe { Region::new(&name, address, bytes as u64) };
        if let Err(error) = region.and_then(|region| session.engine.protect(region)) {
            session.engine.free(&name)?;
            return Err(error);
        }
        *memory = address.cast();
        Ok(())
    })
}

/// Unprotects and frees the memory that mainstay_alloc allocated under `name`. Local. Revisions that hold it stay as
/// they are. MAINSTAY_REGION_MISSING: nothing was allocated under this name. MAINSTAY_INVALID_ARGUMENT: part of it is
/// protected under another name, which stays.
///
/// # Safety
/// `session` is open, `name` ends with a zero byte, and nothing uses the memory any more.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn mainstay_free(session: *mut Session, name: *const c_char) -> Status {
    guard(|| {
        // SAFETY: as the caller promised.
        let (session, name) = unsafe { (session_of(session)?, name_of(name)?) };
        session.engine.check_free(&name)?;
        session.engine.free(&name)
    })
}
