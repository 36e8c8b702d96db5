//! The place of each rank: its node and its failure domain.

use std::{collections::BTreeMap, iter::zip};

/// The place of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    /// A number shared by the ranks of this node only.
    pub node: usize,
    /// The failure domain of the node, by any name. If only some ranks of a node know it, the lowest of those counts.
    /// If none does, the node alone is the domain.
    pub domain: Option<&'a str>,
    /// Whether the rank holds copies of others: false on a node that is about to be left.
    pub holds: bool,
}

/// The ranks grouped by domain, by node, and each alone: for each rank, the number of its group, from 0 in the order of
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

/// Numbers keys from 0 in the order of first appearance; equal keys get equal numbers.
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
