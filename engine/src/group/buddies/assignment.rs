//! The holders of each rank's copies, and the separation between copies of a shard.

use super::map::{Map, Seat};
use std::collections::BTreeSet;

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

    /// Whether all copies of each shard are on different ranks, and on different nodes or domains if `apart` says so.
    pub(super) fn are_apart(&self, seats: &[Seat<'_>]) -> bool {
        let map = Map::of(seats);
        let groups = match self.apart {
            Apart::Ranks => &map.ranks,
            Apart::Nodes => &map.nodes,
            Apart::Domains => &map.domains,
        };
        self.of.iter().enumerate().all(|(rank, buddies)| {
            let copies: BTreeSet<usize> = buddies.iter().chain([&rank]).map(|one| groups[*one]).collect();
            copies.len() == buddies.len() + 1
        })
    }
}
