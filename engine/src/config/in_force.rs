//! The settings in force: their consistency, and values derived from several of them.

use super::{Config, KEYS, Shown};
use crate::error::{Error, Result};
use std::thread;

impl Config {
    /// Number of writing threads, and of hashing threads, of a rank, if `ranks` ranks share its processors. Two keep a
    /// device busy; if the ranks use all processors, a second thread only displaces them.
    pub(crate) fn io_threads_for(&self, ranks: usize) -> usize {
        match self.io_threads {
            0 => 1 + usize::from(thread::available_parallelism().is_ok_and(|cores| ranks < cores.get())),
            set => set as usize,
        }
    }

    /// Number of simultaneous writes of a node, for all ranks together. With two, a fast disk idles between them: four
    /// were 13 % faster here, eight no better.
    pub(crate) fn writes_at_once(&self) -> u32 {
        match self.io_threads {
            0 => 4,
            set => set,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        for key in KEYS {
            key.check(self).map_err(|why| Error::argument(key.name, why))?;
        }
        self.check_pool().map_err(|why| Error::argument("pool_bytes", why))
    }

    /// Checks that the pool can fill one chunk while another is written. The sizes themselves are in range.
    pub(super) fn check_pool(&self) -> std::result::Result<(), String> {
        match (self.chunk_bytes, self.pool_bytes) {
            (Some(chunk), Some(pool)) if pool < 2 * chunk => {
                let (pool, two) = (Shown::Bytes(pool), Shown::Bytes(2 * chunk));
                Err(format!("{pool} is out of range, it takes two chunks ({two}) or more"))
            }
            _ => Ok(()),
        }
    }
}
