//! The choice of the rank that restores each object (paper 002, section 4.2): each object is restored once, from the
//! data that the rank has at hand.
//!
//! Invariant: the choice depends only on data that all ranks have exchanged, so each makes the same one.

/// Whether `high` counts as higher than `other` among so many ranks. The numbers wrap around, so rank 0 is higher than
/// the last; of two that are half of all ranks apart, the larger number is.
pub fn outranks(high: usize, other: usize, ranks: usize) -> bool {
    let ahead = (high + ranks - other) % ranks;
    match (2 * ahead).cmp(&ranks) {
        std::cmp::Ordering::Less => ahead > 0,
        std::cmp::Ordering::Equal => high > other,
        std::cmp::Ordering::Greater => false,
    }
}

/// The rank that restores the objects of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restores {
    One(usize),
    /// Every rank can read it, and they share its objects.
    All,
    Nobody,
}

/// The rank that restores each of the shards, given the ranks that can read it; ranks by their current numbers,
/// ascending.
///
/// If there are as many ranks as saved, and each can read its own shard, each restores its own: objects stay on their
/// ranks. Otherwise the highest of a shard's holders restores it. If all ranks hold all shards, as on a shared file
/// system, none is nearer than another, and they share.
pub fn choose(holders: &[Vec<usize>], ranks: usize) -> Vec<Restores> {
    let by_rank = holders.len() == ranks && holders.iter().enumerate().all(|(shard, held)| held.contains(&shard));
    let by_all = holders.iter().all(|held| held.len() == ranks);
    let of_shard = |(shard, held): (usize, &Vec<usize>)| match held.as_slice() {
        [] => Restores::Nobody,
        _ if by_rank => Restores::One(shard),
        _ if by_all => Restores::All,
        [first, others @ ..] => Restores::One(
            others.iter().fold(*first, |best, other| if outranks(*other, best, ranks) { *other } else { best }),
        ),
    };
    holders.iter().enumerate().map(of_shard).collect()
}

/// The rank, of `ranks`, for each of the objects with these loads, which all ranks can read: a contiguous, equal share
/// for each.
pub fn share(loads: &[u64], ranks: usize) -> Vec<usize> {
    // An object that has never worked counts too.
    let total: u128 = loads.iter().map(|load| u128::from(*load) + 1).sum();
    let mut before = 0;
    let rank_of = |load: &u64| {
        let middle = 2 * before + u128::from(*load) + 1;
        before += u128::from(*load) + 1;
        (middle * ranks as u128 / (2 * total)) as usize
    };
    loads.iter().map(rank_of).collect()
}
