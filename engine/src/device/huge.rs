//! Allocates the memory of a file in huge pages, if the kernel has some at hand. This takes a quarter of the time of
//! small pages, and leaves fewer page faults for later.

use super::{
    HUGE_PAGE, Mapping,
    allocate::{allocate_at, check_room},
};
use crate::ground::{Instant, each_at_once};
use std::{fs::File, io, ops::Range, os::unix::fs::MetadataExt, sync::OnceLock, time::Duration};

/// The most memory allocated in one step.
const STEP_MAX: u64 = 64 << 20;
/// The first step measures how long huge pages take.
const STEP_LEAST: u64 = 8 << 20;
/// For less memory, the gain is smaller than the cost of the request: if many ranks allocate at once, their requests
/// wait for each other.
const LEAST_BYTES: u64 = 128 << 20;
/// A thread is worth starting for this much.
const LEAST_SHARE: u64 = 32 << 20;
/// The fixed part of the time limit of a request for huge pages: the kernel waits for all processors.
const ASKING_MAX: Duration = Duration::from_millis(4);
/// The part of the limit for each MiB: the kernel clears memory. If memory is fragmented, or the processors are busy,
/// huge pages take ten times as long as small ones, which take this long.
const MIB_MAX: Duration = Duration::from_micros(500);
const SMALL_PAGE: u64 = 4096;

/// Allocates the memory of a file, step by step.
#[derive(Debug)]
pub(crate) struct HugePages {
    /// The size of the next step.
    step: u64,
    /// Whether huge pages were fast enough so far.
    are_quick: bool,
}

impl HugePages {
    /// For a file that gets `bytes` bytes in all.
    pub(crate) fn of(bytes: u64) -> HugePages {
        HugePages { step: STEP_LEAST, are_quick: bytes >= LEAST_BYTES }
    }

    /// Allocates memory for `file`, which `map` maps from its beginning on: bytes from `from` on, up to `to`. Returns
    /// the end of the allocated bytes.
    pub(crate) fn give(&mut self, file: &File, map: &Mapping, from: u64, to: u64) -> io::Result<u64> {
        let bytes = self.step.min(to - from);
        if self.are_quick && bytes >= STEP_LEAST {
            // Only a range that already has a page becomes a huge page. Requested before the rest is allocated, huge
            // pages are made at once; otherwise small pages are made first and then copied.
            (0..bytes)
                .step_by(HUGE_PAGE)
                .try_for_each(|behind| allocate_at(file, from + behind, SMALL_PAGE.min(bytes - behind)))?;
            let begun = Instant::now();
            map.collapse(from as usize, bytes as usize);
            self.are_quick = begun.elapsed() <= ASKING_MAX + MIB_MAX * (bytes >> 20) as u32;
        }
        allocate_at(file, from, bytes)?;
        self.step = (2 * self.step).min(STEP_MAX);
        Ok(from + bytes)
    }
}

/// Allocates the first `bytes` bytes of `file`, which `map` maps, by up to `threads` threads.
pub(super) fn give_all(file: &File, map: &Mapping, bytes: u64, threads: usize) -> io::Result<()> {
    let has = file.metadata()?.blocks().saturating_mul(512);
    check_room(file, bytes.saturating_sub(has))?;
    let share = bytes.div_ceil(threads as u64).next_multiple_of(HUGE_PAGE as u64).max(LEAST_SHARE);
    let shares = (0..bytes).step_by(share as usize).map(|from| from..bytes.min(from + share)).collect();
    let failure = OnceLock::new();
    each_at_once(threads, "mainstay-memory", shares, |Range { mut start, end }| {
        let mut pages = HugePages::of(bytes);
        while start < end && failure.get().is_none() {
            match pages.give(file, map, start, end) {
                Ok(given) => start = given,
                Err(error) => drop(failure.set(error)),
            }
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_file_has_its_memory_whatever_its_length() {
        for bytes in [1, STEP_LEAST, LEAST_BYTES - 1, LEAST_BYTES, LEAST_BYTES + (3 << 20) + 5] {
            for threads in [1, 3] {
                let file = tempfile::tempfile_in("/dev/shm").unwrap();
                file.set_len(bytes).unwrap();
                give_all(&file, &Mapping::new(&file, bytes).unwrap(), bytes, threads).unwrap();
                let found = file.metadata().unwrap();
                assert_eq!(found.len(), bytes);
                assert!(found.blocks() * 512 >= bytes, "{} of {bytes}", found.blocks() * 512);
                assert!(found.blocks() * 512 < bytes + 2 * HUGE_PAGE as u64);
            }
        }
    }
}
