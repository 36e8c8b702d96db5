//! Whether another number of ranks can take over the state of a job.

/// The division of the state from which a job goes on. The highest value of all ranks counts: a rank that is not as far
/// may know of less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Divided {
    /// This rank knows of no state.
    #[default]
    Unknown,
    /// Each rank has a part of its own, which another number of ranks cannot take over.
    ByRanks,
    /// Into parts that any number of ranks can divide anew: boxes of global arrays, or shards of a program that declares
    /// so.
    IntoBoxes,
}
