//! The published staging policies, as presets of one stage with three parameters.

use crate::{
    config::{Config, Stage},
    error::Result,
};

/// The owner of the memory in which pieces are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The rank's own buffer, which its thread writes when it is full.
    Rank,
    /// The node's pool, which I/O threads write.
    Node,
    /// The portion, which is memory: pieces are gathered at their final place.
    Portion,
}

/// The thread that flushes at the end: syncs and publishes the shard. Until then the owner of the buffer decides which
/// thread writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publisher {
    /// The program's thread, which goes on only then.
    Caller,
    /// An I/O thread.
    Threads,
}

/// The parameters of the stage, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) owner: Owner,
    /// Pieces of this size and more bypass the buffer; 0: all pieces do.
    pub(crate) straight_from: u64,
    pub(crate) publisher: Publisher,
    /// Each rank gathers pieces below this size first, for any owner of the buffer.
    pub(crate) small_below: u64,
    /// Size of a rank's own buffer.
    pub(crate) buffer_bytes: u64,
}

impl Policy {
    /// The preset of `config.stage`; `threshold` is called if the preset has one.
    pub(crate) fn new(config: &Config, threshold: impl FnOnce() -> Result<u64>) -> Result<Policy> {
        let (owner, straight_from, publisher) = match config.stage {
            Stage::Pool => (Owner::Node, u64::MAX, Publisher::Threads),
            Stage::Node => (Owner::Node, threshold()?, Publisher::Threads),
            Stage::Rank => (Owner::Rank, threshold()?, Publisher::Threads),
            Stage::Direct => (Owner::Rank, 0, Publisher::Caller),
        };
        let small_below = if config.stage == Stage::Node { config.small_bytes } else { 0 };
        Ok(Policy { owner, straight_from, publisher, small_below, buffer_bytes: config.buffer_bytes })
    }

    /// The same policy for a portion that is memory: what would go through the pool is gathered there.
    pub(crate) fn in_portion(self) -> Policy {
        Policy { owner: Owner::Portion, ..self }
    }

    /// Whether pieces are gathered in the portion.
    pub(crate) fn is_in_portion(&self) -> bool {
        self.owner == Owner::Portion
    }

    /// The size from which pieces bypass the buffer; `None` if all pieces do, or none.
    pub(crate) fn threshold(&self) -> Option<u64> {
        Some(self.straight_from).filter(|bytes| (1..u64::MAX).contains(bytes))
    }

    pub(crate) fn has_pool(stage: Stage) -> bool {
        matches!(stage, Stage::Node | Stage::Pool)
    }
}
