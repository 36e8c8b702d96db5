//! Which revision is read, and from which level: the newest revision that can be read whole, from the nearest level
//! that has it.

use super::{
    flaws::{Attempted, Flaws},
    level::{Level, Levels},
};
use crate::{
    commit::Complete,
    error::{Error, ErrorKind, Result},
    group::Group,
    restore::Found,
};

/// A complete revision on one level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    pub(super) level: usize,
    pub(super) complete: Complete,
}

/// What all ranks see on all levels.
pub(super) struct Choices {
    found: Vec<Found>,
    /// All that may be read: the newest revision first, and of one revision the nearest level first.
    pub(super) all: Vec<Chosen>,
}

impl Levels {
    /// The complete revisions that all ranks see, the newest first. An error if there are none, but damage. Collective.
    pub(super) fn find_complete(&self, group: &dyn Group) -> Result<Choices> {
        let found = self.iter().map(|level| level.find(group)).collect::<Result<Vec<Found>>>()?;
        let of_level = |(level, found): (usize, &Found)| {
            found.complete.iter().map(|complete| Chosen { level, complete: *complete }).collect::<Vec<_>>()
        };
        let mut all: Vec<Chosen> = found.iter().enumerate().flat_map(of_level).collect();
        all.sort_by(|a, b| b.complete.key.cmp(&a.complete.key).then(a.level.cmp(&b.level)));
        let damage: Vec<String> = found.iter().flat_map(|found| found.damage.iter().cloned()).collect();
        if all.is_empty() && !damage.is_empty() {
            return Err(Error::Damaged { what: damage });
        }
        Ok(Choices { found, all })
    }

    /// Tries the revisions in `found`, the newest first, until `read` has one whole. Returns which one that is, with
    /// what was read, and what was passed over for it; `None` if `found` has no revision. An error that no other
    /// revision would mend ends the search. Collective.
    pub(super) fn newest<T>(
        &self,
        group: &dyn Group,
        found: &Choices,
        mut read: impl FnMut(&Level, &Complete) -> Result<Attempted<T>>,
    ) -> Result<(Option<(Chosen, T)>, Flaws)> {
        // A root that could not be read at the opening may have led to a newer revision than any candidate.
        let unread = found.found.iter().flat_map(|found| found.damage.iter().chain(&found.torn));
        let mut skipped = Flaws::found(unread.cloned().collect());
        let mut out_of_sight = Ok(());
        for chosen in &found.all {
            let number = chosen.complete.key.number;
            match read(self.at(chosen.level), &chosen.complete) {
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

    /// From now on `chosen` and older revisions are kept; those that were tried in vain are not.
    pub(super) fn go_back_to(&mut self, found: &Choices, chosen: &Chosen) {
        for ((index, level), found) in self.iter_mut().enumerate().zip(&found.found) {
            let stays = |complete: &&Complete| match index < chosen.level {
                true => complete.key < chosen.complete.key,
                false => complete.key <= chosen.complete.key,
            };
            let complete: Vec<Complete> = found.complete.iter().filter(stays).copied().collect();
            level.go_back_to(&complete);
        }
    }
}
