//! The choice if all ranks hold copies.

use super::{
    assignment::{Apart, Buddies},
    columns::Columns,
    map::{Map, Seat, count},
};

pub(super) fn choose(seats: &[Seat<'_>], copies: usize, before: &[Vec<usize>]) -> Buddies {
    let map = Map::of(seats);
    let mut of = vec![Vec::new(); seats.len()];
    // If the copies cannot be in separate domains, they are on separate nodes, or otherwise on separate ranks.
    for column_of in [&map.domains, &map.nodes, &map.ranks] {
        Columns::new(&map, column_of, &of, copies).fill(&mut of, before);
    }
    let are = |column_of: &[usize]| count(column_of) >= copies;
    let apart = match () {
        () if are(&map.domains) && map.all_known => Apart::Domains,
        () if are(&map.nodes) => Apart::Nodes,
        () => Apart::Ranks,
    };
    Buddies { of, apart }
}
