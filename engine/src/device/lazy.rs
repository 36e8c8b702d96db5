//! Lazy I/O of CephFS: machines that write to one file do not wait for one another, and keep their caches. This is safe
//! here: no block has two writers, data counts only after a sync, and reads bypass the caches.

use nix::sys::statfs::FsType;
use std::{fs, os::fd::AsRawFd};

/// The number of the kernel's client (linux/magic.h). With ceph-fuse, lazy I/O is an option of the mount.
const CEPH: FsType = FsType(0x00c3_6400);

/// Asks for lazy I/O if a file of `file_system` can have it; returns whether it was granted.
#[allow(unsafe_code)]
pub(super) fn ask(file: &fs::File, file_system: FsType) -> bool {
    // CEPH_IOC_LAZYIO (fs/ceph/ioctl.h).
    // SAFETY: the call has no argument, and touches no memory.
    file_system == CEPH && unsafe { libc::ioctl(file.as_raw_fd(), libc::_IO(0x97, 4)) } == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::statfs::TMPFS_MAGIC;

    #[test]
    fn what_is_refused_is_not_granted() {
        let file = tempfile::tempfile().unwrap();
        assert!(!ask(&file, CEPH) && !ask(&file, TMPFS_MAGIC));
    }
}
