//! The choice if some ranks hold no copies. The others hold each other's copies as usual, and also those of these
//! ranks.

use super::{
    assignment::{Apart, Buddies},
    everywhere,
    map::{Map, Seat},
};
use std::collections::BTreeSet;

/// `None`: all ranks hold copies, or the others are on fewer nodes than a shard has copies.
pub(super) fn choose(seats: &[Seat<'_>], copies: usize, before: &[Vec<usize>]) -> Option<Buddies> {
    let (hold, leave): (Vec<usize>, Vec<usize>) = (0..seats.len()).partition(|rank| seats[*rank].holds);
    let nodes: BTreeSet<usize> = hold.iter().map(|rank| seats[*rank].node).collect();
    if leave.is_empty() || nodes.len() < copies {
        return None;
    }
    let now = |old: &usize| hold.binary_search(old).ok();
    let kept: Vec<Seat<'_>> = hold.iter().map(|rank| seats[*rank]).collect();
    let of_kept = |rank: &usize| before.get(*rank).map_or_else(Vec::new, |had| had.iter().filter_map(now).collect());
    let among = everywhere::choose(&kept, copies, &hold.iter().map(of_kept).collect::<Vec<_>>());
    let mut of = vec![Vec::new(); seats.len()];
    for (rank, buddies) in hold.iter().zip(&among.of) {
        of[*rank] = buddies.iter().map(|buddy| hold[*buddy]).collect();
    }
    let map = Map::of(seats);
    let mut apart = among.apart;
    let mut held = vec![0; seats.len()];
    of.iter().flatten().for_each(|buddy| held[*buddy] += 1);
    for rank in leave {
        let had = before.get(rank).map_or(&[][..], Vec::as_slice);
        for _ in 1..copies {
            let used: Vec<usize> = of[rank].iter().copied().chain([rank]).collect();
            let shares = |column_of: &[usize], one: usize| used.iter().any(|other| column_of[*other] == column_of[one]);
            let next = hold.iter().copied().min_by_key(|one| {
                let beyond = (one + seats.len() - rank) % seats.len();
                (shares(&map.nodes, *one), shares(&map.domains, *one), !had.contains(one), held[*one], beyond)
            })?;
            if shares(&map.domains, next) {
                apart = apart.min(Apart::Nodes);
            }
            held[next] += 1;
            of[rank].push(next);
        }
    }
    Some(Buddies { of, apart })
}
