//! Chooses the revision and the levels to read: the newest revision that can be read whole, each shard from the nearest
//! level that has it.
//!
//! Invariant: shards that are read together belong to one revision (lineage, id, number), on whatever level they are.

use super::{
    chosen::{Chosen, PassedOver},
    copies::Post,
    damage::{Attempted, Damage, Unreadable},
    fetch::Search,
    level::{Level, Location},
    levels::Levels,
    shard_transfers::ShardTransfers,
    sights::gather_sights,
};
use crate::{
    commit::{Complete, RevisionKey},
    error::{Error, ErrorKind, Result},
    group::{Group, gather_unequal},
    restore::{Found, Hidden, ShardSet, Sight, find},
};
use std::{collections::BTreeMap, ops::Range};

/// The revisions that all ranks see on all levels.
pub(super) struct Choices {
    /// By level.
    found: Vec<Found>,
    /// All revisions that may be read: the newest first; of one revision, the nearest level first.
    pub(super) all: Vec<Chosen>,
    /// The places of the shards of each revision, if they may come from several levels.
    spread: Option<Spread>,
}

/// The shards of each revision, by level or copy.
struct Spread {
    /// By revision and its number of shards, then by level.
    locations: BTreeMap<(RevisionKey, u32), BTreeMap<usize, ShardSet>>,
    families: Vec<Range<usize>>,
    /// For each level, whether all ranks see the same files.
    is_shared: Vec<bool>,
}

impl Spread {
    fn add(&mut self, level: usize, sights: &[Sight]) {
        for seen in sights.iter().flat_map(|sight| &sight.shards).filter(|seen| seen.which.start < seen.shards) {
            let by_level = self.locations.entry((seen.key, seen.shards)).or_default();
            by_level.entry(level).or_default().add(seen.which.start..seen.which.end.min(seen.shards));
        }
    }

    /// The revisions that are complete over all levels. A level in `without` no longer counts for its revision.
    fn complete(&self, found: &[Found], without: &[(Range<usize>, RevisionKey)]) -> Vec<Chosen> {
        let chosen = |((key, shards), by_level): (&(RevisionKey, u32), &BTreeMap<usize, ShardSet>)| {
            let is_out = |level: usize| without.iter().any(|(family, of)| of == key && family.contains(&level));
            let by_level = || by_level.iter().filter(|(level, _)| !is_out(**level));
            let have: ShardSet = by_level().flat_map(|(_, shards)| shards.stretches()).collect();
            if have.count() != u64::from(*shards) {
                return None;
            }
            let on: Vec<usize> = by_level().map(|(level, _)| *level).collect();
            let family = self.families.iter().find(|family| on.first().is_some_and(|level| family.contains(level)))?;
            let whole = on.iter().flat_map(|level| &found[*level].complete).find(|complete| complete.key == *key);
            let complete = whole.copied().unwrap_or(Complete { key: *key, shards: *shards, layout: [0; 16] });
            let is_searched = on != [family.start] || !self.is_shared[family.start];
            Some(Chosen { level: family.start, complete, on, is_searched, vain: Vec::new() })
        };
        self.locations.iter().filter_map(chosen).collect()
    }
}

impl Levels {
    /// The complete revisions that all ranks see, the newest first. An error if there are none and damage may hide one.
    /// Collective.
    pub(super) fn find_complete(&self, group: &dyn Group) -> Result<Choices> {
        let (mut found, mut all, families) = (Vec::new(), Vec::new(), self.families());
        let mut hidden = Hidden::default();
        let mut spread = Spread { locations: BTreeMap::new(), is_shared: Vec::new(), families: families.clone() };
        for family in families.clone() {
            let level = family.start;
            let (path, mut sights) = (self.at(level).location.device.path(), Vec::new());
            for index in family.clone() {
                let Location { writers, domain, .. } = &self.at(index).location;
                let reported = gather_sights(group, &self.at(index).sight(), &writers.looked_after(group.rank()))?;
                spread.is_shared.push(domain.has_all_of(group));
                found.push(find(&reported, &self.at(index).location.device.path())?);
                spread.add(index, &reported);
                hidden.add(&reported);
                sights.extend(reported);
            }
            let mut complete = found[level].complete.clone();
            if family.len() > 1 {
                complete = joint(sights, &complete, &path)?;
            }
            let (on, is_searched): (Vec<usize>, bool) = (family.clone().collect(), family.len() > 1);
            let vain: Vec<usize> = (0..level).collect();
            let chosen = |complete| Chosen { level, complete, on: Vec::clone(&on), is_searched, vain: vain.clone() };
            all.extend(complete.into_iter().map(chosen));
        }
        let spread = Some(spread).filter(|_| families.len() > 1);
        let spread = if spread.is_some() && self.can_exchange(group)? { spread } else { None };
        if let Some(spread) = &spread {
            all = spread.complete(&found, &[]);
        }
        let mut choices = Choices { found, all, spread };
        choices.sort();
        let damage: Vec<String> = choices.found.iter().flat_map(|found| found.damage.iter().cloned()).collect();
        if choices.all.is_empty() && !damage.is_empty() && hidden.may_be_complete() {
            return Err(Error::Damaged { what: damage });
        }
        Ok(choices)
    }

