//! Calls of the kernel, as the rank asked for them.
#![allow(unsafe_code)]

use super::Arguments;
use std::io;

const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;

/// Passes the call on. Returns the result, or the error number below zero. The kernel checks the addresses.
pub(crate) fn call(number: i64, arguments: Arguments) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the table lets only calls pass that change nothing of the host, except memory and files of the rank.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { number_of_last_error() } else { result }
}

fn number_of_last_error() -> i64 {
    number(&io::Error::last_os_error())
}

/// The error as a system call returns it.
pub(super) fn number(error: &io::Error) -> i64 {
    -i64::from(error.raw_os_error().unwrap_or(libc::EIO))
}

/// `arch_prctl`: a rank's thread pointer is set when it runs.
pub(super) fn thread_pointer([code, value, ..]: Arguments, pointer: &mut u64) -> i64 {
    match code {
        ARCH_SET_FS => {
            *pointer = value;
            0
        }
        ARCH_GET_FS => {
            let into = value as *mut u64;
            // SAFETY: the rank asks for the value here; its C library does so for its own variable alone.
            unsafe { into.write_unaligned(*pointer) };
            0
        }
        _ => -i64::from(libc::EINVAL),
    }
}

/// The result of a call of the host, as an error of its kind.
pub(super) fn result(value: i64) -> io::Result<i64> {
    if value < 0 { Err(io::Error::from_raw_os_error(-value as i32)) } else { Ok(value) }
}
