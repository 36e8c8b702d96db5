//! The sights of all ranks on a level.

use crate::{
    error::Result,
    group::{Group, Unlike, gather, gather_unlike},
    restore::{ShardSet, Sight, one},
};

/// The sights of all ranks, from this rank's own. `written`: the shards that this rank looks after; each shard has one
/// such rank.
///
/// Most ranks see only their own shard, and all see the same of it. Their sights come as one, with all these shards. Only
/// the other ranks send theirs. Collective.
pub(super) fn gather_sights(group: &dyn Group, mine: &Sight, written: &[usize]) -> Result<Vec<Sight>> {
    let alone = match written {
        [own] => mine.of_shard_alone(*own as u32),
        _ => None,
    };
    let Unlike { first, others } = gather_unlike(group, &alone, &(written.to_vec(), mine.clone()))?;
    let Some(alike) = first else { return gather(group, mine) };
    let of_others: ShardSet = others.iter().flat_map(|(_, (written, _))| written).map(|own| one(*own as u32)).collect();
    let rest = of_others.gaps(group.size() as u32);
    Ok(rest
        .into_iter()
        .map(|shards| alike.with_shards(shards))
        .chain(others.into_iter().map(|(_, (_, sight))| sight))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commit::RevisionKey,
        group::{ThreadGroup, agree},
        restore::{Seen, find},
        space::format::Lineage,
    };
    use std::thread;

    const LAYOUT: [u8; 16] = [1; 16];

    /// A rank's sight of these `shards`, each with the revisions of `numbers`, of which there are `count` shards.
    fn sight(shards: &[u32], numbers: &[u64], count: u32) -> Sight {
        let lineage = Lineage { number: 1, id: [1; 16] };
        let seen = |shard: &u32, number: &u64| {
            let key = RevisionKey { lineage, number: *number };
            Seen { key, which: one(*shard), shards: count, layout: LAYOUT }
        };
        Sight {
            shards: shards.iter().flat_map(|shard| numbers.iter().map(move |number| seen(shard, number))).collect(),
            portions: shards.iter().map(|shard| (LAYOUT, one(*shard))).collect(),
            ..Sight::default()
        }
    }

    #[test]
    fn sights_that_come_as_one_tell_as_much_as_all() {
        let mut random = fastrand::Rng::with_seed(17);
        for _ in 0..200 {
            let ranks = random.u32(1..6);
            let count = if random.u32(0..4) > 0 { ranks } else { random.u32(1..7) };
            let mut sights: Vec<Sight> = (0..ranks).map(|rank| sight(&[rank], &[4, 5], count)).collect();
            for _ in 0..random.u32(0..3) {
                let (rank, other) = (random.u32(0..ranks), random.u32(0..ranks));
                let numbers = [&[][..], &[4], &[5], &[5, 6]][random.usize(0..4)];
                sights[rank as usize] = sight(&[rank, other][..random.usize(0..3)], numbers, count);
            }
            let gathered = |group: ThreadGroup| {
                let rank = group.rank();
                let all = gather_sights(&group, &sights[rank], &[rank])?;
                // No rank leaves before all are done.
                agree(&group, find(&all, "space"))
            };
            let expected = format!("{:?}", find(&sights, "space").unwrap());
            let found: Vec<String> = thread::scope(|scope| {
                let gathered = &gathered;
                let running: Vec<_> = ThreadGroup::new(ranks as usize)
                    .into_iter()
                    .map(|group| scope.spawn(move || format!("{:?}", gathered(group).unwrap())))
                    .collect();
                running.into_iter().map(|rank| rank.join().unwrap()).collect()
            });
            assert!(found.iter().all(|found| *found == expected), "{found:?} instead of {expected}, of {sights:?}");
        }
    }
}
