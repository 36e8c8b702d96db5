//! Finds the complete revisions: the shards that all ranks see must include every shard from 0 to count−1. A minimum of
//! the ranks' newest revisions would be wrong, because ranks may have kept different ones.

use super::shard_set::{ShardSet, one};
use crate::{
    commit::{Complete, Ledger, RevisionKey},
    error::{Error, Result},
    mutant::{self, Mutant},
    space::{
        GoneBack,
        format::{Entry, Lineage},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// One shard that a rank sees, or the shards of all ranks, if each sees the same of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) key: RevisionKey,
    pub(crate) which: Range<u32>,
    /// The number of shards of the revision.
    pub(crate) shards: u32,
    pub(crate) layout: [u8; 16],
}

/// A portion that cannot be read completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct DamagedShard {
    /// The short id of its layout.
    pub(crate) layout: u32,
    pub(crate) shard: u32,
}

/// Everything that one rank sees of a space.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sight {
    pub(crate) shards: Vec<Seen>,
    /// The layouts and the ranks of all visible portions, even empty ones.
    pub(crate) portions: Vec<([u8; 16], Range<u32>)>,
    /// The lineages in slots and revisions.
    pub(crate) lineages: Vec<Lineage>,
    pub(crate) damage: Vec<String>,
    /// The owners of the damaged portions; `None` for a portion that does not say.
    pub(crate) damaged_shards: Vec<Option<DamagedShard>>,
    /// The short ids of the visible layouts, and their numbers of ranks.
    pub(crate) layouts: Vec<(u32, u32)>,
    /// Warnings for the user besides damage: slots that a crash cut short or that are damaged, and staged shards that
    /// are lost.
    pub(crate) damaged_slots: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The newest first.
    pub(crate) complete: Vec<Complete>,
    pub(crate) lineage_max: u64,
    pub(crate) number_max: u64,
    pub(crate) damage: Vec<String>,
    pub(crate) damaged_slots: Vec<String>,
    /// The newest first.
    pub(crate) unseen: Vec<Unseen>,
}

/// A revision that is in all visible portions of its layout, while other portions are out of sight. It may be complete
/// when they are visible.
#[derive(Debug)]
pub(crate) struct Unseen {
    pub(crate) whole: Complete,
    /// The shards that no rank sees, ascending.
    pub(crate) shards: Vec<Range<u32>>,
}

impl Found {
    /// The newest revision without all shards in sight, if it is newer than all complete ones.
    pub(crate) fn newest_unseen(&self) -> Option<&Unseen> {
        let newest = self.complete.first().map(|complete| complete.key);
        self.unseen.first().filter(|unseen| Some(unseen.whole.key) > newest)
    }

    /// The revisions that a hold may name: the complete ones, and those that are only partly out of sight.
    pub(crate) fn holdable(&self) -> Vec<Complete> {
        self.complete.iter().copied().chain(self.unseen.iter().map(|unseen| unseen.whole)).collect()
    }
}

impl Sight {
    /// Adds the shards of the `ledger` of a portion.
    pub(crate) fn add(&mut self, ledger: &Ledger) {
        let portion = ledger.portion();
        self.portions.push((portion.layout_id(), one(portion.rank())));
        for kept in ledger.found() {
            self.lineages.push(kept.entry.lineage);
            self.shards.push(Seen::of(&kept.entry, portion.layout_id()));
        }
    }
}

impl Sight {
    /// Removes the revisions that rollbacks have left out.
    pub(crate) fn leave_out(&mut self, back: &[GoneBack]) {
        let is_out = |key: &RevisionKey| back.iter().any(|back| back.leaves_out(key.lineage.number, key.number));
        self.shards.retain(|seen| !is_out(&seen.key));
    }

    /// The same sight as one of shard 0, if it has no damage and only the shard `own`.
    pub(crate) fn of_shard_alone(&self, own: u32) -> Option<Sight> {
        let is_own = |which: &Range<u32>| *which == one(own);
        let is_alone = self.shards.iter().all(|seen| is_own(&seen.which))
            && self.portions.iter().all(|(_, ranks)| is_own(ranks))
            && self.damage.is_empty()
            && self.damaged_shards.is_empty();
        is_alone.then(|| self.with_shards(one(0)))
    }

