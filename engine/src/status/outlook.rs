//! Which losses a job would survive now, and with which revision.

use super::{
    Saved,
    document::{Job, PlaceOfLevel},
};
use crate::space::LevelKind;
use std::{cmp::Reverse, collections::BTreeSet};

/// What may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The processes of the job, all together.
    Processes,
    /// The node of this index in `Job::nodes`, with its memory and its disks.
    Node(usize),
    AllNodes,
}

/// What the job would come back with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survivor {
    pub saved: Saved,
    /// From the nearest level that would have it.
    pub level: LevelKind,
}

/// The revisions of a level and of each of its copies, as far as they are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HeldRevisions {
    /// Of the level itself, then of each copy.
    pub(super) stores: Vec<Store>,
}

/// What is there of a level, or of one of its copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Store {
    pub(super) complete: Vec<Saved>,
    /// Revisions of which these shards are left.
    pub(super) in_part: Vec<(Saved, BTreeSet<u32>)>,
}

impl Store {
    fn revisions(&self) -> impl Iterator<Item = Saved> {
        self.complete.iter().copied().chain(self.in_part.iter().map(|(saved, _)| *saved))
    }

    fn has(&self, saved: &Saved, shard: u32) -> bool {
        let is_left = |(other, shards): &(Saved, BTreeSet<u32>)| other.key() == saved.key() && shards.contains(&shard);
        self.complete.iter().any(|other| other.key() == saved.key()) || self.in_part.iter().any(is_left)
    }
}

/// Where each revision lies, and so which nodes it would go with. A restore takes each shard from wherever it is left.
pub(super) struct Outlook {
    /// The newest first.
    revisions: Vec<(Saved, Vec<OnLevel>)>,
}

/// What a level has of one revision: of each shard where it lies. The nearest level comes first.
struct OnLevel {
    level: LevelKind,
    shards: Vec<Vec<Lies>>,
}

/// Where a shard lies.
#[derive(Clone, Copy)]
enum Lies {
    /// On this node, if it is known. One that is not known shares no fate with others.
    On(Option<usize>),
    /// Where it outlives all nodes.
    BeyondNodes,
}

impl Lies {
    fn outlasts(self, loss: Loss) -> bool {
        match (self, loss) {
            (Lies::BeyondNodes, _) | (_, Loss::Processes) => true,
            (Lies::On(node), Loss::Node(lost)) => node != Some(lost),
            (Lies::On(_), Loss::AllNodes) => false,
        }
    }
}

impl Outlook {
    /// `held`: level by level, as in `job.places`.
    pub(super) fn of(job: &Job, held: &[HeldRevisions]) -> Outlook {
        let nodes = node_of_ranks(job);
        let stores = held.iter().flat_map(|held| &held.stores);
        let mut all: Vec<Saved> = stores.flat_map(Store::revisions).collect();
        all.sort_by_key(|saved| Reverse(saved.key()));
        all.dedup_by_key(|saved| saved.key());
        let on_levels = |saved: Saved| {
            let levels =
                job.places.iter().zip(held).map(|(place, held)| on_level(&nodes, place, held, &saved)).collect();
            (saved, levels)
        };
        Outlook { revisions: all.into_iter().map(on_levels).collect() }
    }

    /// The newest revision that would be left; `None`: nothing.
    pub(super) fn after(&self, loss: Loss) -> Option<Survivor> {
        self.revisions.iter().find_map(|(saved, levels)| Some(Survivor { saved: *saved, level: left(levels, loss)? }))
    }
}

/// The level down to which one has to look to find all shards of a revision, if they are left.
fn left(levels: &[OnLevel], loss: Loss) -> Option<LevelKind> {
    let mut found = vec![false; levels.first()?.shards.len()];
    let reached = levels.iter().find(|on| {
        for (found, lies) in found.iter_mut().zip(&on.shards) {
            *found |= lies.iter().any(|lies| lies.outlasts(loss));
        }
        found.iter().all(|found| *found)
    });
    reached.map(|on| on.level)
}

fn on_level(nodes: &[Option<usize>], place: &PlaceOfLevel, held: &HeldRevisions, saved: &Saved) -> OnLevel {
    let lies = |shard: u32| {
        let own = [shard].into_iter();
        let holders = own.chain(place.holders.iter().map(|holders| holders[shard as usize]));
        let there = held.stores.iter().zip(holders).filter(|(store, _)| store.has(saved, shard));
        let lies = |holder: u32| match place.outlives_nodes {
            true => Lies::BeyondNodes,
            false => Lies::On(nodes[holder as usize]),
        };
        there.map(|(_, holder)| lies(holder)).collect()
    };
    OnLevel { level: place.level, shards: (0..nodes.len() as u32).map(lies).collect() }
}

