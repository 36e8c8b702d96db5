use super::{
    map::{Map, count},
    *,
};
use std::{collections::BTreeSet, iter::zip};

/// A random job: its ranks on nodes, as a launcher places them, and the domains of the nodes.
struct Job {
    seats: Vec<(usize, Option<String>)>,
    copies: usize,
}

impl Job {
    fn of(nodes: &[(usize, Option<&str>)], copies: usize) -> Job {
        let ranks = nodes
            .iter()
            .enumerate()
            .flat_map(|(node, (ranks, domain))| std::iter::repeat_n((node, domain.map(str::to_owned)), *ranks));
        Job { seats: ranks.collect(), copies }
    }

    fn random(rng: &mut fastrand::Rng) -> Job {
        let nodes = rng.usize(1..=64);
        let ranks = rng.usize(1..=16);
        let (is_even, domains) = (rng.bool(), rng.usize(0..=nodes));
        let mut seats = Vec::new();
        for node in 0..nodes {
            let domain = (domains > 0 && rng.u8(..) > 20).then(|| format!("rack {}", rng.usize(0..domains)));
            let here = if is_even { ranks } else { rng.usize(1..=ranks) };
            seats.extend(std::iter::repeat_n((1000 - node, domain), here));
        }
        if rng.bool() {
            rng.shuffle(&mut seats);
        }
        Job { seats, copies: rng.usize(2..=4) }
    }

    fn seats(&self) -> Vec<Seat<'_>> {
        self.seats.iter().map(|(node, domain)| Seat { node: *node, domain: domain.as_deref(), holds: true }).collect()
    }

    fn chosen(&self) -> Buddies {
        Buddies::choose(&self.seats(), self.copies, &[])
    }

    fn map(&self) -> Map {
        Map::of(&self.seats())
    }

    /// Whether each column can hold as many copies as it gives.
    fn can_be_even(&self, column_of: &[usize]) -> bool {
        self.largest(column_of) * self.copies <= column_of.len()
    }

    /// The size of the largest column.
    fn largest(&self, column_of: &[usize]) -> usize {
        (0..count(column_of)).map(|column| column_of.iter().filter(|of| **of == column).count()).max().unwrap_or(0)
    }

    fn held(&self, buddies: &Buddies) -> Vec<usize> {
        let mut held = vec![0; self.seats.len()];
        buddies.of.iter().flatten().for_each(|buddy| held[*buddy] += 1);
        held
    }
}

fn jobs() -> impl Iterator<Item = Job> {
    (0..150).map(|seed| Job::random(&mut fastrand::Rng::with_seed(seed)))
}

/// The number of columns with copies of a shard.
fn lies_in(column_of: &[usize], rank: usize, buddies: &Buddies) -> usize {
    let columns: BTreeSet<usize> = buddies.of(rank).iter().chain([&rank]).map(|one| column_of[*one]).collect();
    columns.len()
}

#[test]
fn copies_share_neither_node_nor_domain_where_that_is_possible() {
    for (seed, job) in jobs().enumerate() {
        let (buddies, map) = (job.chosen(), job.map());
        for rank in 0..job.seats.len() {
            for column_of in [&map.domains, &map.nodes, &map.ranks] {
                let possible = job.copies.min(count(column_of));
                assert_eq!(lies_in(column_of, rank, &buddies), possible, "job {seed}, rank {rank}");
            }
            assert_eq!(buddies.of(rank).len() + 1, job.copies.min(job.seats.len()));
        }
    }
}

#[test]
fn a_rank_holds_as_many_as_it_gives() {
    let mut seen = 0;
    for (seed, job) in jobs().enumerate() {
        let (buddies, map) = (job.chosen(), job.map());
        let apart_by = [&map.domains, &map.nodes, &map.ranks].into_iter().find(|by| count(by) >= job.copies);
        let is_in_one_step = count(&map.domains) >= job.copies || count(&map.domains) == 1;
        if apart_by.is_some_and(|by| is_in_one_step && job.can_be_even(by)) {
            seen += 1;
            assert_eq!(job.held(&buddies), vec![job.copies - 1; job.seats.len()], "job {seed}");
        }
    }
    assert!(seen > 50, "{seen}");
}

/// The other domains share, in proportion to their ranks, the copies that the large one cannot hold.
#[test]
fn around_a_node_that_is_too_large_the_others_are_even() {
    let job = Job::of(&[(2, None), (10, None), (2, None), (4, None)], 2);
    assert_eq!(job.held(&job.chosen()).iter().sum::<usize>(), 18);
    let held = job.held(&job.chosen());
    let by_node: Vec<usize> = [0..2, 2..12, 12..14, 14..18].map(|ranks| held[ranks].iter().sum()).into();
    assert_eq!(by_node, [2, 8, 3, 5]);
}

