//! The holders of each rank's copies, and the separation between copies of a shard.

/// The separation between any two copies of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Apart {
    /// The copies are on different ranks, if there are enough. Some share a node and fail with it: the user should
    /// know.
    Ranks,
    /// The copies are on different nodes. Some share a domain, or the domain of a node is not known.
    Nodes,
    Domains,
}

/// For each rank, the other ranks that hold copies of its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buddies {
    pub(super) of: Vec<Vec<usize>>,
    pub(super) apart: Apart,
}

impl Buddies {
    /// The other ranks that hold copies of the shard of `rank`: one less than the requested number of copies, or all
    /// other ranks if there are fewer.
    pub fn of(&self, rank: usize) -> &[usize] {
        &self.of[rank]
    }

    /// The ranks with copies on `rank`, ascending.
    pub fn held_by(&self, rank: usize) -> Vec<usize> {
        (0..self.of.len()).filter(|owner| self.of[*owner].contains(&rank)).collect()
    }

    pub fn apart(&self) -> Apart {
        self.apart
    }
}
