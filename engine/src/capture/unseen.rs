//! Finds writers that bypass this process's page tables. Neither page flags nor write protection show their writes.
//! Such writers are devices that write into pinned memory (GPUs, network cards), and the kernel for an io_uring with
//! registered buffers or with reads that end later.

use crate::ground::files;
use rustix::fs::{FileType, fstat};
use std::{fs, os::fd::BorrowedFd, path::PathBuf};

const DESCRIPTORS: &str = "/proc/self/fd";
const IO_URING: &str = "anon_inode:[io_uring]";

/// An open file of such a writer; `None` if this process has none. If no descriptor is left for the search, the answer
/// is "perhaps".
pub(crate) fn unseen_writer() -> Option<String> {
    unseen_writer_in(DESCRIPTORS)
}

fn unseen_writer_in(directory: &str) -> Option<String> {
    let all = match files::entries(directory) {
        Ok(all) => all,
        Err(error) => return Some(format!("perhaps a device ({directory}: {error})")),
    };
    all.flatten().find_map(|entry| {
        let writer = unseen_writer_at(entry.file_name().to_str()?.parse().ok()?)?;
        Some(writer.to_string_lossy().into_owned())
    })
}

/// Any character device may be such a writer, except those known to read and write like files. Only few descriptors
/// need the slow lookup of their name.
#[allow(unsafe_code)]
fn unseen_writer_at(descriptor: i32) -> Option<PathBuf> {
    // SAFETY: the descriptor is only looked at. If it was closed or replaced meanwhile, no harm is done.
    let found = fstat(unsafe { BorrowedFd::borrow_raw(descriptor) }).ok()?;
    let name = || fs::read_link(format!("{DESCRIPTORS}/{descriptor}")).ok();
    match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice if !is_plain(libc::major(found.st_rdev), libc::minor(found.st_rdev)) => name(),
        // Descriptors without a file have no type.
        FileType::Unknown => name().filter(|name| name.as_os_str() == IO_URING),
        _ => None,
    }
}

/// The numbers are from the kernel's list (Documentation/admin-guide/devices.txt).
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, os::fd::AsRawFd};

    #[test]
    fn what_reads_and_writes_as_files_do_is_plain() {
        for path in ["/dev/null", "/dev/zero", "/dev/urandom", "/proc/self/status", "/"] {
            let file = File::open(path).unwrap();
            assert_eq!(unseen_writer_at(file.as_raw_fd()), None, "{path}");
        }
        // A terminal, and the other end of one.
        assert!(is_plain(4, 1) && is_plain(5, 2) && is_plain(136, 0));
    }

    #[test]
    fn where_nobody_can_tell_there_may_be_one() {
        assert_eq!(
            unseen_writer_in("/nonexistent/fd").as_deref(),
            Some("perhaps a device (/nonexistent/fd: No such file or directory (os error 2))")
        );
    }

    #[test]
    fn devices_that_pin_memory_are_not() {
        // mem, nvidia0, nvidia-uvm as numbered on one machine, uverbs0, renderD128, kfd.
        for (major, minor) in [(1, 1), (195, 0), (238, 0), (231, 192), (226, 128), (511, 0)] {
            assert!(!is_plain(major, minor), "{major}:{minor}");
        }
    }
}
