//! The losses that a job would survive now, and the revision that it would have after each.

use super::{
    Saved,
    document::{Job, PlaceOfLevel},
};
use crate::space::LevelKind;
use std::{cmp::Reverse, collections::BTreeSet};

/// A possible loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All processes of the job.
    Processes,
    /// The node with this index in `Job::nodes`, with its memory and its disks.
    Node(usize),
    AllNodes,
}

/// The state that the job would come back with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survivor {
    pub saved: Saved,
    /// The nearest level that would have it.
    pub level: LevelKind,
}

/// The available revisions of a level and of each of its copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HeldRevisions {
    /// The level itself, then each copy.
    pub(super) stores: Vec<Store>,
}

/// The available revisions of a level, or of one of its copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Store {
    pub(super) complete: Vec<Saved>,
    /// Revisions of which only these shards are left.
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

/// The locations of each revision, and so the nodes that it depends on. A restore takes each shard from any place that
/// is left.
pub(super) struct Outlook {
    /// Newest first.
    revisions: Vec<(Saved, Vec<OnLevel>)>,
}

/// One revision on a level: the locations of each shard. The nearest level comes first.
struct OnLevel {
    level: LevelKind,
    shards: Vec<Vec<ShardLocation>>,
}

/// The location of a shard.
#[derive(Clone, Copy)]
enum ShardLocation {
    /// On this node, if known. An unknown node is independent of all others.
    On(Option<usize>),
    /// In a place that survives the loss of all nodes.
    BeyondNodes,
}

impl ShardLocation {
    fn outlasts(self, loss: Loss) -> bool {
        match (self, loss) {
            (ShardLocation::BeyondNodes, _) | (_, Loss::Processes) => true,
            (ShardLocation::On(node), Loss::Node(lost)) => node != Some(lost),
            (ShardLocation::On(_), Loss::AllNodes) => false,
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

/// The farthest level that is needed to find all shards of a revision, if they are left.
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
            true => ShardLocation::BeyondNodes,
            false => ShardLocation::On(nodes[holder as usize]),
        };
        there.map(|(_, holder)| lies(holder)).collect()
    };
    OnLevel { level: place.level, shards: (0..nodes.len() as u32).map(lies).collect() }
}

/// The node of each rank, if known.
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

    /// Four ranks on two nodes, with memory and the space; these are the holders of the first copy in memory.
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
        // Shards lost on their owners' nodes are on the other nodes, and only there.
        let now = left(&across, &[held(&[], &[&[12]]), held(&[6], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((6, PFS)), Some((6, PFS)), Some((6, PFS))]);
    }
    /// The status reported that nothing was left, while every start came back with everything.
    #[test]
    fn what_is_left_in_several_places_counts_together() {
        let across = job(&[[2, 3, 0, 1]]);
        let part = |shards: &[u32]| (saved(12), shards.iter().copied().collect());
        let store = |shards: &[u32]| Store { in_part: vec![part(shards)], ..Store::default() };
        // The first node has lost its memory, with the copies that it held.
        let memory = HeldRevisions { stores: vec![store(&[2, 3]), store(&[0, 1])] };
        let now = left(&across, &[memory, held(&[6], &[])]);
        assert_eq!(now, [Some((12, MEMORY)), Some((12, MEMORY)), Some((6, PFS)), Some((6, PFS))]);
        // A shard that does not exist anywhere.
        let memory = HeldRevisions { stores: vec![store(&[2, 3]), store(&[0])] };
        assert_eq!(left(&across, &[memory.clone(), held(&[], &[])])[0], None);
        // Another level has it, and completes the revision.
        let farther = HeldRevisions { stores: vec![store(&[1])] };
        assert_eq!(left(&across, &[memory, farther])[0], Some((12, PFS)));
    }
}
