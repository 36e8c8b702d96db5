//! Which ranks hold the copies of which shards: a function of where the ranks are, so that all ranks come to the same
//! without a message.
//!
//! What must hold:
//! - no two copies of a shard lie on one node, nor in one failure domain (a rack, a switch), while there are as many
//!   nodes or domains as copies; with fewer, each node or domain has a copy;
//! - a rank holds as many copies as it gives. Only if a domain has more than its part of the ranks do the other ranks
//!   hold more, evenly, since the domain's copies cannot all go elsewhere;
//! - the copies of a node's ranks lie on several other nodes: when the node fails, several help at once;
//! - a rank that held a copy before goes on holding it, unless one of the rules above is broken by that;
//! - ranks that are to hold no copies hold none, while the others are on as many nodes as a shard has copies; else they
//!   hold on, as copies on a node that is about to be left are better than none.

mod columns;
mod leaving;
mod map;
#[cfg(test)]
mod tests;

pub use map::Seat;

use columns::Columns;
use map::{Map, count};

/// What no two copies of a shard share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Apart {
    /// The copies are on different ranks, if there are as many. Some share a node, and so its fate: the user should
    /// know.
    Ranks,
    /// The copies are on different nodes. Some share a domain, or the domain of a node is not known.
    Nodes,
    Domains,
}

/// For each rank, the other ranks that hold copies of its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buddies {
    of: Vec<Vec<usize>>,
    apart: Apart,
}

impl Buddies {
    /// `seats`: one for each rank. `copies`: how many of each shard, the one on its own rank included. `before`: for
    /// each rank, those that have held its copies until now, in today's numbers; empty at first. The same on all ranks
    /// if these arguments are.
    pub fn choose(seats: &[Seat<'_>], copies: usize, before: &[Vec<usize>]) -> Buddies {
        leaving::choose(seats, copies, before).unwrap_or_else(|| Buddies::among(seats, copies, before))
    }

    /// The same where all ranks hold copies.
    fn among(seats: &[Seat<'_>], copies: usize, before: &[Vec<usize>]) -> Buddies {
        let map = Map::of(seats);
        let mut of = vec![Vec::new(); seats.len()];
        // Copies that cannot be in domains of their own are on nodes of their own, or else on ranks of their own.
        for column_of in [&map.domains, &map.nodes, &map.ranks] {
            Columns::new(&map, column_of, &of, copies).fill(&mut of, before);
        }
        let are = |column_of: &[usize]| count(column_of) >= copies;
        let apart = match () {
            () if are(&map.domains) && map.all_known => Apart::Domains,
            () if are(&map.nodes) => Apart::Nodes,
            () => Apart::Ranks,
        };
        Buddies { of, apart }
    }

    /// The other ranks that hold copies of the shard of `rank`: one less than the copies that were asked for, or all
    /// other ranks if there are fewer.
    pub fn of(&self, rank: usize) -> &[usize] {
        &self.of[rank]
    }

    /// The ranks of which `rank` holds copies, ascending.
    pub fn held_by(&self, rank: usize) -> Vec<usize> {
        (0..self.of.len()).filter(|owner| self.of[*owner].contains(&rank)).collect()
    }

    pub fn apart(&self) -> Apart {
        self.apart
    }
}