/// Copies of a node are on at least half as many other nodes as possible. A domain with exactly its part of the ranks
/// must take the copies of all others, which leaves no choice.
#[test]
fn the_copies_of_a_node_lie_on_several() {
    for (seed, job) in jobs().enumerate() {
        let (buddies, map) = (job.chosen(), job.map());
        let nodes = &map.nodes;
        let ranks_on = |node: usize| (0..nodes.len()).filter(move |rank| nodes[*rank] == node);
        let is_apart = count(&map.domains) >= job.copies;
        let by = if is_apart { &map.domains } else { nodes };
        if job.largest(by) * job.copies >= nodes.len() {
            continue;
        }
        for node in 0..count(nodes) {
            let own = map.domains[ranks_on(node).next().unwrap()];
            let may_help = |rank: &usize| map.nodes[*rank] != node && !(is_apart && map.domains[*rank] == own);
            let others: BTreeSet<usize> = (0..job.seats.len()).filter(may_help).map(|rank| map.nodes[rank]).collect();
            let given: Vec<usize> = ranks_on(node).flat_map(|rank| buddies.of(rank)).copied().collect();
            let helpers: BTreeSet<usize> =
                given.iter().map(|buddy| map.nodes[*buddy]).filter(|helper| *helper != node).collect();
            let most = given.len().min(others.len());
            let least = most.div_ceil(2);
            assert!(helpers.len() >= least, "job {seed}, node {node}: {} of {most}", helpers.len());
        }
    }
}

#[test]
fn all_nodes_alike_help_alike() {
    let nodes = [(8, None); 9];
    let (job, map) = (Job::of(&nodes, 2), Job::of(&nodes, 2).map());
    let buddies = job.chosen();
    let pairs: BTreeSet<_> = (0..72).map(|rank| (map.nodes[rank], map.nodes[buddies.of(rank)[0]])).collect();
    assert_eq!(pairs.len(), 72, "each of a node's ranks has its copy on another node");
}

#[test]
fn what_copies_share_is_told() {
    let of = |nodes: &[(usize, Option<&str>)], copies| Job::of(nodes, copies).chosen().apart();
    let (a, b) = (Some("a"), Some("b"));
    assert_eq!(of(&[(4, a), (4, b)], 2), Apart::Domains);
    assert_eq!(of(&[(4, a), (4, a)], 2), Apart::Nodes);
    assert_eq!(of(&[(4, a), (4, b), (4, b)], 3), Apart::Nodes);
    assert_eq!(of(&[(4, a), (4, None)], 2), Apart::Nodes);
    assert_eq!(of(&[(4, a)], 2), Apart::Ranks);
    assert_eq!(of(&[(4, a), (4, b)], 3), Apart::Ranks);
    assert_eq!(of(&[(1, a)], 2), Apart::Ranks);
}

#[test]
fn on_one_node_the_buddy_is_another_rank() {
    let buddies = Job::of(&[(4, None)], 2).chosen();
    let held: BTreeSet<usize> = (0..4).flat_map(|rank| buddies.of(rank).to_vec()).collect();
    assert_eq!(held.len(), 4);
    assert!((0..4).all(|rank| buddies.of(rank) != [rank]));
    assert_eq!(Job::of(&[(1, None)], 2).chosen().of(0), [0; 0]);
    assert_eq!(Buddies::choose(&[], 2, &[]).of.len(), 0);
    for copies in [0, 1] {
        assert!(Job::of(&[(2, None), (2, None)], copies).chosen().of.iter().all(Vec::is_empty));
    }
}

#[test]
fn held_by_is_the_other_way_round() {
    let buddies = Job::of(&[(3, None), (2, None), (4, None)], 3).chosen();
    for rank in 0..9 {
        assert!((0..9).all(|owner| buddies.held_by(rank).contains(&owner) == buddies.of(owner).contains(&rank)));
    }
}

