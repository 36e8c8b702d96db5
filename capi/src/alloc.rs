//! Memory that Mainstay allocates.

use crate::{
    argument::null,
    error::{Status, guard},
    region::name_of,
    session::{Session, session_of},
};
use mainstay_engine::{Allocated, Error, Region};
use std::ffi::{c_char, c_void};

/// What is said of memory that mainstay_alloc allocates: any sum of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "plain is for the header only")]
#[repr(C)]
pub enum AllocFlag {
    /// Only the program's own instructions write to it; it lies anywhere.
    Plain = 0,
    /// MPI, or system calls such as read(), write into it, too.
    WrittenBySystem = 1,
    /// It lies at the same address in every run, which its name decides: pointers into it stay valid. Pointers to functions or
    /// constants do only in a program that is linked with -no-pie; elsewhere a restore of them is MAINSTAY_INVALID_ARGUMENT.
    SameAddress = 2,
}

/// Allocates `bytes` bytes of zeros, in pages of 2 MiB where the system has them, puts their address into `*memory`, and has
/// them saved and restored under `name`, as mainstay_protect does. Local. They stay until mainstay_free, or mainstay_close.
/// `flags` is a sum of mainstay_alloc_flag: while a snapshot copies memory that only the program writes, MPI and system
/// calls that write into it fail (EFAULT), so say if they do. MAINSTAY_INVALID_ARGUMENT: the name has memory already, or its
/// address is taken. MAINSTAY_DUPLICATE_NAME: a region has the name, and stays protected. For an array of elements, mainstay_unprotect it and protect it as one.
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
        // SAFETY: it stays until it is freed, which unprotects it, or the session is closed.
        let region = unsafe { Region::new(&name, address, bytes as u64) };
        if let Err(error) = region.and_then(|region| session.engine.protect(region)) {
            session.engine.free(&name)?;
            return Err(error);
        }
        *memory = address.cast();
        Ok(())
    })
}

/// Unprotects what mainstay_alloc has allocated under `name`, and lets the memory go. Local. Revisions that hold it stay as
/// they are. MAINSTAY_REGION_MISSING: nothing was allocated under this name. MAINSTAY_INVALID_ARGUMENT: a part of it is
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
