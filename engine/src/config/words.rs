//! What a setting can be that is given by a word.

use std::path::PathBuf;

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

/// How what goes to a disk or a parallel file system is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compress {
    #[default]
    Off,
    /// By LZ4: fast, and good for much that is alike.
    Lz4,
    /// By Zstandard: shorter, and slower.
    Zstd,
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

/// What becomes of a checkpoint that is due while the one before is still under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenBusy {
    /// It is due once that one is durable.
    #[default]
    Later,
    /// It is due, and waits for that one.
    Now,
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

/// What a start does where a disk level is out of reach that had something newer than all that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskLost {
    /// It is refused: the disk may come back.
    #[default]
    Refused,
    /// It goes on from what is left.
    Accepted,
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
