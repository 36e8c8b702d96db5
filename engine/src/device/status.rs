//! The status of an open file as this machine knows it. On a shared file system, more than that costs a request to the
//! metadata server, and every machine that writes to the file must report its changes.

use rustix::fs::{AtFlags, StatxFlags, statx};
use std::{fs, io, os::unix::fs::MetadataExt};

pub(super) struct Status {
    pub(super) bytes: u64,
    pub(super) links: u64,
}

/// The status of `file`. It is exact on a local file system. Elsewhere it is that of the opening, with changes that
/// this machine has made or received since.
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
