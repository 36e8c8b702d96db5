//! Which ranks hold the copies of which shards: a function of where the ranks are, so that all ranks come to the same
//! without a message.
//!
//! What must hold:
//! - no two copies of a shard lie on one node, nor in one failure domain (a rack, a switch), while there are as many
//!   nodes or domains as copies; with fewer, each node or domain has a copy;
//! - a rank holds as many copies as it gives. Only if a domain has more than its part of the ranks do the other ranks
//!   hold more, evenly, since the domain's copies cannot all go elsewhere;
//! - the copies of a node's ranks lie on several other nodes: when the node fails, several help at once;
//! - a rank that held a copy before goes on holding it, unless one of the rules above is broken by that.

mod columns;
#[cfg(test)]
mod tests;

use columns::Columns;
use std::{collections::BTreeMap, iter::zip};

/// Where a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    /// A number that the ranks of this node share, and no others.
    pub node: usize,
    /// The failure domain of the node, by any name. If only some ranks of a node know it, the lowest of those counts;
    /// if none does, the node alone is the domain.
    pub domain: Option<&'a str>,
}

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

/// The ranks grouped by domain, by node, and each alone: the number of its group for each rank, from 0 in the order of
/// ranks.
struct Map {
    domains: Vec<usize>,
    nodes: Vec<usize>,
    ranks: Vec<usize>,
    /// Each rank's number on its node, from 0.
    turns: Vec<usize>,
    /// Whether every node's domain is known.
    all_known: bool,
}

impl Map {
    fn of(seats: &[Seat<'_>]) -> Map {
        let nodes = numbered(seats.iter().map(|seat| seat.node));
        let mut known = vec![None; count(&nodes)];
        let mut ranks_on = vec![0; known.len()];
        let mut turns = Vec::with_capacity(seats.len());
        for (seat, &node) in zip(seats, &nodes) {
            known[node] = known[node].or(seat.domain);
            turns.push(ranks_on[node]);
            ranks_on[node] += 1;
        }
        let domain = |node: usize| known[node].ok_or(node);
        Map {
            domains: numbered(nodes.iter().map(|node| domain(*node))),
            ranks: (0..seats.len()).collect(),
            turns,
            all_known: known.iter().all(Option::is_some),
            nodes,
        }
    }
}

/// Numbers keys: equal keys have equal numbers, from 0 in the order in which they come.
fn numbered<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let number = |key| {
        let next = numbers.len();
        *numbers.entry(key).or_insert(next)
    };
    keys.map(number).collect()
}

fn count(numbers: &[usize]) -> usize {
    numbers.iter().max().map_or(0, |last| last + 1)
}