    /// Removes from `found` the revisions that the program found damaged on a level, and returns their damage. An error
    /// if no revision is left. The same on all ranks.
    pub(super) fn pass_over(&self, found: &mut Choices, damaged: &[PassedOver]) -> Result<Damage> {
        let (mut damage, before) = (Damage::default(), found.all.len());
        let mut without: Vec<(Range<usize>, RevisionKey)> = Vec::new();
        for ((level, key), what) in damaged {
            let is_it = |chosen: &Chosen| self.at(chosen.level).location.kind == *level && chosen.complete.key == *key;
            if found.all.iter().any(is_it) {
                damage.pass_over(key.number, Damage::found(what.clone()));
            }
            let was_there = found.all.iter().any(|chosen| chosen.complete.key == *key);
            found.all.retain(|chosen| !is_it(chosen));
            if let Some(spread) = found.spread.as_ref().filter(|_| was_there) {
                // The other levels may have an undamaged one.
                let family = self.families().into_iter().filter(|family| self.at(family.start).location.kind == *level);
                without.extend(family.map(|family| (family, *key)));
                let again = spread.complete(&found.found, &without);
                let is_new = |chosen: &Chosen| chosen.complete.key == *key;
                found.all.retain(|chosen| !is_new(chosen));
                found.all.extend(again.into_iter().filter(is_new));
                found.sort();
            }
        }
        if before > 0 && found.all.is_empty() {
            return Err(damage.nothing_left(self.farthest().location.device.path()));
        }
        Ok(damage)
    }

    /// Tries the revisions in `found`, the newest first, until `read` gets one whole. Returns that revision, the result
    /// of `read`, and the damage of the revisions that it passed over; `None` if `found` is empty. An error that would
    /// hit every revision ends the search. Collective.
    pub(super) fn newest<T>(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        found: &Choices,
        mut read: impl FnMut(&Level, &Complete, &mut ShardTransfers) -> Attempted<T>,
    ) -> Result<(Option<(Chosen, T)>, Damage)> {
        // A root that was unreadable when the space was opened may have named a newer revision.
        let unread = found.found.iter().flat_map(|found| found.damage.iter().chain(&found.damaged_slots));
        let mut skipped = Damage::found(unread.cloned().collect());
        let mut out_of_sight = Ok(());
        for chosen in &found.all {
            let number = chosen.complete.key.number;
            match self.try_all_spots(group, post, chosen, &mut skipped, &mut read) {
                Ok((vain, came)) => {
                    let chosen = Chosen { vain, ..chosen.clone() };
                    return Ok((Some((chosen, came)), skipped));
                }
                Err(Unreadable::Damage(damage)) => skipped.pass_over(number, damage),
                // The other ranks may not reach the next agreement.
                Err(Unreadable::Error(error @ Error::GroupFailed { .. })) => return Err(error),
                Err(Unreadable::Error(error)) => {
                    // If ranks moved to other nodes, another level may have this revision, or an older one.
                    let ends = self.iter().nth(1).is_none() || error.kind() != ErrorKind::OutOfSight;
                    let mut ends = [u64::from(ends)];
                    group.all_max(&mut ends)?;
                    if ends == [1] {
                        return Err(error);
                    }
                    skipped.pass_over(number, Damage::unread(error.to_string()));
                    out_of_sight = Err(error);
                }
            }
        }
        out_of_sight?;
        if found.all.is_empty() {
            Ok((None, skipped))
        } else {
            Err(skipped.nothing_left(self.farthest().location.device.path()))
        }
    }

