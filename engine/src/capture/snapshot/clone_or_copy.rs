//! Decides whether a snapshot stops the program for less time than a copy. The cost of a clone depends on the page
//! tables of all the program's memory, the cost of a copy on the bytes copied. Both are expected to cost as much as the
//! last time in this process.

use crate::ground::files;
use std::time::Duration;

/// A copy of fewer bytes takes less time than a clone, which needs at least some hundred microseconds.
const BYTES_MIN: u64 = 4 << 20;
/// The expected cost before the first measurement, on a machine that copies 16 GB/s.
const COPY_NS_PER_BYTE: f64 = 0.06;
/// A table covers the pages of 2 MiB; the tables of 1 GiB take 18 ms.
const CLONE_NS_PER_TABLE: f64 = 35_000.0;
const TABLE_KIB: u64 = 2048;
/// A method that was slow once is tried again later: each time that it is avoided, this fraction of its measured cost
/// is forgotten.
const FORGOTTEN: f64 = 0.125;

#[derive(Debug)]
pub(crate) struct SnapshotChoice {
    /// The number of bytes from which a clone is made, if the user sets it.
    from: Option<u64>,
    copy_ns_per_byte: f64,
    clone_ns_per_table: f64,
}

impl SnapshotChoice {
    /// `from`: snapshots are taken from this number of bytes on. `None`: whenever they are faster.
    pub(crate) fn new(from: Option<u64>) -> SnapshotChoice {
        SnapshotChoice { from, copy_ns_per_byte: COPY_NS_PER_BYTE, clone_ns_per_table: CLONE_NS_PER_TABLE }
    }

    /// The number of page tables, if a clone is to be made for `bytes` bytes.
    pub(crate) fn of_clone(&mut self, bytes: u64) -> Option<u64> {
        if bytes == 0 || bytes < self.from.unwrap_or(BYTES_MIN) {
            return None;
        }
        let tables = tables();
        if self.from.is_some() || self.expects_less(tables, bytes) { Some(tables) } else { None }
    }

    /// Whether `bytes` bytes are worth write protection, which needs a thread and almost no time otherwise.
    pub(crate) fn of_protection(&self, bytes: u64) -> bool {
        bytes > 0 && bytes >= self.from.unwrap_or(BYTES_MIN)
    }

    /// Whether a clone of `tables` tables is expected to take less time than a copy of `bytes` bytes.
    fn expects_less(&mut self, tables: u64, bytes: u64) -> bool {
        let is_less = self.clone_ns_per_table * (tables as f64) < self.copy_ns_per_byte * bytes as f64;
        if !is_less {
            self.clone_ns_per_table += (CLONE_NS_PER_TABLE - self.clone_ns_per_table) * FORGOTTEN;
        }
        is_less
    }

    pub(crate) fn note_clone(&mut self, tables: u64, took: Duration) {
        self.clone_ns_per_table = took.as_nanos() as f64 / tables.max(1) as f64;
    }

    pub(crate) fn note_copy(&mut self, bytes: u64, took: Duration) {
        // A copy of few bytes comes from the caches.
        if bytes >= BYTES_MIN {
            self.copy_ns_per_byte = took.as_nanos() as f64 / bytes as f64;
        }
    }
}

/// The number of tables of this process's own pages, at least one. Tables of shared memory, such as the pool, are not
/// cloned.
fn tables() -> u64 {
    let status = files::kernel_text("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0_u64) / TABLE_KIB + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn little_memory_of_a_large_program_is_copied_and_much_is_not() {
        let mut choice = SnapshotChoice::new(None);
        assert!(choice.expects_less(512, GIB));
        assert!(!choice.expects_less(64 * 512, GIB));
        assert!(!choice.expects_less(512, GIB / 8));
        // Huge pages: a clone costs almost nothing.
        choice.note_clone(512, Duration::from_micros(700));
        assert!(choice.expects_less(64 * 512, GIB) && choice.expects_less(512, GIB / 8));
        choice.note_copy(GIB, Duration::from_micros(600));
        assert!(!choice.expects_less(512, GIB));
    }

    #[test]
    fn what_was_slow_once_is_tried_again() {
        let mut choice = SnapshotChoice::new(None);
        choice.note_clone(512, Duration::from_secs(1));
        let refused = (0..1000).take_while(|_| !choice.expects_less(512, GIB)).count();
        assert!((1..100).contains(&refused), "{refused}");
    }

    #[test]
    fn the_user_says_from_where_on() {
        assert!(SnapshotChoice::new(None).of_clone(BYTES_MIN - 1).is_none());
        let mut always = SnapshotChoice::new(Some(0));
        assert!(always.of_clone(1).is_some_and(|tables| tables > 0) && always.of_clone(0).is_none());
        assert!(SnapshotChoice::new(Some(10)).of_clone(9).is_none());
    }
}
