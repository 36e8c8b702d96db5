//! The gate: the one page that a rank and its host share, and the calls through it. `capi/ranks/gate.h` describes it.
#![allow(unsafe_code)]

use crate::{Error, Result, address::PAGE, x86_64};
use std::ffi::c_int;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const ADDRESS: usize = 0x1ff0_0000_0000;
const VERSION: u32 = 2;

/// The calls, as the header numbers them.
pub(crate) mod call {
    pub const INFO: i64 = 1;
    pub const SEND: i64 = 2;
    pub const RECEIVE: i64 = 3;
    pub const PROBE: i64 = 4;
    pub const TAKE: i64 = 5;
    pub const RECEIVE_TAKEN: i64 = 6;
    pub const WITHDRAW: i64 = 7;
    pub const WAIT: i64 = 8;
    pub const YIELD: i64 = 9;
    pub const ABORT: i64 = 10;
    pub const REFUSE: i64 = 11;
    /// The rank has called `MPI_Finalize`.
    pub const LEAVE: i64 = 12;
    /// The host's own: the rank has ended by a system call. The argument is its exit code.
    pub const EXIT: i64 = 1 << 32;
}

pub(crate) const ANY_RANK: i32 = -1;
pub(crate) const ANY_TAG: i32 = -1;
pub(crate) const SYNCHRONOUS: u32 = 1;

/// A message that a rank sends or receives, in its memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Message {
    pub peer: i32,
    pub tag: i32,
    pub context: u32,
    pub flags: u32,
    pub data: u64,
    pub bytes: u64,
    pub source: i32,
    pub arrived_tag: i32,
    pub arrived_bytes: u64,
    pub taken: u64,
    pub done: u32,
    pub reserved: u32,
}

pub(crate) const NODE_NAME_BYTES: usize = 128;

/// The host's answer to `INFO`.
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(crate) struct Info {
    pub rank: i32,
    pub ranks: i32,
    pub node: i32,
    pub reserved: i32,
    pub node_name: [u8; NODE_NAME_BYTES],
}

#[repr(C)]
struct Page {
    version: u32,
    reserved: u32,
    clock_gettime: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int,
}

/// The page after the gate holds code. An interrupted rank resumes at its start.
pub(crate) const RESUME: usize = ADDRESS + PAGE;
/// A rank calls the host at this address. A jump leads from here to the host, which lies elsewhere in each process.
const CALL: usize = RESUME + 0x100;

/// Fills in the gate of this process.
pub(crate) fn open() -> Result<()> {
    crate::memory::reserve(ADDRESS..RESUME + PAGE).map_err(|error| Error::system("the page of the gate", error))?;
    let page = Page { version: VERSION, reserved: 0, clock_gettime: libc::clock_gettime };
    let (code, jump) = (x86_64::resume_code(), x86_64::jump_to(x86_64::gate_address()));
    debug_assert!(RESUME + code.len() <= CALL, "the code of an interrupted rank reaches into the jump to the gate");
    // SAFETY: the pages were taken just now, and only ranks read them from here on. The code fits its page.
    let result = unsafe {
        let (address, resume) = (ADDRESS as *mut libc::c_void, RESUME as *mut libc::c_void);
        if libc::mprotect(address, 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE) == 0 {
            (ADDRESS as *mut Page).write(page);
            resume.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
            (CALL as *mut [u8; 14]).write(jump);
            libc::mprotect(address, PAGE, libc::PROT_READ)
                | libc::mprotect(resume, PAGE, libc::PROT_READ | libc::PROT_EXEC)
        } else {
            -1
        }
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::system("the page of the gate", std::io::Error::last_os_error())),
    }
}