/// It is enough if one rank of the node knows the domain. The names of nodes do not matter, nor does a different answer
/// of a higher rank.
#[test]
fn all_ranks_choose_the_same() {
    for job in jobs() {
        let mut seats = job.seats();
        let expected = job.chosen();
        assert_eq!(Buddies::choose(&seats, job.copies, &[]), expected);
        let map = job.map();
        for (rank, seat) in seats.iter_mut().enumerate() {
            seat.node = 7 * (2000 - seat.node);
            seat.domain = if map.turns[rank] == 0 { seat.domain } else { seat.domain.and(Some("elsewhere")) };
        }
        assert_eq!(Buddies::choose(&seats, job.copies, &[]), expected);
    }
}

#[test]
fn what_is_held_stays_when_a_node_leaves() {
    let mut all = (0, 0);
    for (seed, job) in jobs().enumerate() {
        let map = job.map();
        let buddies = job.chosen();
        // With nothing changed, the choice is the same.
        assert_eq!(
            sorted(&Buddies::choose(&job.seats(), job.copies, &buddies.of).of),
            sorted(&buddies.of),
            "job {seed}"
        );
        let gone = map.nodes[job.seats.len() / 2];
        let stay: Vec<usize> = (0..job.seats.len()).filter(|rank| map.nodes[*rank] != gone).collect();
        let now = |old: &usize| stay.binary_search(old).ok();
        let before: Vec<Vec<usize>> =
            stay.iter().map(|old| buddies.of(*old).iter().filter_map(now).collect()).collect();
        let left = Job { seats: stay.iter().map(|old| job.seats[*old].clone()).collect(), copies: job.copies };
        let after = Buddies::choose(&left.seats(), job.copies, &before);
        let had: usize = before.iter().map(Vec::len).sum();
        let kept: usize = zip(&before, &after.of).map(|(b, a)| b.iter().filter(|old| a.contains(old)).count()).sum();
        if left.can_be_even(&left.map().domains) {
            assert!(kept * 4 >= had * 3, "job {seed}: {kept} of {had} stay");
            all = (all.0 + kept, all.1 + had);
        }
    }
    assert!(all.0 * 100 >= all.1 * 97, "{all:?}");
}

fn sorted(of: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut of = of.to_vec();
    of.iter_mut().for_each(|buddies| buddies.sort_unstable());
    of
}

#[test]
fn ranks_of_a_node_that_is_left_hold_nothing_and_the_others_keep_what_they_held() {
    // The slowest of these tests: a normal run takes a third of the jobs, the campaign all.
    let step = if std::env::var_os("CAMPAIGN").is_some() { 1 } else { 3 };
    let (mut tried, mut seen, mut all) = (0, 0, (0, 0));
    for (seed, job) in jobs().enumerate().step_by(step) {
        tried += 1;
        let (map, before) = (job.map(), job.chosen());
        let left = map.nodes[job.seats.len() / 2];
        let mut seats = job.seats();
        seats.iter_mut().zip(&map.nodes).for_each(|(seat, node)| seat.holds = *node != left);
        let after = Buddies::choose(&seats, job.copies, &before.of);
        let nodes = count(&map.nodes);
        if nodes <= job.copies {
            let as_before = Buddies::choose(&job.seats(), job.copies, &before.of);
            assert_eq!(sorted(&after.of), sorted(&as_before.of), "job {seed}: there are too few other nodes");
            continue;
        }
        seen += 1;
        for rank in 0..seats.len() {
            assert!(after.of(rank).iter().all(|buddy| map.nodes[*buddy] != left), "job {seed}, rank {rank}");
            assert_eq!(lies_in(&map.nodes, rank, &after), job.copies, "job {seed}, rank {rank}");
            assert_eq!(after.of(rank).len() + 1, job.copies, "job {seed}, rank {rank}");
            let stays = |buddy: &&usize| map.nodes[**buddy] != left;
            let had = before.of(rank).iter().filter(stays);
            all.0 += had.clone().filter(|old| after.of(rank).contains(old)).count();
            all.1 += had.count();
        }
        // The copies of the node are spread out.
        let most = job.held(&after).into_iter().max().unwrap_or(0);
        let others = map.nodes.iter().filter(|node| **node != left).count();
        let each = (job.copies - 1) * seats.len() / others;
        if job.can_be_even(&map.nodes) && count(&map.domains) == nodes {
            assert!(most <= 2 * each + job.copies, "job {seed}: {most} of {each}");
        }
        seats.iter_mut().for_each(|seat| seat.holds = true);
        assert_eq!(sorted(&Buddies::choose(&seats, job.copies, &before.of).of), sorted(&before.of), "job {seed}");
    }
    assert!(seen * 3 > tried, "{seen} of {tried}");
    assert!(all.0 * 100 >= all.1 * 80, "{all:?}");
}
