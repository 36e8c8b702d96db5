//! What this machine knows of an open file. On a file system of many machines, asking for more than that costs
//! a request to the metadata server, and makes every machine that writes to the file tell what it did.

use rustix::fs::{AtFlags, StatxFlags, statx};
use std::{fs, io, os::unix::fs::MetadataExt};

pub(super) struct Status {
    pub(super) bytes: u64,
    pub(super) links: u64,
}

/// The status of `file`. It is exact on a local file system; elsewhere it is as of the opening, or as this machine has
/// changed it or been told since.
pub(super) fn known(file: &fs::File) -> io::Result<Status> {
    match unsynced(file) {
        Some(status) => Ok(status),
        // A kernel or a sandbox may lack the call.
        None => file.metadata().map(|found| Status { bytes: found.len(), links: found.nlink() }),
    }
}

fn unsynced(file: &fs::File) -> Option<Status> {
    let wanted = StatxFlags::SIZE | StatxFlags::NLINK;
    let found = statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    let has_all = found.stx_mask & wanted.bits() == wanted.bits();
    has_all.then_some(Status { bytes: found.stx_size, links: found.stx_nlink.into() })
}
