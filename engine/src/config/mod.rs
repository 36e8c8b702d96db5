//! The settings of a session: what they are, and what values they take.
//!
//! `table` is the one table of the settings, a row each, and `key` a row of it; `choice` is how one place sets some of
//! them, `file` and `environment` are such places, and `resolve` puts them together and remembers where each value came
//! from. `alike` has the ranks of a job compare their settings.
//!
//! What must hold: every setting has a default that works, and no value is used that its key does not take.

mod alike;
mod choice;
mod environment;
mod file;
mod hints;
mod key;
mod range;
mod resolve;
mod shown;
mod signal;
mod stage;
mod table;
mod value;

pub(crate) use alike::check_alike;
pub(crate) use environment::passed_over;
pub use environment::{Surroundings, UnknownVariable};
pub use key::Key;
pub use resolve::{Resolved, Setting, Source};
pub use shown::Shown;
pub use signal::Signal;
pub use stage::Stage;
pub use table::{Choice, Config, KEYS};
pub use value::Value;

use crate::error::{Error, Result};
use std::{path::PathBuf, thread};

/// What a job makes of the revisions that earlier jobs have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// The job restores a revision, or gets something of one, before it saves anything.
    #[default]
    Restored,
    /// The job may push earlier revisions out unread.
    Fresh,
}

/// What of the protected regions a revision writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Capture {
    #[default]
    Whole,
    /// What changed since the revision before.
    Incremental,
    /// All, copied while the program goes on.
    Snapshot,
    /// What changed since the revision before, copied while the program goes on.
    IncrementalSnapshot,
}

impl Capture {
    /// Whether a revision writes what changed, and shares the rest.
    pub fn is_incremental(self) -> bool {
        matches!(self, Capture::Incremental | Capture::IncrementalSnapshot)
    }

    /// Whether the program goes on before its memory is copied.
    pub fn is_snapshot(self) -> bool {
        matches!(self, Capture::Snapshot | Capture::IncrementalSnapshot)
    }
}

/// How it is found out what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Track {
    /// By pages where the system can tell which were written, else by hashes.
    #[default]
    Auto,
    /// By the pages that were written.
    Pages,
    /// By hashes of all that is protected.
    Hashes,
}

/// What tells which pages are saved before the checkpoint that they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Predictor {
    /// Nothing: all is saved at the checkpoint.
    #[default]
    Off,
    /// What would have served best until now, or nothing.
    Auto,
    Infrequent,
    Idle,
    Phase,
    Count,
    /// The program alone.
    Told,
    /// A recorded run.
    Oracle,
}

/// Whether the ranks take turns at something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stagger {
    #[default]
    On,
    Off,
}

/// Where a level lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelPlace {
    /// There is no such level.
    Off,
    /// At the usual place of the level.
    Auto,
    At(PathBuf),
}

/// What becomes of the memory of the nodes when a job ends in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryAfter {
    #[default]
    Removed,
    Kept,
}

/// When the copies that lie on other nodes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exchange {
    /// While the program goes on.
    #[default]
    Background,
    /// Before a checkpoint returns.
    Blocking,
}

/// What a job does, while it runs, about ranks that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Nothing: it is started again.
    #[default]
    Off,
    /// Others take their places and numbers: spares, or processes that are started for it.
    Replace,
    /// It goes on with fewer ranks.
    Shrink,
}

/// How long the memory of the pool is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolHeld {
    #[default]
    Always,
    /// From the request of a checkpoint until the checkpoint is durable: each chunk has memory while it is in use.
    Checkpoint,
}

/// Whose formula gives the time between checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interval {
    #[default]
    Daly,
    Young,
}

impl Config {
    /// How many threads write, and how many hash, on a rank whose processors `ranks` ranks share. Two keep a device
    /// busy; if the ranks use all processors, a second thread only pushes them aside.
    pub(crate) fn io_threads_for(&self, ranks: usize) -> usize {
        match self.io_threads {
            0 => 1 + usize::from(thread::available_parallelism().is_ok_and(|cores| ranks < cores.get())),
            set => set as usize,
        }
    }

    /// How many writes of a node are under way at once, whichever ranks they are of. Two leave a fast disk waiting
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

    /// Checks that the pool has one chunk to fill while another is written. The sizes themselves are in range.
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
