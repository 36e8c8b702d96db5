//! The spaces that the job saves to: their newest revisions and their users.

use super::generations::Generations;
use crate::{exit::say, text};
use mainstay_engine::{
    Error, LevelKind, RevisionPart, RevisionSurvey, SpaceSurvey, printable_path,
    status::{last_lineage, was_closed},
};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// A revision: its lineage and number.
pub type Key = (u64, u64);

/// The newest complete revision of each space that has one, and the newest generations of restart files.
#[derive(Debug, PartialEq, Eq)]
pub struct Newest {
    spaces: BTreeMap<PathBuf, Reached>,
    files: Generations,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Reached {
    /// The newest in sight, on any level.
    seen: Option<Key>,
    /// The newest in the space itself, which all nodes see.
    in_space: Option<Key>,
    /// Time of its save, in nanoseconds since 1970.
    saved_unix_ns: u64,
    /// The newest that the job reported, possibly only on a nearer level, which may be lost since.
    told: Option<Key>,
}

impl Newest {
    pub fn of(spaces: &[PathBuf], told: BTreeMap<PathBuf, Key>, files: Generations) -> Newest {
        let told = told.into_iter().map(|(space, told)| (space, Reached { told: Some(told), ..Reached::default() }));
        let mut newest: BTreeMap<PathBuf, Reached> = told.collect();
        for space in spaces {
            match SpaceSurvey::open_all(space) {
                Ok(survey) => {
                    if let Some(revision) = survey.newest() {
                        let key = |of: &RevisionSurvey| (of.key.lineage.number, of.key.number);
                        let in_space = survey.revisions.iter().find(|revision| is_in_space(revision)).map(key);
                        // As the job reports it.
                        let space = space.canonicalize().unwrap_or_else(|_| space.clone());
                        let reached = newest.entry(space).or_default();
                        (reached.seen, reached.saved_unix_ns) = (Some(key(revision)), revision.t1_unix_ns());
                        reached.in_space = in_space;
                    }
                }
                // The job may have failed before it made the space.
                Err(Error::NotASpace { .. }) => {}
                Err(error) => say(&error.to_string()),
            }
        }
        Newest { spaces: newest, files }
    }

    /// Time of the newest revision in sight, over all spaces, and of the newest restart file, in nanoseconds since 1970.
    pub fn saved_unix_ns(&self) -> Option<u64> {
        let seen = self.spaces.values().filter(|reached| reached.seen.is_some());
        seen.map(|reached| reached.saved_unix_ns).max().max(self.files.saved_unix_ns())
    }

    /// Whether there are restart files.
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// True if the job has failed at the same revisions and files `before`.
    pub fn is_as(&self, before: &Newest) -> bool {
        self.spaces == before.spaces && !self.files.are_beyond(&before.files)
    }

    /// True if there is a new restart file, or if a space itself has a revision that was not there `before`, or, if that is unknown, one saved since
    /// `begun_unix_ns`. Data on a node is lost with the job, or out of sight of the next job's nodes.
    pub fn is_beyond(&self, before: &Newest, begun_unix_ns: u64) -> bool {
        let is_new = |(space, reached): (&PathBuf, &Reached)| match before.spaces.get(space) {
            Some(before) => reached.in_space > before.in_space,
            None => reached.in_space.is_some() && reached.saved_unix_ns >= begun_unix_ns,
        };
        self.spaces.iter().any(is_new) || self.files.are_beyond(&before.files)
    }

    /// A line before the next start: the revision, or the restart file, to go on from.
    pub fn way_on(&self) -> String {
        match self.spaces.is_empty() && self.files.is_empty() {
            true if self.files.are_expected() => "no restart file is complete: the job begins anew".to_owned(),
            true => "no revision is complete: the job begins anew".to_owned(),
            false => format!("going on from {self}"),
        }
    }

    /// A line for each space: the revision to go on from, and its age.
    pub fn ages(&self, now_unix_ns: u64) -> Vec<String> {
        let line = |(space, reached): (&PathBuf, &Reached)| {
            let space = printable_path(space);
            match reached.seen {
                Some((lineage, number)) => {
                    let age = text::age(now_unix_ns.saturating_sub(reached.saved_unix_ns));
                    format!("revision {number} (lineage {lineage}) of {space}, saved {age} ago, is the newest")
                }
                None => format!("nothing complete in {space}"),
            }
        };
        self.spaces.iter().map(line).chain(self.files.age(now_unix_ns)).collect()
    }
}

impl fmt::Display for Newest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.spaces.is_empty() && self.files.is_empty() {
            let missing = if self.files.are_expected() { "restart file" } else { "revision" };
            return write!(f, "no complete {missing}");
        }
        let revision = |(lineage, number): Key| format!("revision {number} (lineage {lineage})");
        let spaces = self.spaces.iter().map(|(space, Reached { seen, in_space, told, .. })| {
            let space = printable_path(space);
            let seen_there = match seen {
                None => format!("nothing complete in {space}"),
                Some(seen) if Some(*seen) == *in_space => format!("{} of {space}", revision(*seen)),
                // Data on nodes may be gone when the job looks, or out of sight of its new nodes.
                Some(seen) => {
                    let below = in_space.map_or("nothing complete".to_owned(), revision);
                    let seen = revision(*seen);
                    format!("{seen} of {space}, if the job's nodes still have it; the space itself has {below}")
                }
            };
            match told.filter(|told| Some(*told) > *seen) {
                Some((_, number)) => format!("{seen_there} (revision {number} was complete on a nearer level)"),
                None => seen_there,
            }
        });
        let files = (!self.files.is_empty()).then(|| self.files.to_string());
        f.write_str(&spaces.chain(files).collect::<Vec<_>>().join(", "))
    }
}

