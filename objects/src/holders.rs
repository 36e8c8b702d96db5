//! Which rank restores which objects (paper 002, section 4.2): each object is restored once, from what the rank has at hand.
//!
//! What must hold: the choice follows from what all ranks have told, so that each makes the same one.

/// Whether `high` counts as higher than `other` among so many ranks: the numbers go round, so that rank 0 is higher than
/// the last; of two that are half of all ranks apart, the larger number is.
pub fn outranks(high: usize, other: usize, ranks: usize) -> bool {
    let ahead = (high + ranks - other) % ranks;
    match (2 * ahead).cmp(&ranks) {
        std::cmp::Ordering::Less => ahead > 0,
        std::cmp::Ordering::Equal => high > other,
        std::cmp::Ordering::Greater => false,
    }
}

/// Who restores the objects of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restores {
    One(usize),
    /// Every rank can read it, and they share its objects.
    All,
    Nobody,
}

/// Who restores each of the shards, given which ranks can read it; ranks by their numbers now, ascending.
///
/// As many ranks as saved, each of which can read its own shard, do so: objects are where they were. Otherwise, of the
/// holders of a shard, the highest does. Where all ranks hold all shards, as in a file system that all see, none is nearer
/// than another, and they share.
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

/// Which of `ranks` restores each of the objects with these loads, that all ranks can read: as much in a row for each.
pub fn share(loads: &[u64], ranks: usize) -> Vec<usize> {
    // An object that has never worked counts as well.
    let total: u128 = loads.iter().map(|load| u128::from(*load) + 1).sum();
    let mut before = 0;
    let rank_of = |load: &u64| {
        let middle = 2 * before + u128::from(*load) + 1;
        before += u128::from(*load) + 1;
        (middle * ranks as u128 / (2 * total)) as usize
    };
    loads.iter().map(rank_of).collect()
}
