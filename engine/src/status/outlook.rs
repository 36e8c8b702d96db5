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

/// The complete revisions of a level and of each of its copies, as far as they are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HeldRevisions {
    pub(super) own: Vec<Saved>,
    pub(super) copies: Vec<Vec<Saved>>,
}

/// What is there of all levels, and which nodes it would go with.
pub(super) struct Outlook {
    /// The nearest level first; of each the newest revision first.
    levels: Vec<(LevelKind, Vec<(Saved, Bound)>)>,
}

/// Which nodes a revision would go with.
enum Bound {
    /// With none: it outlives all.
    Free,
    /// With each of these alone, and with all together.
    To(BTreeSet<usize>),
    /// With each node, and even now: not every shard is there.
    Gone,
}

impl Outlook {
    /// `held`: level by level, as in `job.places`.
    pub(super) fn of(job: &Job, held: &[HeldRevisions]) -> Outlook {
        let nodes = node_of_ranks(job);
        let of_level = |(place, held): (&PlaceOfLevel, &HeldRevisions)| {
            let mut all: Vec<Saved> = held.own.iter().chain(held.copies.iter().flatten()).copied().collect();
            all.sort_by_key(|saved| Reverse(saved.key()));
            all.dedup_by_key(|saved| saved.key());
            let bound = |saved: Saved| (saved, bound(&nodes, place, held, &saved));
            (place.level, all.into_iter().map(bound).collect())
        };
        Outlook { levels: job.places.iter().zip(held).map(of_level).collect() }
    }

    /// The newest revision that would be left; `None`: nothing.
    pub(super) fn after(&self, loss: Loss) -> Option<Survivor> {
        let stays = |(_, bound): &&(Saved, Bound)| match (bound, loss) {
            (Bound::Gone, _) => false,
            (Bound::Free, _) | (_, Loss::Processes) => true,
            (Bound::To(nodes), Loss::Node(node)) => !nodes.contains(&node),
            (Bound::To(_), Loss::AllNodes) => false,
        };
        let left = self.levels.iter().filter_map(|(level, all)| {
            let (saved, _) = all.iter().find(stays)?;
            Some(Survivor { saved: *saved, level: *level })
        });
        // Of several levels that have it the first, which is the nearest.
        left.reduce(|best, other| if other.saved.key() > best.saved.key() { other } else { best })
    }
}

fn bound(nodes: &[Option<usize>], place: &PlaceOfLevel, held: &HeldRevisions, saved: &Saved) -> Bound {
    let has = |list: &[Saved]| list.iter().any(|other| other.key() == saved.key());
    if place.outlives_nodes {
        return Bound::Free;
    }
    let own = has(&held.own);
    let copies: Vec<&Vec<u32>> =
        place.holders.iter().zip(&held.copies).filter(|(_, copy)| has(copy)).map(|(holders, _)| holders).collect();
    let mut fatal = BTreeSet::new();
    for rank in 0..nodes.len() {
        let mut all = own.then_some(rank).into_iter().chain(copies.iter().map(|holders| holders[rank] as usize));
        // A rank whose node is not known shares none with others.
        let Some(first) = all.next().map(|rank| nodes[rank]) else { return Bound::Gone };
        if let Some(node) = first.filter(|_| all.all(|rank| nodes[rank] == first)) {
            fatal.insert(node);
        }
    }
    Bound::To(fatal)
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
        HeldRevisions { own: all(own), copies: copies.iter().map(|copy| all(copy)).collect() }
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
}
