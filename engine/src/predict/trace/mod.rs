//! Traces: the pages that a program wrote between two moments. Words have 64 bits, low byte first. A record is its
//! type, the processor time in µs, the resident pages, a count, and that many pairs of first page and number of pages.

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

const WORD: usize = 8;

/// The kind of moment of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Moment {
    Tick = 0x544b_0000,
    /// The end of an iteration of the program's outer loop. The first record of a trace is its start.
    Iteration = 0x544b_0001,
    /// A checkpoint. A replay with checkpoints of its own takes it for a tick.
    Checkpoint = 0x544b_0002,
}

impl Moment {
    const ALL: [Moment; 3] = [Self::Tick, Self::Iteration, Self::Checkpoint];
}

/// The pages written since the record before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub moment: Moment,
    /// The processor time of the program.
    pub at_us: u64,
    /// Pages that the program has in memory; 0 if the trace does not say.
    pub resident: u64,
    /// First page, and number of pages.
    pub stretches: Vec<(u64, u64)>,
}
