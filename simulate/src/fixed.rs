//! Makes a process the same each time: hash tables of the standard library take their keys from the system, and the system
//! moves memory about.

/// In place of the C library's: hash tables of `std` get the same keys each time.
#[allow(unsafe_code)]
// SAFETY: it has the signature of the C library's function, and no other code of the process may rely on its secrets.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(into: *mut u8, bytes: usize, _flags: u32) -> isize {
    // SAFETY: the caller gives so many bytes of memory.
    unsafe { std::ptr::write_bytes(into, 0x5a, bytes) };
    bytes as isize
}

/// Starts this program again with memory that lies at the same addresses each time, unless it does.
pub fn fix_addresses() {
    use std::os::unix::process::CommandExt;
    // SAFETY: the call only reads or sets a flag of this process.
    #[allow(unsafe_code)]
    let (before, set) = unsafe {
        let before = libc::personality(0xffff_ffff);
        (before, libc::personality((before | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong))
    };
    if before & libc::ADDR_NO_RANDOMIZE == 0 && set >= 0 {
        let Ok(program) = std::env::current_exe() else { return };
        // It returns only with an error. Then the addresses stay as they are.
        let _ = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    }
}
