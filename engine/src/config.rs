//! The settings of a session, each with a default that works.

use crate::{
    error::{Error, Result},
    space::format::BLOCK_BYTES,
    stage::Stage,
};
use std::{path::PathBuf, thread};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Complete revisions that are kept, at least 1. A space has room for two more.
    pub keep: u32,
    pub stage: Stage,
    /// Bytes of each rank's pool; with more than the shard, the program waits only for a copy.
    pub pool_bytes: u64,
    /// Bytes of one chunk: what is written at once. A multiple of 4 KiB.
    pub chunk_bytes: u64,
    /// Threads of each rank that write, and as many that hash; 0: as suits the processors.
    pub io_threads: u32,
    /// Bytes of each rank's portion; 0 has the first checkpoint size it.
    pub portion_bytes: u64,
    /// Where the pool lives.
    pub pool_directory: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            keep: 1,
            stage: Stage::Pool,
            pool_bytes: 64 << 20,
            chunk_bytes: 4 << 20,
            io_threads: 0,
            portion_bytes: 0,
            pool_directory: PathBuf::from("/dev/shm"),
        }
    }
}

const KEEP_MAX: u32 = 1000;
const CHUNK_BYTES_MAX: u64 = 1 << 30;
const IO_THREADS_MAX: u32 = 64;
/// The smallest portion that holds the slots and anything at all.
const PORTION_BYTES_MIN: u64 = 1 << 20;

impl Config {
    /// Threads that write, and as many that hash, where `ranks` ranks share the processors. Two keep a
    /// device busy; where the ranks use all processors a second one only pushes them aside.
    pub(crate) fn io_threads_for(&self, ranks: usize) -> usize {
        match self.io_threads {
            0 => 1 + usize::from(thread::available_parallelism().is_ok_and(|cores| ranks < cores.get())),
            set => set as usize,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let outside = |name: &str, value: u64, range: String| {
            Err(Error::argument(name, format!("{value} is out of range, it takes {range}")))
        };
        if !(1..=KEEP_MAX).contains(&self.keep) {
            return outside("keep", self.keep.into(), format!("1 to {KEEP_MAX}"));
        }
        if self.io_threads > IO_THREADS_MAX {
            return outside("io_threads", self.io_threads.into(), format!("0 to {IO_THREADS_MAX}"));
        }
        let chunk_range = BLOCK_BYTES..=CHUNK_BYTES_MAX;
        if !chunk_range.contains(&self.chunk_bytes) || !self.chunk_bytes.is_multiple_of(BLOCK_BYTES) {
            return outside("chunk_bytes", self.chunk_bytes, "multiples of 4096 up to 1 GiB".to_owned());
        }
        // One chunk to fill while another is written.
        if self.pool_bytes < 2 * self.chunk_bytes || i64::try_from(self.pool_bytes).is_err() {
            return outside("pool_bytes", self.pool_bytes, format!("two chunks ({}) or more", 2 * self.chunk_bytes));
        }
        let portion_ok = self.portion_bytes == 0 || self.portion_bytes >= PORTION_BYTES_MIN;
        if !portion_ok || i64::try_from(self.portion_bytes).is_err() {
            return outside("portion_bytes", self.portion_bytes, format!("0 or {PORTION_BYTES_MIN} and more"));
        }
        Ok(())
    }
}
