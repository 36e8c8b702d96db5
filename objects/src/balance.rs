//! Which rank each object is to run on, so that none has much more to do than the others.
//!
//! What must hold: the result follows from the arguments alone; an object is only ever given to a rank that may have any.

use mainstay_engine::Error;
use std::{cmp::Reverse, collections::BinaryHeap, fmt, str::FromStr};

/// How objects are moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Not at all.
    None,
    /// The heaviest first, each to the rank that has least: the most even, and moves most objects.
    Greedy,
    /// From ranks that have too much to those that have too little, as few as it takes.
    #[default]
    Refine,
    /// Only those whose rank a failure has taken.
    Orphans,
    /// Those that send each other much to one rank, with loads as even: by METIS.
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

/// An object as a strategy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighed {
    pub load: u64,
    /// Where it is.
    pub rank: usize,
    pub is_orphan: bool,
}

/// How far above the average `Refine` leaves a rank: a fiftieth.
const SLACK: u64 = 50;

/// The rank of each of the objects from now on. `open`: the ranks that may have any; if there is none, nothing moves. `Graph`,
/// which takes more than loads to go by, is `Greedy` here.
pub fn place(strategy: Strategy, objects: &[Weighed], open: &[bool]) -> Vec<usize> {
    let mut ranks: Vec<usize> = objects.iter().map(|object| object.rank).collect();
    if !open.contains(&true) {
        return ranks;
    }
    // Whatever the strategy, what is on a rank that may have none moves.
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
    ranks
}

/// An object that has never worked counts as well, so that many of them are spread, too.
pub(crate) fn weight(object: &Weighed) -> u64 {
    object.load.saturating_add(1)
}

/// Moves objects from the rank that has most to the one that has least, for as long as that makes the busiest less busy, and
/// that has more than the average and a `slack`th of it.
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
        // The heaviest that brings the busiest down to the average or leaves the other below it: never past each other.
        let gap = (loads[most] - loads[least]) / 2;
        let room = gap.min((loads[most] - average).max(average.saturating_sub(loads[least])));
        let fits = lists[most].partition_point(|(weight, _)| *weight <= room.max(1));
        let Some(index) = fits.checked_sub(1) else {
            // None is so light: the lightest, if that still helps.
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
