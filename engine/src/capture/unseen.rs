//! What can write to this process's memory past its page tables, so that neither written pages nor write protection tell of
//! it: devices into memory that was pinned for them (GPUs, network cards), and the kernel for an io_uring, into buffers that
//! are registered or with reads that end later.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

const DESCRIPTORS: &str = "/proc/self/fd";

/// What of that kind this process has open; `None` if nothing. Where descriptors are not told nothing is.
pub(crate) fn unseen_writer() -> Option<String> {
    fs::read_dir(DESCRIPTORS).ok()?.flatten().find_map(|entry| {
        // What this very loop has open is gone by now, or harmless.
        let to = fs::read_link(entry.path()).ok()?;
        let is_one =
            to.as_os_str() == "anon_inode:[io_uring]" || (to.is_absolute() && is_pinning_device(&entry.path()));
        is_one.then(|| to.to_string_lossy().into_owned())
    })
}

/// Any device of characters may be one, but for those that are known to read and write as files do.
fn is_pinning_device(descriptor: &Path) -> bool {
    let Ok(found) = fs::metadata(descriptor) else { return false };
    let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
    found.file_type().is_char_device() && !is_plain(major, minor)
}

/// The numbers are those of the kernel's list (Documentation/admin-guide/devices.txt).
fn is_plain(major: u32, minor: u32) -> bool {
    const MEMORY: u32 = 1;
    const MISCELLANEOUS: u32 = 10;
    match (major, minor) {
        // null, zero, full, random, urandom, kmsg.
        (MEMORY, 3 | 5 | 7 | 8 | 9 | 11) => true,
        // hwrng, tun, fuse.
        (MISCELLANEOUS, 183 | 200 | 229) => true,
        // Terminals, and the registers of processors.
        (4 | 5 | 136..=143 | 202 | 203, _) => true,
        _ => false,
    }
}
