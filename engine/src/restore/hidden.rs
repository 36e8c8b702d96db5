//! Decides whether damaged portions may have held a part of a complete revision, if no complete revision is left.
//!
//! Invariant: the answer is no only if, for any contents of the damaged portions, every revision lacks a shard that
//! none of them can have held.

use super::find::{Hurt, Sight};
use crate::commit::RevisionKey;
use std::collections::{BTreeMap, BTreeSet};

/// The facts from all ranks and levels about the damaged portions.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    hurt: BTreeSet<Hurt>,
    /// A damaged portion does not say to which rank it belongs.
    is_unknown: bool,
    /// The number of ranks of each visible layout.
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

    /// Whether a complete revision may have existed that the damage has made unreadable.
    pub(crate) fn may_be_complete(&self) -> bool {
        let hurt: BTreeSet<u32> = self.hurt.iter().map(|hurt| hurt.shard).collect();
        let with_hurt =
            |have: &BTreeSet<u32>, count: u32| (0..count).all(|shard| have.contains(&shard) || hurt.contains(&shard));
        // If nothing of a revision is visible, an undamaged file of the layout gives its number of shards.
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
        assert!(!may_be(&[hurt(&[0]), layout(2)]), "shard 1 cannot exist");
        assert!(!may_be(&[hurt(&[0]), layout(3), seen(5, &[1], 3)]), "shard 2 cannot exist");
    }

    #[test]
    fn what_may_have_been_complete_is_no_fresh_start() {
        assert!(may_be(&[hurt(&[0]), layout(2), seen(5, &[1], 2)]));
        assert!(may_be(&[hurt(&[0, 1]), layout(2)]));
        assert!(may_be(&[hurt(&[0]), layout(1)]));
        assert!(may_be(&[hurt(&[0])]), "no file gives the layout's number of ranks");
        assert!(may_be(&[Sight { hurt: vec![None], ..Sight::default() }, layout(2)]));
        // A revision with another number of ranks; one of its shards is in a damaged portion.
        assert!(may_be(&[hurt(&[0]), layout(4), seen(5, &[1], 2)]));
    }
}