    /// Tries a revision: reads each shard from the nearest place, and if it is damaged or out of sight there, from the
    /// next. Adds the damage of the places that it passed over to `skipped`. Also returns the levels where a shard was read
    /// in vain. Collective.
    fn try_all_spots<T>(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        chosen: &Chosen,
        skipped: &mut Damage,
        read: &mut impl FnMut(&Level, &Complete, &mut ShardTransfers) -> Attempted<T>,
    ) -> Attempted<(Vec<usize>, T)> {
        self.iter_mut().for_each(|level| level.received = None);
        let mut transfers = ShardTransfers::default();
        if !chosen.is_searched {
            let came = read(self.at(chosen.level), &chosen.complete, &mut transfers)?;
            return Ok((chosen.vain.clone(), came));
        }
        if let Some(came) = self.try_own_shards(group, chosen, read)? {
            return Ok((Vec::new(), came));
        }
        let mut search = Search::begin(group, self, chosen)?;
        let mut damage = Damage::default();
        let mut brings = true;
        loop {
            if brings {
                search.bring(group, post, self, &mut transfers, &mut damage)?;
            }
            brings = true;
            match read(self.at(chosen.level), &chosen.complete, &mut transfers) {
                // All ranks reach this branch together.
                Err(Unreadable::Damage(found)) if found.is_lacking() => {
                    brings = search.bring_wanted(group, post, self, &mut transfers, &mut damage)?;
                }
                Ok(came) => {
                    skipped.add(damage);
                    self.at_mut(chosen.level).received = transfers.whole(group.rank() as u32);
                    return Ok((search.levels_in_vain(), came));
                }
                Err(Unreadable::Damage(found)) => {
                    if !search.blame(group, &transfers, &mut damage)? {
                        return Err(found.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Tries a revision without a search, if every rank has its own shard on the nearest level: then no rank needs to
    /// know where the shards of the others are. `None` if a rank lacks its shard, or any is damaged. Collective.
    fn try_own_shards<T>(
        &self,
        group: &dyn Group,
        chosen: &Chosen,
        read: &mut impl FnMut(&Level, &Complete, &mut ShardTransfers) -> Attempted<T>,
    ) -> Attempted<Option<T>> {
        let level = self.at(chosen.level);
        let own = level.stored(group.rank() as u32, &chosen.complete);
        let own = own.filter(|_| chosen.complete.shards as usize == group.size());
        let mut lacks = [u64::from(own.is_none())];
        group.all_max(&mut lacks)?;
        if lacks == [1] {
            return Ok(None);
        }
        let mut transfers = ShardTransfers { reported: own.map(|own| vec![own]), ..ShardTransfers::default() };
        match read(level, &chosen.complete, &mut transfers) {
            Ok(came) => Ok(Some(came)),
            Err(Unreadable::Damage(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// From now on the levels keep `chosen` and older revisions; they drop those that were tried in vain. A level with
    /// shards of `chosen` that may lack others keeps its shards until a newer revision is complete there.
    pub(super) fn go_back_to(&mut self, found: &Choices, chosen: &Chosen) {
        let key = chosen.complete.key;
        for ((index, level), found) in self.iter_mut().enumerate().zip(&found.found) {
            let is_in_vain = chosen.vain.contains(&index);
            let stays = |complete: &&Complete| complete.key < key || complete.key == key && !is_in_vain;
            let complete: Vec<Complete> = found.complete.iter().filter(stays).copied().collect();
            level.go_back_to(&complete);
            level.joint.retain(|joint| *joint < key);
            // A nearer level has an older revision that was not read, or a newer one that was read in vain.
            let is_unsure = index < chosen.level || is_in_vain && chosen.is_searched;
            level.doubted = Some(key).filter(|_| is_unsure);
        }
        for family in self.families() {
            let has_shards = chosen.is_searched && chosen.on.iter().any(|level| family.contains(level));
            let stays = has_shards && (family.len() > 1 || !self.at(family.start).has(key));
            family.filter(|_| stays).for_each(|index| self.at_mut(index).joint.push(key));
        }
        self.iter().for_each(Level::hold_known);
    }
}

/// An error on all ranks unless all ask for the same revision. Collective.
pub(super) fn ask_for_one(group: &dyn Group, revision: Option<u64>) -> Result<()> {
    let asked = gather_unequal(group, &revision)?;
    let Some(rank) = asked.iter().position(|other| *other != asked[0]) else { return Ok(()) };
    let [first, other] = [asked[0], asked[rank]].map(|asked| asked.map_or("the newest".into(), |r| r.to_string()));
    let why = format!("rank {rank} asks for {other} and rank 0 for {first}; all ranks read the same one");
    Err(Error::argument("revision", why))
}

impl Choices {
    /// Whether any rank found damage or a torn slot.
    pub(super) fn has_damage(&self) -> bool {
        self.found.iter().any(|found| !found.damage.is_empty() || !found.damaged_slots.is_empty())
    }

    fn sort(&mut self) {
        self.all.sort_by(|a, b| b.complete.key.cmp(&a.complete.key).then(a.level.cmp(&b.level)));
    }
}

/// The newest revision that is complete over all these levels. `sights`: those of all ranks.
pub(super) fn newest_of_all<'a>(sights: impl Iterator<Item = &'a Sight>) -> Option<RevisionKey> {
    let mut spread =
        Spread { locations: BTreeMap::new(), families: std::iter::once(0..1).collect(), is_shared: vec![true] };
    sights.for_each(|sight| spread.add(0, std::slice::from_ref(sight)));
    let found = [Found::default()];
    spread.complete(&found, &[]).into_iter().map(|chosen| chosen.complete.key).max()
}

/// The revisions that are complete on a level and its copies together, the newest first. These are the revisions in
/// `complete` (complete on the level), and others with shards in several layouts. `sights`: those of all ranks, on all
/// of these levels.
pub(super) fn joint(sights: Vec<Sight>, complete: &[Complete], path: &str) -> Result<Vec<Complete>> {
    let sights: Vec<Sight> = sights.into_iter().map(Sight::without_layouts).collect();
    let mut all = find(&sights, path)?.complete;
    for joint in &mut all {
        if let Some(on_level) = complete.iter().find(|complete| complete.key == joint.key) {
            *joint = *on_level;
        }
    }
    Ok(all)
}