    /// The same sight with the shards `which`.
    pub(crate) fn with_shards(&self, which: Range<u32>) -> Sight {
        let mut sight = self.clone();
        sight.shards.iter_mut().for_each(|seen| seen.which = which.clone());
        sight.portions.iter_mut().for_each(|(_, ranks)| *ranks = which.clone());
        sight
    }

    /// The same sight, as if all portions belonged to one layout.
    pub(crate) fn without_layouts(mut self) -> Sight {
        self.shards.iter_mut().for_each(|seen| seen.layout = [0; 16]);
        self.portions.iter_mut().for_each(|(layout, _)| *layout = [0; 16]);
        self
    }
}

impl Seen {
    pub(crate) fn of(entry: &Entry, layout: [u8; 16]) -> Seen {
        Seen { key: RevisionKey::of(entry), which: one(entry.shard), shards: entry.shards, layout }
    }
}

/// Unites the views that all ranks have of the space in `path`. The same on every rank, given the same views.
pub(crate) fn find(sights: &[Sight], path: &str) -> Result<Found> {
    let mut ids: BTreeMap<u64, [u8; 16]> = BTreeMap::new();
    let mut found = Found::default();
    for lineage in sights.iter().flat_map(|sight| &sight.lineages) {
        found.lineage_max = found.lineage_max.max(lineage.number);
    }
    // Only revisions count. A job that was thought dead during a rollback may write a root late, after the next job has
    // begun a lineage of the same number. That root has no revision of its own.
    for Seen { key: RevisionKey { lineage, .. }, .. } in sights.iter().flat_map(|sight| &sight.shards) {
        let first = ids.entry(lineage.number).or_insert(lineage.id);
        if *first != lineage.id {
            let (first, second) = (hex(first), hex(&lineage.id));
            return Err(Error::LineageConflict { path: path.to_owned(), lineage: lineage.number, first, second });
        }
    }
    let mut shards: BTreeMap<(RevisionKey, [u8; 16], u32), ShardSet> = BTreeMap::new();
    for seen in sights.iter().flat_map(|sight| &sight.shards) {
        shards.entry((seen.key, seen.layout, seen.shards)).or_default().add(seen.which.clone());
        found.number_max = found.number_max.max(seen.key.number);
    }
    let unseen = shards.iter().rev().filter_map(|((key, layout, count), have)| {
        // A shard that is missing from a visible portion was never complete, or was removed.
        let lacks =
            |(of, ranks): &([u8; 16], Range<u32>)| of == layout && !have.has_all(&(ranks.start..ranks.end.min(*count)));
        let whole = Complete { key: *key, shards: *count, layout: *layout };
        let shards = have.gaps(*count);
        let is_unseen = !shards.is_empty() && !sights.iter().flat_map(|sight| &sight.portions).any(lacks);
        is_unseen.then_some(Unseen { whole, shards })
    });
    found.unseen = unseen.collect();
    if mutant::is(Mutant::NoId) {
        // Without the id, a shard is not tied to the run and the layout that wrote it.
        let mut merged: BTreeMap<(RevisionKey, [u8; 16], u32), ShardSet> = BTreeMap::new();
        for ((key, _, count), have) in shards {
            merged.entry((key, [0; 16], count)).or_default().extend(have.stretches());
        }
        shards = merged;
    }
    let complete = shards.iter().rev().filter(|((_, _, count), have)| have.count() == u64::from(*count));
    found.complete =
        complete.map(|((key, layout, shards), _)| Complete { key: *key, shards: *shards, layout: *layout }).collect();
    found.complete.dedup_by_key(|complete| complete.key);
    if mutant::is(Mutant::MinimumInsteadOfIntersection) {
        found.complete = minimum_of_newest(sights);
    }
    found.damage = sights.iter().flat_map(|sight| sight.damage.iter().cloned()).collect();
    // Each rank of a node reports a revision that was staged in the node's memory and lost; one report is enough.
    let mut listed = BTreeSet::new();
    let damaged_slots = sights.iter().flat_map(|sight| &sight.damaged_slots).filter(|what| listed.insert(*what));
    found.damaged_slots = damaged_slots.cloned().collect();
    Ok(found)
}

/// The mutant's choice: the lowest of the ranks' newest revisions.
fn minimum_of_newest(sights: &[Sight]) -> Vec<Complete> {
    let newest = sights.iter().map(|sight| sight.shards.iter().max_by_key(|seen| seen.key));
    let lowest = newest.min_by_key(|seen| seen.map(|seen| seen.key)).flatten();
    lowest.map(|seen| Complete { key: seen.key, shards: seen.shards, layout: seen.layout }).into_iter().collect()
}

