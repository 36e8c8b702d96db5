//! The maximum size of a pool that sizes itself, from the free memory of the machine, of the control group, and of the
//! directory of the pool.

use crate::{
    ground::{control_group, files},
    space::format::PoolBound,
};
use nix::sys::{
    resource::{Resource, getrlimit},
    statvfs::statvfs,
};
use std::path::Path;

/// The pool may use one part in this many of the free memory; the program and the page cache get the rest.
const MEMORY_SHARE: u64 = 4;
/// The pool may use one part in this many of its directory's size: other users have pools there, and MPI its buffers.
const DIRECTORY_SHARE: u64 = 2;

/// Free bytes; `u64::MAX` if unknown or unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Available {
    pub(crate) memory_free: u64,
    pub(crate) group_free: u64,
    pub(crate) directory_bytes: u64,
    pub(crate) directory_free: u64,
}

impl Available {
    /// The free memory now, for a pool in `directory`.
    pub(crate) fn look(directory: &Path) -> Available {
        let (directory_bytes, directory_free) = directory_room(directory);
        Available {
            memory_free: meminfo(Path::new("/proc/meminfo"), "MemAvailable:"),
            group_free: control_group::free_bytes(),
            directory_bytes,
            directory_free,
        }
    }

    /// The maximum size of a pool that already holds `held` bytes, and the limit that decides it.
    pub(crate) fn limit(&self, held: u64) -> (u64, PoolBound) {
        let share = |free: u64| free.saturating_add(held) / MEMORY_SHARE;
        // The ranks' records are in the same directory.
        let free = self.directory_free.saturating_add(held);
        let directory = (self.directory_bytes / DIRECTORY_SHARE).min(free - free / 8);
        let bounds = [
            (share(self.memory_free), PoolBound::Memory),
            (share(self.group_free), PoolBound::ControlGroup),
            (directory, PoolBound::Directory),
        ];
        bounds.into_iter().min_by_key(|(bytes, _)| *bytes).unwrap_or_default()
    }

    /// Whether less memory is free than a pool of `held` bytes takes: others need some of it.
    pub(crate) fn is_short(&self, held: u64) -> bool {
        self.memory_free.min(self.group_free) < held
    }
}

/// Maximum size, in bytes, that a pool in `directory` that sizes itself (`pool_bytes = "auto"`) may have now, and the
/// limit that decides it. Within that it takes as much as its ranks save.
pub fn pool_limit(directory: &Path) -> (u64, PoolBound) {
    let (now, bound) = Available::look(directory).limit(0);
    (now.min(ceiling(directory)), bound)
}

/// The largest size that a pool in `directory` can ever reach. Its file and its tables are laid out for this size.
pub(crate) fn ceiling(directory: &Path) -> u64 {
    let total = meminfo(Path::new("/proc/meminfo"), "MemTotal:");
    let group = control_group::limit_bytes();
    let (bytes, _) = directory_room(directory);
    let limit = |resource| getrlimit(resource).map_or(u64::MAX, |(limit, _)| limit);
    // If the address space is limited, the program needs most of it.
    let limits = [total.min(group) / MEMORY_SHARE, limit(Resource::RLIMIT_FSIZE) / 2, limit(Resource::RLIMIT_AS) / 8];
    limits.into_iter().fold(bytes / DIRECTORY_SHARE, u64::min).min(1 << 46)
}

/// The directory's size and free bytes; no limit if it reports none (a tmpfs with size=0).
fn directory_room(directory: &Path) -> (u64, u64) {
    match statvfs(directory) {
        Ok(room) if room.blocks() > 0 => {
            let bytes = |blocks: u64| blocks.saturating_mul(room.fragment_size());
            (bytes(room.blocks()), bytes(room.blocks_available()))
        }
        _ => (u64::MAX, u64::MAX),
    }
}

fn meminfo(path: &Path, name: &str) -> u64 {
    let text = files::kernel_text(path).unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(u64::MAX, |kib: u64| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;
    const AMPLE: Available =
        Available { memory_free: u64::MAX, group_free: u64::MAX, directory_bytes: u64::MAX, directory_free: u64::MAX };

    #[test]
    fn the_scarcest_bounds_it() {
        let rows = [
            (Available { memory_free: 400 * MIB, ..AMPLE }, 0, 100, PoolBound::Memory),
            // The memory that the pool holds was free before.
            (Available { memory_free: 300 * MIB, ..AMPLE }, 100, 100, PoolBound::Memory),
            (Available { group_free: 40 * MIB, memory_free: 400 * MIB, ..AMPLE }, 0, 10, PoolBound::ControlGroup),
            (Available { directory_bytes: 64 * MIB, directory_free: 64 * MIB, ..AMPLE }, 0, 32, PoolBound::Directory),
            (Available { directory_bytes: 64 * MIB, directory_free: 8 * MIB, ..AMPLE }, 0, 7, PoolBound::Directory),
            (Available { directory_bytes: 64 * MIB, directory_free: 0, ..AMPLE }, 32, 28, PoolBound::Directory),
            (Available { directory_bytes: 0, directory_free: 0, ..AMPLE }, 0, 0, PoolBound::Directory),
        ];
        for (room, held, expected, bound) in rows {
            assert_eq!(room.limit(held * MIB), (expected * MIB, bound), "{room:?}, {held} held");
        }
        AMPLE.limit(u64::MAX);
    }

    #[test]
    fn it_is_short_when_less_is_free_than_it_holds() {
        let room = Available { memory_free: 300, group_free: 200, ..AMPLE };
        assert!(room.is_short(201) && !room.is_short(200));
        // Once the pool is cut down to its share, memory is no longer short, so the size does not oscillate.
        let (held, _) = Available { memory_free: 100, ..AMPLE }.limit(300);
        assert_eq!((held, Available { memory_free: 300, ..AMPLE }.is_short(held)), (100, false));
    }

    #[test]
    fn memory_is_read_in_kib() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("meminfo");
        fs::write(&path, "MemTotal:       2000 kB\nMemAvailable:    1000 kB\n").unwrap();
        assert_eq!(meminfo(&path, "MemAvailable:"), 1000 * 1024);
        assert_eq!(meminfo(&path, "MemFree:"), u64::MAX);
        assert_eq!(meminfo(&root.path().join("missing"), "MemTotal:"), u64::MAX);
    }

    #[test]
    fn this_machine_tells() {
        let room = Available::look(Path::new("/dev/shm"));
        assert!(room.memory_free < u64::MAX && room.directory_bytes < u64::MAX, "{room:?}");
        assert!(ceiling(Path::new("/dev/shm")) < u64::MAX / 2);
    }
}
