//! The nodes of a job, from the profiles of its shards: the ranks of each node, and their times.

use mainstay_engine::space::format::{Histogram, PhaseRecord, Profile};
use std::collections::BTreeMap;

/// One rank's profile of a checkpoint.
#[derive(Debug, Clone)]
pub struct Part {
    pub shard: u32,
    pub phases: PhaseRecord,
    pub profile: Profile,
}

/// One node, with at least one part.
#[derive(Debug)]
pub struct Node {
    pub node: u32,
    pub parts: Vec<Part>,
}

/// The nodes, in order of their lowest ranks.
pub fn nodes(parts: impl IntoIterator<Item = Part>) -> Vec<Node> {
    let mut nodes = BTreeMap::<u32, Vec<Part>>::new();
    for part in parts {
        nodes.entry(part.profile.node).or_default().push(part);
    }
    nodes.into_iter().map(|(node, parts)| Node { node, parts }).collect()
}

impl Node {
    pub fn ranks(&self) -> Vec<u32> {
        self.parts.iter().map(|part| part.shard).collect()
    }

    /// The rank with the longest wait: the node goes on when it does.
    pub fn slowest(&self) -> &Part {
        let slowest =
            self.parts.iter().reduce(|a, b| if b.phases.perceived_ns > a.phases.perceived_ns { b } else { a });
        slowest.expect("a node has a part")
    }

    /// The phases of the slowest rank, with the durable time and the bytes of the node.
    pub fn phases(&self) -> PhaseRecord {
        let each = || self.parts.iter().map(|part| &part.phases);
        let all_known = each().all(|phases| phases.durable_ns > 0);
        let sum = |of: fn(&PhaseRecord) -> u64| each().map(of).fold(0, u64::saturating_add);
        PhaseRecord {
            durable_ns: each().map(|phases| phases.durable_ns).max().filter(|_| all_known).unwrap_or(0),
            written_bytes: sum(|phases| phases.written_bytes),
            chunks: sum(|phases| phases.chunks),
            writes: sum(|phases| phases.writes),
            ..self.slowest().phases
        }
    }

    /// The ranks of a node share a pool.
    pub fn pool_bytes(&self) -> u64 {
        self.slowest().profile.pool_bytes
    }

    pub fn pieces(&self) -> Histogram {
        self.sum(|profile| &profile.pieces)
    }

    pub fn writes(&self) -> Histogram {
        self.sum(|profile| &profile.writes)
    }

    fn sum(&self, of: fn(&Profile) -> &Histogram) -> Histogram {
        let mut sum = Histogram::default();
        self.parts.iter().for_each(|part| sum.add(of(&part.profile)));
        sum
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    /// Rank `shard` of nodes of two ranks; its program waited (shard + 1) · 10 ms.
    pub fn part(shard: u32) -> Part {
        let time = u64::from(shard + 1) * MS;
        let phases = PhaseRecord {
            t1_unix_ns: 1_800_000_000_000_000_000 + u64::from(shard),
            communication_ns: time,
            buffer_wait_ns: 2 * time,
            copy_ns: 3 * time,
            perceived_ns: 10 * time,
            step: 0,
            durable_ns: 30 * MS,
            written_bytes: 2 << 20,
            chunks: 2,
            writes: 3,
            resume_ns: time,
        };
        let (node, pool_bytes) = (shard / 2 * 2, 64 << 20);
        let mut profile = Profile { node, pool_bytes, chunk_bytes: 1 << 20, ..Profile::default() };
        (0..3).for_each(|_| profile.pieces.note(32, Duration::from_millis(1)));
        profile.pieces.note((2 << 20) - 96, Duration::from_millis(1));
        (0..2).for_each(|_| profile.writes.note(1 << 20, Duration::from_millis(10)));
        Part { shard, phases, profile }
    }

    #[test]
    fn ranks_are_grouped_by_node() {
        let nodes = nodes([1, 4, 0, 3, 2].map(part));
        assert_eq!(
            nodes.iter().map(|n| (n.node, n.ranks())).collect::<Vec<_>>(),
            [(0, vec![1, 0]), (2, vec![3, 2]), (4, vec![4])]
        );
    }

    #[test]
    fn a_node_takes_as_long_as_its_slowest_rank() {
        let mut all = [part(0), part(1)];
        all[0].phases.durable_ns = 50 * MS;
        let node = &nodes(all.clone())[0];
        let phases = node.phases();
        assert_eq!((phases.perceived_ns, phases.copy_ns, phases.other_ns()), (20 * MS, 6 * MS, 6 * MS));
        assert_eq!((phases.durable_ns, phases.written_bytes, phases.writes), (50 * MS, 4 << 20, 6));
        assert_eq!((node.pieces().total().count, node.writes().total().bytes), (8, 4 << 20));
        all[0].phases.durable_ns = 0;
        assert_eq!(nodes(all)[0].phases().durable_ns, 0, "it is not known of one rank");
    }
}
