//! What this machine knows of an open file. On a file system of many machines, asking for more than that costs
//! a request to the metadata server, and makes every machine that writes to the file tell what it did.

use std::{fs, io, mem::MaybeUninit, os::fd::AsRawFd, os::unix::fs::MetadataExt};

pub(super) struct Status {
    pub(super) bytes: u64,
    pub(super) links: u64,
}

/// Exact on a local file system; elsewhere as of the opening, or as this machine has changed it or has been told.
pub(super) fn known(file: &fs::File) -> io::Result<Status> {
    match unsynced(file) {
        Some(status) => Ok(status),
        // A kernel, or a sandbox, that does not have the call.
        None => file.metadata().map(|found| Status { bytes: found.len(), links: found.nlink() }),
    }
}

#[allow(unsafe_code)]
fn unsynced(file: &fs::File) -> Option<Status> {
    const WANTED: u32 = libc::STATX_SIZE | libc::STATX_NLINK;
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is an empty text with its end, and the kernel writes no more than one statx; zeros are one.
    let found = unsafe {
        let status = libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, WANTED, found.as_mut_ptr());
        (status == 0).then(|| found.assume_init())?
    };
    let has_all = found.stx_mask & WANTED == WANTED;
    has_all.then_some(Status { bytes: found.stx_size, links: found.stx_nlink.into() })
}
