//! What the state of a job says about how many ranks can go on with it.

/// By what the state is divided that a job goes on from. Of what ranks tell, the highest counts: one that has not come so
/// far may know of less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Divided {
    /// This rank knows of no state.
    #[default]
    Unknown,
    /// Each rank has a part of its own, which no other number of ranks can take over.
    ByRanks,
    /// Into boxes of global arrays: any number of ranks can divide it anew.
    IntoBoxes,
}
