//! Decides whether damaged portions may have held a part of a complete revision, if no complete revision is left.
//!
//! Invariant: the answer is no only if, for any contents of the damaged portions, every revision lacks a shard that
//! none of them can have held.

use super::{
    find::{DamagedShard, Sight},
    shard_set::ShardSet,
};
use crate::commit::RevisionKey;
use std::collections::{BTreeMap, BTreeSet};

/// The facts from all ranks and levels about the damaged portions.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    damaged_shards: BTreeSet<DamagedShard>,
    /// A damaged portion does not say to which rank it belongs.
    is_unknown: bool,
    /// The number of ranks of each visible layout.
    ranks: BTreeMap<u32, u32>,
    shards: BTreeMap<(RevisionKey, u32), ShardSet>,
}

impl Hidden {
    pub(crate) fn add(&mut self, sights: &[Sight]) {
        for sight in sights {
            self.damaged_shards.extend(sight.damaged_shards.iter().flatten());
            self.is_unknown |= sight.damaged_shards.contains(&None);
            self.ranks.extend(sight.layouts.iter().copied());
            for seen in &sight.shards {
                self.shards.entry((seen.key, seen.shards)).or_default().add(seen.which.clone());
            }
        }
    }

    /// Whether a complete revision may have existed that the damage has made unreadable.
    pub(crate) fn may_be_complete(&self) -> bool {
        let damaged_shards: BTreeSet<u32> = self.damaged_shards.iter().map(|damaged| damaged.shard).collect();
        let with_hurt = |have: &ShardSet, count: u32| {
            have.gaps(count).into_iter().flatten().all(|shard| damaged_shards.contains(&shard))
        };
        // If nothing of a revision is visible, an undamaged file of the layout gives its number of shards.
        let unseen = self.damaged_shards.iter().map(|damaged| self.ranks.get(&damaged.layout));
        let none = ShardSet::default();
        let hides_all = |count: Option<&u32>| count.is_none_or(|count| with_hurt(&none, *count));
        let hides_rest = |((_, count), have): (&(RevisionKey, u32), &ShardSet)| with_hurt(have, *count);
        self.is_unknown || unseen.into_iter().any(hides_all) || self.shards.iter().any(hides_rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        restore::{Seen, one},
        space::format::Lineage,
    };

    const LAYOUT: u32 = 7;

    fn seen(number: u64, shards: &[u32], count: u32) -> Sight {
        let key = RevisionKey { lineage: Lineage { number: 1, id: [1; 16] }, number };
        let seen = |shard: &u32| Seen { key, which: one(*shard), shards: count, layout: [0; 16] };
        Sight { shards: shards.iter().map(seen).collect(), ..Sight::default() }
    }

    fn damaged(shards: &[u32]) -> Sight {
        let damaged_shards = shards.iter().map(|shard| Some(DamagedShard { layout: LAYOUT, shard: *shard })).collect();
        Sight { damaged_shards, ..Sight::default() }
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
        assert!(!may_be(&[damaged(&[0]), layout(2)]), "shard 1 cannot exist");
        assert!(!may_be(&[damaged(&[0]), layout(3), seen(5, &[1], 3)]), "shard 2 cannot exist");
    }

    #[test]
    fn what_may_have_been_complete_is_no_fresh_start() {
        assert!(may_be(&[damaged(&[0]), layout(2), seen(5, &[1], 2)]));
        assert!(may_be(&[damaged(&[0, 1]), layout(2)]));
        assert!(may_be(&[damaged(&[0]), layout(1)]));
        assert!(may_be(&[damaged(&[0])]), "no file gives the layout's number of ranks");
        assert!(may_be(&[Sight { damaged_shards: vec![None], ..Sight::default() }, layout(2)]));
        // A revision with another number of ranks; one of its shards is in a damaged portion.
        assert!(may_be(&[damaged(&[0]), layout(4), seen(5, &[1], 2)]));
    }
}
