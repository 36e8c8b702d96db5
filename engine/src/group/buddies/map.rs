//! Where the ranks are: on which nodes, and in which failure domains.

use std::{collections::BTreeMap, iter::zip};

/// Where a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    /// A number that the ranks of this node share, and no others.
    pub node: usize,
    /// The failure domain of the node, by any name. If only some ranks of a node know it, the lowest of those counts;
    /// if none does, the node alone is the domain.
    pub domain: Option<&'a str>,
    /// Whether the rank is to hold copies of others: not on a node that is about to be left.
    pub holds: bool,
}

/// The ranks grouped by domain, by node, and each alone: the number of its group for each rank, from 0 in the order of
/// ranks.
pub(super) struct Map {
    pub(super) domains: Vec<usize>,
    pub(super) nodes: Vec<usize>,
    pub(super) ranks: Vec<usize>,
    /// Each rank's number on its node, from 0.
    pub(super) turns: Vec<usize>,
    /// Whether every node's domain is known.
    pub(super) all_known: bool,
}

impl Map {
    pub(super) fn of(seats: &[Seat<'_>]) -> Map {
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

pub(super) fn count(numbers: &[usize]) -> usize {
    numbers.iter().max().map_or(0, |last| last + 1)
}
