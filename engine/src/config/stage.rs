//! The published ways to stage, by name.

use mainstay_format::Profile;

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

// A stage keeps its number for ever: profiles in old spaces hold it.
const _: () = {
    assert!(matches!(Profile::STAGES[0].as_bytes(), b"pool") && matches!(Profile::STAGES[1].as_bytes(), b"direct"));
    assert!(matches!(Profile::STAGES[2].as_bytes(), b"node") && matches!(Profile::STAGES[3].as_bytes(), b"rank"));
};
