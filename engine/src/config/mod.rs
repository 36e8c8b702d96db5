//! The settings of a session: what they are, and what values they take.
//!
//! `keys` is the one table of them; `choice` holds what one place sets, `file` and `environment` are
//! such places, and `resolve` puts them together and remembers where each value came from. `alike` has
//! the ranks of a job compare theirs. What must hold: every setting has a default that works, and no
//! value is used that its key does not take.

mod alike;
mod choice;
mod environment;
mod file;
mod hints;
mod keys;
mod resolve;
mod shown;
mod signal;
mod stage;
mod value;

pub(crate) use alike::check_alike;
pub use choice::Choice;
pub(crate) use environment::passed_over;
pub use environment::{Surroundings, UnknownVariable};
pub use keys::{KEYS, Key};
pub use resolve::{Resolved, Setting, Source};
pub use shown::Shown;
pub use signal::Signal;
pub use stage::Stage;
pub use value::Value;

use crate::{
    device::Allocate,
    error::{Error, Result},
    space::Per,
};
use std::{path::PathBuf, thread, time::Duration};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Complete revisions that are kept, at least 1. A space has room for two more.
    pub keep: u32,
    pub stage: Stage,
    /// Bytes of the node's pool, which its ranks share; `None`: what they save, within a quarter of the memory that is
    /// free and half of `pool_directory`. With room for their shards and a chunk more for each, the program waits only
    /// for a copy.
    pub pool_bytes: Option<u64>,
    /// Bytes of one chunk: what is written at once. A multiple of 4 KiB; `None`: as suits the ranks of the node.
    pub chunk_bytes: Option<u64>,
    /// How long the pool's memory is held.
    pub pool_held: PoolHeld,
    /// Stage `node`: pieces of fewer bytes are gathered by each rank first.
    pub small_bytes: u64,
    /// Stages `node` and `rank`: pieces of so many bytes and more go straight through; `None`: found on this machine.
    pub threshold_bytes: Option<u64>,
    /// Bytes of each rank's own buffer: stage `rank`, and stage `node` for small pieces. A multiple of 4 KiB.
    pub buffer_bytes: u64,
    /// Stage `node`: how often its buffer is flushed.
    pub flush_every: Duration,
    /// Threads of each rank that write, and as many that hash; also the most writes under way at once on a
    /// node. 0: as suits the processors, and four writes.
    pub io_threads: u32,
    /// Ranks that write for all; 0: each for itself.
    pub aggregators: u32,
    /// Bytes of each rank's portion; 0 has the first checkpoint size it.
    pub portion_bytes: u64,
    /// Bytes of this rank's largest shard: a portion that is made has room for keep+2 of these; 0: those of the
    /// first checkpoint.
    pub shard_bytes: u64,
    /// Which ranks share a file of a new layout.
    pub per: Per,
    /// What the job makes of revisions that are there already.
    pub start: Start,
    /// How hard room is promised to a new layout.
    pub allocate: Allocate,
    /// Servers that a file of a new layout is striped over, where the file system has stripes; 0: as it does it.
    pub stripe_count: u32,
    /// Bytes of a stripe of a new layout, there; 0: as the file system does it.
    pub stripe_bytes: u64,
    /// Where the pool lives.
    pub pool_directory: PathBuf,
    /// A checkpoint is due every so many steps; 0: not by steps.
    pub every_steps: u64,
    /// A checkpoint is due after so long; zero: not by time.
    pub every: Duration,
    /// The mean time between failures, from which `interval` tells when a checkpoint is due; zero: not given.
    pub mtbf: Duration,
    /// The formula that gives the time between checkpoints from their cost and `mtbf`.
    pub interval: Interval,
    /// How often the ranks look together whether a checkpoint is due; zero: at every step.
    pub agree_every: Duration,
    /// With this signal the program is asked for a checkpoint.
    pub checkpoint_signal: Option<Signal>,
}

/// What a job makes of the revisions that earlier ones have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// It restores one, or gets something of it, before it saves anything.
    #[default]
    Restored,
    /// It may push them out unread.
    Fresh,
}

/// How long the memory of the pool is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolHeld {
    #[default]
    Always,
    /// From the request of a checkpoint until that is durable: each chunk has memory while it is in use.
    Checkpoint,
}

/// Whose formula gives the time between checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interval {
    #[default]
    Daly,
    Young,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            keep: 1,
            stage: Stage::Pool,
            pool_bytes: None,
            chunk_bytes: None,
            pool_held: PoolHeld::default(),
            small_bytes: 512,
            threshold_bytes: None,
            buffer_bytes: 4 << 20,
            flush_every: Duration::from_millis(100),
            io_threads: 0,
            aggregators: 0,
            portion_bytes: 0,
            shard_bytes: 0,
            per: Per::default(),
            start: Start::default(),
            allocate: Allocate::default(),
            stripe_count: 0,
            stripe_bytes: 0,
            pool_directory: PathBuf::from("/dev/shm"),
            every_steps: 0,
            every: Duration::ZERO,
            mtbf: Duration::ZERO,
            interval: Interval::default(),
            agree_every: Duration::from_secs(1),
            checkpoint_signal: None,
        }
    }
}

impl Config {
    /// Threads that write, and as many that hash, where `ranks` ranks share the processors. Two keep a
    /// device busy; where the ranks use all processors a second one only pushes them aside.
    pub(crate) fn io_threads_for(&self, ranks: usize) -> usize {
        match self.io_threads {
            0 => 1 + usize::from(thread::available_parallelism().is_ok_and(|cores| ranks < cores.get())),
            set => set as usize,
        }
    }

    /// Writes of a node that are under way at once, whichever ranks they are of. Two leave a fast disk waiting
    /// between them: four were 13 % faster here, eight no better.
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

    /// One chunk to fill while another is written. The sizes themselves are in range.
    fn check_pool(&self) -> std::result::Result<(), String> {
        match (self.chunk_bytes, self.pool_bytes) {
            (Some(chunk), Some(pool)) if pool < 2 * chunk => {
                let (pool, two) = (Shown::Bytes(pool), Shown::Bytes(2 * chunk));
                Err(format!("{pool} is out of range, it takes two chunks ({two}) or more"))
            }
            _ => Ok(()),
        }
    }
}
