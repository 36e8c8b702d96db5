//! Whether what is damaged can have been a part of a complete revision, where nothing complete is left.
//!
//! What must hold: the answer is no only if every revision, whatever the damaged portions held, lacks a shard that none of
//! them can have held.

use super::find::{Hurt, Sight};
use crate::commit::RevisionKey;
use std::collections::{BTreeMap, BTreeSet};

/// What all ranks see on all levels, as far as it tells what the damaged portions may hide.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    hurt: BTreeSet<Hurt>,
    /// Something is damaged that does not say whose it is.
    is_unknown: bool,
    /// How many ranks each layout in sight is of.
    ranks: BTreeMap<u32, u32>,
    shards: BTreeMap<(RevisionKey, u32), BTreeSet<u32>>,
}

impl Hidden {
    pub(crate) fn add(&mut self, sights: &[Sight]) {
        for sight in sights {
            self.hurt.extend(sight.hurt.iter().flatten());
            self.is_unknown |= sight.hurt.contains(&None);
            self.ranks.extend(sight.layouts.iter().copied());
            for seen in &sight.shards {
                self.shards.entry((seen.key, seen.shards)).or_default().insert(seen.shard);
            }
        }
    }

    /// Whether there may have been a complete revision that comes back no more as portions are damaged.
    pub(crate) fn may_be_complete(&self) -> bool {
        let hurt: BTreeSet<u32> = self.hurt.iter().map(|hurt| hurt.shard).collect();
        let with_hurt =
            |have: &BTreeSet<u32>, count: u32| (0..count).all(|shard| have.contains(&shard) || hurt.contains(&shard));
        // Of a revision of which nothing is seen the layout says how many shards it had, if a file of that is sound.
        let unseen = self.hurt.iter().map(|hurt| self.ranks.get(&hurt.layout));
        let none = BTreeSet::new();
        let hides_all = |count: Option<&u32>| count.is_none_or(|count| with_hurt(&none, *count));
        let hides_rest = |((_, count), have): (&(RevisionKey, u32), &BTreeSet<u32>)| with_hurt(have, *count);
        self.is_unknown || unseen.into_iter().any(hides_all) || self.shards.iter().any(hides_rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{restore::Seen, space::format::Lineage};

    const LAYOUT: u32 = 7;

    fn seen(number: u64, shards: &[u32], count: u32) -> Sight {
        let key = RevisionKey { lineage: Lineage { number: 1, id: [1; 16] }, number };
        let seen = |shard: &u32| Seen { key, shard: *shard, shards: count, layout: [0; 16] };
        Sight { shards: shards.iter().map(seen).collect(), ..Sight::default() }
    }

    fn hurt(shards: &[u32]) -> Sight {
        let hurt = shards.iter().map(|shard| Some(Hurt { layout: LAYOUT, shard: *shard })).collect();
        Sight { hurt, ..Sight::default() }
    }

    fn layout(ranks: u32) -> Sight {
        Sight { layouts: vec![(LAYOUT, ranks)], ..Sight::default() }
    }

    fn may_be(sights: &[Sight]) -> bool {
        let mut hidden = Hidden::default();
        hidden.add(sights);
        hidden.may_be_complete()
    }

    #[test]
    fn a_revision_that_lacks_a_shard_elsewhere_was_not_complete() {
        assert!(!may_be(&[layout(2)]), "nothing is damaged");
        assert!(!may_be(&[hurt(&[0]), layout(2)]), "shard 1 is nowhere");
        assert!(!may_be(&[hurt(&[0]), layout(3), seen(5, &[1], 3)]), "shard 2 is nowhere");
    }

    #[test]
    fn what_may_have_been_complete_is_no_fresh_start() {
        assert!(may_be(&[hurt(&[0]), layout(2), seen(5, &[1], 2)]));
        assert!(may_be(&[hurt(&[0, 1]), layout(2)]));
        assert!(may_be(&[hurt(&[0]), layout(1)]));
        assert!(may_be(&[hurt(&[0])]), "no file says of how many ranks the layout is");
        assert!(may_be(&[Sight { hurt: vec![None], ..Sight::default() }, layout(2)]));
        // A revision of other ranks, of which one shard lies in a damaged portion.
        assert!(may_be(&[hurt(&[0]), layout(4), seen(5, &[1], 2)]));
    }
}