/// The node of each rank, if it is known.
fn node_of_ranks(job: &Job) -> Vec<Option<usize>> {
    let mut nodes = vec![None; job.ranks as usize];
    for (index, node) in job.nodes.iter().enumerate() {
        for (from, below) in &node.ranks {
            nodes[*from as usize..*below as usize].fill(Some(index));
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Node;

    fn saved(revision: u64) -> Saved {
        Saved { lineage: 1, revision, saved_unix_ns: None }
    }

    fn all(revisions: &[u64]) -> Vec<Saved> {
        revisions.iter().map(|revision| saved(*revision)).collect()
    }

    fn held(own: &[u64], copies: &[&[u64]]) -> HeldRevisions {
        let stores = [own].into_iter().chain(copies.iter().copied());
        HeldRevisions { stores: stores.map(|complete| Store { complete: all(complete), ..Store::default() }).collect() }
    }

    /// Four ranks on two nodes, with memory and the space; of memory the first copy lies with these holders.
    fn job(holders: &[[u32; 4]]) -> Job {
        let place = |level, holders: &[[u32; 4]]| PlaceOfLevel {
            level,
            directories: Vec::new(),
            every: 1,
            keep: 1,
            outlives_nodes: level == LevelKind::Pfs,
            holders: holders.iter().map(|copy| copy.to_vec()).collect(),
        };
        let node = |ranks| Node { ranks: vec![ranks], ..Node::default() };
        Job {
            ranks: 4,
            nodes: vec![node((0, 2)), node((2, 4))],
            places: vec![place(LevelKind::Memory, holders), place(LevelKind::Pfs, &[])],
            ..Job::default()
        }
    }

    fn left(job: &Job, held: &[HeldRevisions]) -> Vec<Option<(u64, LevelKind)>> {
        let losses = [Loss::Processes, Loss::Node(0), Loss::Node(1), Loss::AllNodes];
        let outlook = Outlook::of(job, held);
        let left = losses.map(|loss| outlook.after(loss));
        left.iter().map(|left| left.map(|left| (left.saved.revision, left.level))).collect()
    }

    const MEMORY: LevelKind = LevelKind::Memory;
    const PFS: LevelKind = LevelKind::Pfs;

    #[test]
    fn what_lies_in_memory_alone_goes_with_any_node() {
        let job = job(&[]);
        let now = left(&job, &[held(&[12, 11], &[]), held(&[10], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((10, PFS)), Some((10, PFS)), Some((10, PFS))]);
        assert_eq!(left(&job, &[held(&[12], &[]), held(&[], &[])]), [Some((12, MEMORY)), None, None, None]);
        assert_eq!(left(&job, &[held(&[10], &[]), held(&[10], &[])])[..2], [Some((10, MEMORY)), Some((10, PFS))]);
    }

    #[test]
    fn a_copy_on_another_node_survives_where_it_is_complete() {
        let across = job(&[[2, 3, 0, 1]]);
        let now = left(&across, &[held(&[12, 11], &[&[11]]), held(&[6], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((11, MEMORY)), Some((11, MEMORY)), Some((6, PFS))]);
        // Both copies of ranks 0 and 1 are on the first node, and all of the others' on the second.
        let beside = job(&[[1, 0, 3, 2]]);
        let now = left(&beside, &[held(&[12], &[&[12]]), held(&[6], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((6, PFS)), Some((6, PFS)), Some((6, PFS))]);
        // What was lost on the own nodes is on the others', and on these alone.
        let now = left(&across, &[held(&[], &[&[12]]), held(&[6], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((6, PFS)), Some((6, PFS)), Some((6, PFS))]);
    }
    /// It was told that nothing was left, while every start came back with all of it.
    #[test]
    fn what_is_left_in_several_places_counts_together() {
        let across = job(&[[2, 3, 0, 1]]);
        let part = |shards: &[u32]| (saved(12), shards.iter().copied().collect());
        let store = |shards: &[u32]| Store { in_part: vec![part(shards)], ..Store::default() };
        // The first node has lost its memory, the copies that it held as well.
        let memory = HeldRevisions { stores: vec![store(&[2, 3]), store(&[0, 1])] };
        let now = left(&across, &[memory, held(&[6], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((12, MEMORY)), Some((6, PFS)), Some((6, PFS))]);
        // A shard that is nowhere.
        let memory = HeldRevisions { stores: vec![store(&[2, 3]), store(&[0])] };
        assert_eq!(left(&across, &[memory.clone(), held(&[], &[])])[0], None);
        // It is on another level, with which it is whole.
        let farther = HeldRevisions { stores: vec![store(&[1])] };
        assert_eq!(left(&across, &[memory, farther])[0], Some((12, PFS)));
    }
}