pub(crate) fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(number: u64, id: u8) -> Lineage {
        Lineage { number, id: [id; 16] }
    }

    fn sight(shard: u32, revisions: &[(u64, u64)]) -> Sight {
        let key = |(l, number): &(u64, u64)| RevisionKey { lineage: lineage(*l, *l as u8), number: *number };
        let which = one(shard);
        let shards =
            revisions.iter().map(|r| Seen { key: key(r), which: which.clone(), shards: 2, layout: [1; 16] }).collect();
        Sight {
            shards,
            portions: vec![([1; 16], which)],
            lineages: revisions.iter().map(|r| key(r).lineage).collect(),
            ..Sight::default()
        }
    }

    fn numbers(found: &Found) -> Vec<(u64, u64)> {
        found.complete.iter().map(|c| (c.key.lineage.number, c.key.number)).collect()
    }

    #[test]
    fn complete_is_what_every_shard_was_found_of() {
        // The minimum of the newest would be 6, which rank 0 does not have.
        let found = find(&[sight(0, &[(1, 5), (1, 7)]), sight(1, &[(1, 5), (1, 6)])], "space").unwrap();
        assert_eq!(numbers(&found), [(1, 5)]);
        assert_eq!((found.lineage_max, found.number_max), (1, 7));
    }

    #[test]
    fn a_number_of_two_lineages_is_two_revisions() {
        let found = find(&[sight(0, &[(1, 5), (1, 6)]), sight(1, &[(1, 5), (2, 6)])], "space").unwrap();
        assert_eq!(numbers(&found), [(1, 5)]);
    }

    #[test]
    fn what_lacks_only_portions_that_nobody_sees_is_unseen() {
        let unseen =
            |sights: &[Sight]| find(sights, "space").unwrap().newest_unseen().map(|unseen| unseen.whole.key.number);
        // Shard 1 of 2 is not visible.
        assert_eq!(unseen(&[sight(0, &[(1, 5), (1, 6)])]), Some(6));
        // The holder of the portion never had 6, or had it only before 5.
        assert_eq!(unseen(&[sight(0, &[(1, 5), (1, 6)]), sight(1, &[(1, 5)])]), None);
        assert_eq!(unseen(&[sight(0, &[(1, 5), (1, 6)]), sight(1, &[])]), None);
        // A complete revision in another layout is newer, or older.
        let with = |l, number| {
            let mut both = [sight(0, &[(1, 5), (l, number)]), sight(1, &[(l, number)])];
            for sight in &mut both {
                sight.shards.last_mut().unwrap().layout = [2; 16];
                sight.portions = vec![([2; 16], 0..2)];
            }
            both[0].portions.push(([1; 16], 0..1));
            unseen(&both)
        };
        assert_eq!((with(2, 3), with(1, 4)), (None, Some(5)));
    }

    #[test]
    fn newest_is_the_highest_lineage_then_the_highest_number() {
        let all = [(1, 9), (2, 3), (2, 4)];
        let found = find(&[sight(0, &all), sight(1, &all)], "space").unwrap();
        assert_eq!(numbers(&found), [(2, 4), (2, 3), (1, 9)]);
    }

    #[test]
    fn one_lineage_with_two_ids_names_both() {
        let (one, mut two) = (sight(0, &[(3, 5)]), sight(1, &[(3, 5)]));
        two.shards[0].key.lineage.id = [2; 16];
        let error = find(&[one, two], "space").unwrap_err().to_string();
        assert!(error.contains(&"03".repeat(16)) && error.contains(&"02".repeat(16)), "{error}");
    }

    /// Story: a job without locks was thought dead during its rollback. Its delayed root was written after the next job
    /// had begun a lineage of the same number. The space could then not be opened any more.
    #[test]
    fn a_lineage_without_revisions_is_in_nobodys_way() {
        let mut one = sight(0, &[(3, 5)]);
        one.lineages.push(lineage(4, 1));
        let two = Sight { lineages: vec![lineage(4, 2)], ..sight(1, &[(3, 5)]) };
        let found = find(&[one, two], "space").unwrap();
        assert_eq!((numbers(&found), found.lineage_max), (vec![(3, 5)], 4));
    }
}
