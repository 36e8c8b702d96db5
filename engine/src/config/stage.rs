//! The published ways to stage, by name.

/// The way of bytes out of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Everything goes into chunks of a pool that the ranks of a node share; I/O threads write (WAG-DBI, paper 000
    /// §IV.B).
    #[default]
    Pool,
    /// Each rank gathers small pieces. Medium ones go into chunks of a buffer that the ranks of a node share, flushed
    /// periodically; large ones bypass it (slides 003).
    Node,
    /// Pieces below a threshold are gathered in the rank's own buffer; larger ones bypass it (WAG, paper 000 §IV.A).
    Rank,
    /// The program's thread writes each piece as it comes: the baseline.
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