/// True if it is in the space itself, so any nodes can restore it.
fn is_in_space(revision: &RevisionSurvey) -> bool {
    // Without other levels, the line names no place.
    let is_there = |part: &RevisionPart| part.whole && part.place.level == LevelKind::Pfs;
    revision.complete && (revision.parts.is_empty() || revision.parts.iter().any(is_there))
}

/// The lineages of spaces before a start: each opening begins a new one.
pub struct Openings(BTreeMap<PathBuf, u64>);

impl Openings {
    pub fn of(spaces: &[PathBuf]) -> Openings {
        let lineage = |space: &PathBuf| Some((space.clone(), last_lineage(space, &SpaceSurvey::open(space).ok()?)));
        Openings(spaces.iter().filter_map(lineage).collect())
    }

    /// One of `spaces` that was opened since, and not closed in order.
    pub fn left_open(&self, spaces: &[PathBuf]) -> Option<PathBuf> {
        let is_left_open = |space: &&PathBuf| {
            let before = self.0.get(*space).copied().unwrap_or(0);
            SpaceSurvey::open(space).is_ok_and(|now| !was_closed(space, &now) && last_lineage(space, &now) > before)
        };
        spaces.iter().find(is_left_open).cloned()
    }
}

impl Openings {
    /// Was one of `spaces` opened since?
    pub fn was_any_opened(&self, spaces: &[PathBuf]) -> bool {
        let before = |space: &PathBuf| self.0.get(space).copied().unwrap_or(0);
        let was_opened =
            |space: &PathBuf| SpaceSurvey::open(space).is_ok_and(|now| last_lineage(space, &now) > before(space));
        spaces.iter().any(was_opened)
    }

    /// True if each of `spaces` was opened since, opened again in the same run, as after a failure, and closed in
    /// order.
    pub fn were_closed(&self, spaces: &[PathBuf]) -> bool {
        let before = |space: &PathBuf| self.0.get(space).copied().unwrap_or(0);
        let was_closed = |space: &PathBuf| {
            SpaceSurvey::open(space)
                .is_ok_and(|now| was_closed(space, &now) && last_lineage(space, &now) > before(space) + 1)
        };
        !spaces.is_empty() && spaces.iter().all(was_closed)
    }
}

/// An unknown state is no reason to wait.
pub fn is_in_use(space: &Path) -> bool {
    matches!(SpaceSurvey::is_in_use(space), Ok(Some(true)))
}

/// True if surely no job has it open.
pub fn is_free(space: &Path) -> bool {
    matches!(SpaceSurvey::is_in_use(space), Ok(Some(false)))
}

/// True if surely nothing is saved there: no shard is in sight, and none is unreadable.
pub fn is_without_revision(space: &Path) -> bool {
    match SpaceSurvey::open_all(space) {
        Ok(survey) => survey.revisions.is_empty() && survey.damage.is_empty() && survey.not_here().is_empty(),
        Err(error) => matches!(error, Error::NotASpace { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch script queues the job again for it, and the nodes' memory may be gone by then.
    #[test]
    fn only_what_the_space_itself_has_is_further_than_before() {
        let newest = |seen, in_space| {
            let reached = Reached { seen, in_space, saved_unix_ns: 20, told: None };
            let spaces = BTreeMap::from([(PathBuf::from("/space"), reached)]);
            Newest { spaces, files: Generations::default() }
        };
        let before = newest(Some((1, 5)), Some((1, 4)));
        assert!(newest(Some((2, 6)), Some((2, 5))).is_beyond(&before, 10));
        assert!(!newest(Some((2, 7)), Some((1, 4))).is_beyond(&before, 10));
        let nothing = Newest { spaces: BTreeMap::new(), files: Generations::default() };
        assert!(newest(Some((1, 1)), Some((1, 1))).is_beyond(&nothing, 10));
        assert!(!newest(Some((1, 1)), None).is_beyond(&nothing, 10) && !before.is_beyond(&nothing, 30));
    }
}
