//! The published ways to stage, by name.

/// Which way bytes leave the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Everything into chunks of a pool that the ranks of a node share; I/O threads write (WAG-DBI, paper
    /// 000 §IV.B).
    #[default]
    Pool,
    /// Small pieces gathered by each rank, medium ones in chunks of a buffer that the ranks of a node share,
    /// flushed periodically; large ones straight through (slides 003).
    Node,
    /// Everything below a threshold gathered in the rank's own buffer; larger ones straight through (WAG,
    /// paper 000 §IV.A).
    Rank,
    /// Each piece written as it comes, by the program's thread: the baseline.
    Direct,
}

impl Stage {
    /// The number of the stage in a profile (`Profile::STAGES`).
    pub(crate) fn code(self) -> u8 {
        match self {
            Stage::Pool => 0,
            Stage::Direct => 1,
            Stage::Node => 2,
            Stage::Rank => 3,
        }
    }
}
