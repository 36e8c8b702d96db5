//! The choice of a rank for each object, so that none has much more work than the others.
//!
//! Invariant: the result depends only on the arguments; an object is only ever given to a rank that may have objects.

use mainstay_engine::Error;
use std::{cmp::Reverse, collections::BinaryHeap, fmt, str::FromStr};

/// How objects are moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Not at all.
    None,
    /// The heaviest first, each to the rank with the least load: the most even result, and the most moves.
    Greedy,
    /// From overloaded ranks to underloaded ones, with as few moves as possible.
    #[default]
    Refine,
    /// Only objects that lost their rank in a failure.
    Orphans,
    /// Objects that exchange many bytes go to one rank, with loads as even as possible: by METIS.
    Graph,
}

impl Strategy {
    pub const ALL: [(&'static str, Strategy); 5] = [
        ("none", Strategy::None),
        ("greedy", Strategy::Greedy),
        ("refine", Strategy::Refine),
        ("orphans", Strategy::Orphans),
        ("graph", Strategy::Graph),
    ];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Strategy::ALL.iter().find(|(_, strategy)| strategy == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Strategy, Error> {
        let known = Strategy::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, strategy)| *strategy).ok_or_else(|| {
            let names: Vec<&str> = Strategy::ALL.iter().map(|(name, _)| *name).collect();
            Error::argument(
                format!("strategy {name:?}"),
                format!("there is none of this name; there are: {}", names.join(", ")),
            )
        })
    }
}

/// An object as input of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighed {
    pub load: u64,
    /// Its current rank.
    pub rank: usize,
    pub is_orphan: bool,
}

/// The tolerance of `Refine`: a rank may be a fiftieth above the average.
const SLACK: u64 = 50;

/// The new rank of each of the objects. `open`: the ranks that may have objects; if there is none, nothing moves.
/// `Graph`, which needs more than loads, works like `Greedy` here.
pub fn place(strategy: Strategy, objects: &[Weighed], open: &[bool]) -> Vec<usize> {
    let mut ranks: Vec<usize> = objects.iter().map(|object| object.rank).collect();
    if !open.contains(&true) {
        return ranks;
    }
    // With every strategy, objects leave a rank that may not have any.
    let is_loose = |object: &Weighed| {
        !open[object.rank]
            || match strategy {
                Strategy::Greedy | Strategy::Graph => true,
                Strategy::Orphans => object.is_orphan,
                Strategy::None | Strategy::Refine => false,
            }
    };
    let mut loads = vec![0; open.len()];
    for object in objects.iter().filter(|object| !is_loose(object)) {
        loads[object.rank] += weight(object);
    }
    let mut loose: Vec<usize> = (0..objects.len()).filter(|at| is_loose(&objects[*at])).collect();
    loose.sort_by_key(|at| (Reverse(objects[*at].load), *at));
    let least = open.iter().enumerate().filter(|(_, open)| **open).map(|(rank, _)| Reverse((loads[rank], rank)));
    let mut least: BinaryHeap<Reverse<(u64, usize)>> = least.collect();
    for at in loose {
        let Some(Reverse((load, rank))) = least.pop() else { break };
        ranks[at] = rank;
        least.push(Reverse((load + weight(&objects[at]), rank)));
    }
    if strategy == Strategy::Refine {
        refine(objects, &mut ranks, open, SLACK);
    }
    debug_assert!(ranks.iter().all(|rank| open[*rank]), "an object goes to a rank that may have none");
    ranks
}

/// An object that has never worked counts too, so that many of them are also spread.
pub(crate) fn weight(object: &Weighed) -> u64 {
    object.load.saturating_add(1)
}

/// Moves objects from the most to the least loaded rank, as long as that lowers the maximum, and the maximum exceeds
/// the average by more than a `slack`th.
pub(crate) fn refine(objects: &[Weighed], ranks: &mut [usize], open: &[bool], slack: u64) {
    let mut lists: Vec<Vec<(u64, usize)>> = vec![Vec::new(); open.len()];
    let mut loads = vec![0_u64; open.len()];
    for (at, object) in objects.iter().enumerate() {
        lists[ranks[at]].push((weight(object), at));
        loads[ranks[at]] += weight(object);
    }
    lists.iter_mut().for_each(|list| list.sort_unstable());
    let count = open.iter().filter(|open| **open).count() as u64;
    let average = loads.iter().sum::<u64>() / count;
    let enough = average + average / slack;
    let which = || (0..open.len()).filter(|rank| open[*rank]);
    // Each object moves a few times at most.
    for _ in 0..4 * objects.len() {
        let Some(most) = which().max_by_key(|rank| (loads[*rank], Reverse(*rank))) else { return };
        let Some(least) = which().min_by_key(|rank| (loads[*rank], *rank)) else { return };
        if loads[most] <= enough {
            return;
        }
        // The heaviest object that brings the busiest rank down to the average, or leaves the other below it: they
        // never swap roles.
        let gap = (loads[most] - loads[least]) / 2;
        let room = gap.min((loads[most] - average).max(average.saturating_sub(loads[least])));
        let fits = lists[most].partition_point(|(weight, _)| *weight <= room.max(1));
        let Some(index) = fits.checked_sub(1) else {
            // None is light enough: take the lightest, if that still helps.
            match lists[most].first() {
                Some((weight, _)) if loads[least] + weight < loads[most] => {
                    give(&mut lists, &mut loads, ranks, (most, 0), least);
                    continue;
                }
                _ => return,
            }
        };
        give(&mut lists, &mut loads, ranks, (most, index), least);
    }
}

fn give(lists: &mut [Vec<(u64, usize)>], loads: &mut [u64], ranks: &mut [usize], from: (usize, usize), to: usize) {
    let (rank, index) = from;
    let moved = lists[rank].remove(index);
    loads[rank] -= moved.0;
    loads[to] += moved.0;
    ranks[moved.1] = to;
    let at = lists[to].partition_point(|other| *other < moved);
    lists[to].insert(at, moved);
}
