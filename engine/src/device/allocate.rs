//! Allocates room in a file, with real blocks, without interruption by signals.

use crate::ground::{control_group, is_on_simulated_disk};
use nix::{
    fcntl::posix_fallocate,
    sys::{
        resource::{Resource, getrlimit},
        signal::{SigSet, SigmaskHow},
        statfs::{TMPFS_MAGIC, fstatfs},
        statvfs::fstatvfs,
    },
};
use std::{fs, io};

/// Whether `file`, or the directory, is in memory.
pub(super) fn is_memory(file: &fs::File) -> bool {
    fstatfs(file).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC) && !is_on_simulated_disk(file)
}

/// Allocates `bytes` of `file` from `at` on. Signals are blocked meanwhile: a tmpfs (before Linux 6.18) begins again
/// after each, and would never end under a profiler's timer.
pub(crate) fn allocate_at(file: &fs::File, at: u64, bytes: u64) -> io::Result<()> {
    within_limit(at.saturating_add(bytes))?;
    // posix_fallocate refuses to allocate no bytes.
    if bytes == 0 {
        return Ok(());
    }
    let [at, length] = [at, bytes].map(|n| i64::try_from(n).map_err(|_| too_large()));
    let (at, length) = (at?, length?);
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let allocated = posix_fallocate(file, at, length);
    mask.thread_set_mask()?;
    Ok(allocated?)
}

/// The free bytes of the file system of `file`, if it says: a tmpfs without a limit (size=0) does not. In memory,
/// at most the rest of the control group's limit, because a process that exceeds it is killed.
pub(crate) fn available(file: &fs::File) -> Option<u64> {
    let room = fstatvfs(file).ok().filter(|room| room.blocks() > 0);
    let room = room.map(|room| room.blocks_available().saturating_mul(room.fragment_size()));
    let left = Some(control_group::free_bytes()).filter(|left| is_memory(file) && *left < u64::MAX);
    room.into_iter().chain(left).min()
}

/// Refuses `bytes` more of `file`, which is in memory, if there is no room for them.
pub(super) fn check_room(file: &fs::File, bytes: u64) -> io::Result<()> {
    match available(file) {
        Some(room) if room < bytes => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        _ => Ok(()),
    }
}

/// Refuses a file that would exceed the process's limit (`ulimit -f`): the kernel would end the program with SIGXFSZ.
pub(crate) fn within_limit(end: u64) -> io::Result<()> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    if end > limit || i64::try_from(end).is_err() { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}
