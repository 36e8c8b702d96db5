//! The values of settings that are given by a word.

use std::path::PathBuf;

/// How a job treats the revisions of earlier jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// The job restores a revision, or reads a part of one, before it saves anything.
    #[default]
    Restored,
    /// The job may push earlier revisions out unread.
    Fresh,
}

/// The parts of the protected regions that a revision writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Capture {
    #[default]
    Whole,
    /// The parts that changed since the previous revision.
    Incremental,
    /// Everything, copied while the program goes on.
    Snapshot,
    /// The parts that changed since the previous revision, copied while the program goes on.
    IncrementalSnapshot,
}

impl Capture {
    /// Whether a revision writes only changed parts, and shares the rest.
    pub fn is_incremental(self) -> bool {
        matches!(self, Capture::Incremental | Capture::IncrementalSnapshot)
    }

    /// Whether the program goes on before its memory is copied.
    pub fn is_snapshot(self) -> bool {
        matches!(self, Capture::Snapshot | Capture::IncrementalSnapshot)
    }
}

/// How data for a disk or a parallel file system is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compress {
    #[default]
    Off,
    /// With LZ4: fast, and good for repetitive data.
    Lz4,
    /// With Zstandard: smaller, and slower.
    Zstd,
}

/// How changes are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Track {
    /// By pages if the system can report written pages, otherwise by hashes.
    #[default]
    Auto,
    /// By the pages that were written.
    Pages,
    /// By hashes of all protected memory.
    Hashes,
}

/// The predictor of the pages that are saved before their checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Predictor {
    /// None: everything is saved at the checkpoint.
    #[default]
    Off,
    /// The predictor that would have served best until now, or none.
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

/// Whether the ranks take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stagger {
    #[default]
    On,
    Off,
}

/// The treatment of a checkpoint that is due while the previous one is still in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenBusy {
    /// It is due once the previous one is durable.
    #[default]
    Later,
    /// It is due, and waits for the previous one.
    Now,
}

/// The place of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelPlace {
    /// There is no such level.
    Off,
    /// At the usual place of the level.
    Auto,
    At(PathBuf),
}

/// The treatment of the nodes' memory when a job ends normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryAfter {
    #[default]
    Removed,
    Kept,
}

/// The behaviour of a start if a disk level is out of reach that had a newer revision than every level left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskLost {
    /// The start is refused: the disk may come back.
    #[default]
    Refused,
    /// The job goes on from the revisions that are left.
    Accepted,
}

/// When the copies on other nodes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exchange {
    /// While the program goes on.
    #[default]
    Background,
    /// Before a checkpoint returns.
    Blocking,
}

/// How a running job reacts to failed ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// It does not: it is started again.
    #[default]
    Off,
    /// Others take their places and numbers: spares, or newly started processes.
    Replace,
    /// It goes on with fewer ranks.
    Shrink,
}

/// How long the pool holds its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolHeld {
    #[default]
    Always,
    /// From the request of a checkpoint until the checkpoint is durable: each chunk has memory while it is in use.
    Checkpoint,
}
