//! Which revision is read, and from which level: the newest revision that can be read whole, from the nearest level
//! that has it.

use super::{
    copies::Post,
    fetch::Search,
    flaws::{Attempted, Flaws},
    level::{Level, LevelKind},
    levels::Levels,
};
use crate::{
    commit::{Complete, RevisionKey},
    error::{Error, ErrorKind, Result},
    group::{Group, gather},
    restore::{Found, Sight, find},
};

/// A complete revision on one level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    pub(super) level: usize,
    pub(super) complete: Complete,
}

/// A revision that came back whole from a level, and what the program has found damaged in it.
pub(super) type PassedOver = ((LevelKind, RevisionKey), Vec<String>);

/// What all ranks see on all levels.
pub(super) struct Choices {
    /// By level.
    found: Vec<Found>,
    /// All that may be read: the newest revision first, and of one revision the nearest level first.
    pub(super) all: Vec<Chosen>,
}

impl Levels {
    /// The complete revisions that all ranks see, the newest first. An error if there are none, but damage. Collective.
    pub(super) fn find_complete(&self, group: &dyn Group) -> Result<Choices> {
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for family in self.families() {
            let level = family.start;
            let (path, mut sights) = (self.at(level).device.path(), Vec::new());
            for index in family.clone() {
                let told = gather(group, &self.at(index).sight())?;
                found.push(find(&told, &self.at(index).device.path())?);
                sights.extend(told);
            }
            let mut complete = found[level].complete.clone();
            if family.len() > 1 {
                complete = joint(sights, &complete, &path)?;
            }
            all.extend(complete.into_iter().map(|complete| Chosen { level, complete }));
        }
        all.sort_by(|a, b| b.complete.key.cmp(&a.complete.key).then(a.level.cmp(&b.level)));
        let damage: Vec<String> = found.iter().flat_map(|found| found.damage.iter().cloned()).collect();
        if all.is_empty() && !damage.is_empty() {
            return Err(Error::Damaged { what: damage });
        }
        Ok(Choices { found, all })
    }

    /// Takes out of `found` what the program has found damaged where it came from, and returns what that was. An error if
    /// nothing else is left. The same on all ranks.
    pub(super) fn pass_over(&self, found: &mut Choices, damaged: &[PassedOver]) -> Result<Flaws> {
        let (mut flaws, before) = (Flaws::default(), found.all.len());
        for ((level, key), what) in damaged {
            let is_it = |chosen: &Chosen| self.at(chosen.level).kind == *level && chosen.complete.key == *key;
            if found.all.iter().any(is_it) {
                flaws.pass_over(key.number, Flaws::found(what.clone()));
            }
            found.all.retain(|chosen| !is_it(chosen));
        }
        if before > 0 && found.all.is_empty() {
            return Err(flaws.nothing_left(self.farthest().device.path()));
        }
        Ok(flaws)
    }

    /// Tries the revisions in `found`, the newest first, until `read` has one whole. Returns which one that is, with
    /// what was read, and what was passed over for it; `None` if `found` has no revision. An error that no other
    /// revision would mend ends the search. Collective.
    pub(super) fn newest<T>(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        found: &Choices,
        mut read: impl FnMut(&Level, &Complete) -> Result<Attempted<T>>,
    ) -> Result<(Option<(Chosen, T)>, Flaws)> {
        // A root that could not be read at the opening may have led to a newer revision than any candidate.
        let unread = found.found.iter().flat_map(|found| found.damage.iter().chain(&found.torn));
        let mut skipped = Flaws::found(unread.cloned().collect());
        let mut out_of_sight = Ok(());
        for chosen in &found.all {
            let number = chosen.complete.key.number;
            match self.try_all_spots(group, post, chosen, &mut skipped, &mut read) {
                Ok(Ok(came)) => return Ok((Some((*chosen, came)), skipped)),
                Ok(Err(flaws)) => skipped.pass_over(number, flaws),
                Err(error) => {
                    // Ranks that run on other nodes than before may have it, or an older one, on another level.
                    let ends = self.iter().nth(1).is_none() || error.kind() != ErrorKind::OutOfSight;
                    let mut ends = [u64::from(ends)];
                    group.all_max(&mut ends)?;
                    if ends == [1] {
                        return Err(error);
                    }
                    skipped.pass_over(number, Flaws::unread(error.to_string()));
                    out_of_sight = Err(error);
                }
            }
        }
        out_of_sight?;
        if found.all.is_empty() {
            Ok((None, skipped))
        } else {
            Err(skipped.nothing_left(self.farthest().device.path()))
        }
    }

    /// Tries a revision: from the level itself, and with what is damaged or not in sight there from its copies. What was
    /// read from a copy instead is added to `told`. Collective.
    fn try_all_spots<T>(
        &mut self,
        group: &dyn Group,
        post: &mut Post,
        chosen: &Chosen,
        told: &mut Flaws,
        read: &mut impl FnMut(&Level, &Complete) -> Result<Attempted<T>>,
    ) -> Result<Attempted<T>> {
        self.iter_mut().for_each(Level::forget_fetched);
        let family = self.families().into_iter().find(|family| family.start == chosen.level).unwrap_or_default();
        if family.len() < 2 {
            return read(self.at(chosen.level), &chosen.complete);
        }
        let mut search = Search::begin(group, self, family, &chosen.complete)?;
        let mut flaws = Flaws::default();
        let mut brings = true;
        loop {
            if brings && let Err(flaws) = search.bring(group, post, self, &mut flaws)? {
                return Ok(Err(flaws));
            }
            brings = true;
            match read(self.at(chosen.level), &chosen.complete)? {
                // All ranks come to this alike.
                Err(found) if found.is_lacking() => {
                    brings = search.bring_wanted(group, post, self, &mut flaws)?;
                }
                Ok(came) => {
                    told.add(flaws);
                    return Ok(Ok(came));
                }
                Err(found) => {
                    if !search.blame(group, self, &mut flaws)? {
                        return Ok(Err(found));
                    }
                }
            }
        }
    }

    /// From now on `chosen` and older revisions are kept; those that were tried in vain are not.
    pub(super) fn go_back_to(&mut self, found: &Choices, chosen: &Chosen) {
        for ((index, level), found) in self.iter_mut().enumerate().zip(&found.found) {
            let stays = |complete: &&Complete| match index < chosen.level {
                true => complete.key < chosen.complete.key,
                false => complete.key <= chosen.complete.key,
            };
            let complete: Vec<Complete> = found.complete.iter().filter(stays).copied().collect();
            level.go_back_to(&complete);
            level.joint.retain(|joint| *joint < chosen.complete.key);
        }
        let family = self.families().into_iter().find(|family| family.start == chosen.level && family.len() > 1);
        for index in family.into_iter().flatten() {
            self.at_mut(index).joint.push(chosen.complete.key);
        }
        self.iter().for_each(Level::hold_known);
    }
}

/// An error on all ranks unless all have asked for the same revision. Collective.
pub(super) fn ask_for_one(group: &dyn Group, revision: Option<u64>) -> Result<()> {
    let asked = gather(group, &revision)?;
    let Some(rank) = asked.iter().position(|other| *other != asked[0]) else { return Ok(()) };
    let [first, other] = [asked[0], asked[rank]].map(|asked| asked.map_or("the newest".into(), |r| r.to_string()));
    let why = format!("rank {rank} asks for {other} and rank 0 for {first}; all ranks read the same one");
    Err(Error::argument("revision", why))
}

/// The revisions that are complete on a level and its copies together, the newest first: those that are `complete` on
/// the level, and others whose shards do not lie in one layout. `sights`: of all ranks, on all of these levels.
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
