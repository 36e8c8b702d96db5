//! Prunes a space, and rolls it back. A refused command must have changed nothing.

use super::{Done, Trouble, Work};
use crate::lock::locked;
use mainstay_engine::{
    Error, ErrorKind, LevelKind, Places, RevisionKey, SpaceSurvey,
    tend::{self, GoneOver, RolledBack, Rules, Unseen},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

impl Work {
    /// Completes the staged data on this node, and returns the memory that was searched, with the places of the space.
    fn completed_first(&self) -> Result<(GoneOver, Vec<PathBuf>), Error> {
        let is_space = |directory: &Path| !matches!(SpaceSurvey::open(directory), Err(Error::NotASpace { .. }));
        let all = Places::of(&self.space.path).all.into_iter().rev();
        let places: Vec<PathBuf> = all
            .filter(|place| place.level == LevelKind::Pfs || is_space(&place.directory))
            .map(|place| place.directory)
            .collect();
        let mut gone_over = GoneOver::default();
        for place in &places {
            gone_over = gone_over.and(tend::salvage(&self.pools(), Some(place), false)?.gone_over);
        }
        Ok((gone_over, places))
    }

    pub(super) fn prune(&self, keep_last: u64) -> Done {
        let (gone_over, places) = self.completed_first()?;
        let before = surveyed(&places)?;
        let all: Vec<_> = places.iter().map(|place| (place.as_path(), Unseen::Waits(&gone_over))).collect();
        let rules = Rules { keep_last: Some(keep_last), ..Rules::default() };
        let found = contents(&places);
        locked(&self.space.judge).pruned();
        tend::prune_all(&all, &rules, &|_| ()).map_err(|error| self.refused(error, &places, &found))?;
        if self.tool.time.is_some() {
            return Ok(());
        }
        // The last revisions and the held ones must still be there.
        for ((place, before), after) in places.iter().zip(before).zip(surveyed(&places)?) {
            let last = before.complete.iter().rev().take(keep_last.max(1) as usize);
            if let Some(lost) = last.chain(&before.held).find(|key| !after.complete.contains(key)) {
                return Err(Trouble::Wrong(format!("{lost:?} was to stay in {}, and is gone", place.display())));
            }
        }
        Ok(())
    }

    pub(super) fn roll_back(&self, age: usize, gives_up: bool) -> Done {
        let (gone_over, places) = self.completed_first()?;
        let survey = SpaceSurvey::open_all(&self.space.path)?;
        if !survey.not_here().is_empty() {
            return Ok(());
        }
        let Some(revision) = self.chosen(age)? else { return Ok(()) };
        let (key, to) = self.read(&self.space.path, Some(revision.key.number))?;
        let parts = &revision.parts;
        let in_space = parts.is_empty() || parts.iter().any(|part| part.whole && part.place.level == LevelKind::Pfs);
        let unseen = if gives_up { Unseen::GivenUp } else { Unseen::Waits(&gone_over) };
        let all: Vec<_> = places.iter().map(|place| (place.as_path(), unseen)).collect();
        let found = contents(&places);
        let begun = locked(&self.space.judge).rolling_back(to);
        match tend::rollback(&all, key, &|_| ()) {
            Ok(RolledBack::Done(_)) => {
                self.space.openings.check(None).map_err(Trouble::Wrong)?;
                locked(&self.space.judge).rolled_back(begun, in_space);
                self.cluster.tell(|| format!("rolled back to {}, {to:?}", key.number));
                Ok(())
            }
            Ok(RolledBack::Held(_)) => {
                locked(&self.space.judge).stayed(begun);
                self.unchanged(&places, &found)
            }
            Err(error) => {
                if is_refusal(&error) {
                    locked(&self.space.judge).stayed(begun);
                }
                Err(self.refused(error, &places, &found))
            }
        }
    }

    /// The trouble for `error`. A refusal must have changed nothing in `places`, which had the files `found`.
    fn refused(&self, error: Error, places: &[PathBuf], found: &BTreeSet<(PathBuf, Vec<u8>)>) -> Trouble {
        let changed = is_refusal(&error).then(|| self.unchanged(places, found));
        match changed {
            Some(Err(wrong)) => wrong,
            _ => Trouble::Refused(error),
        }
    }

    /// Fails if a refused command has changed a file. A job beside it may have done so.
    fn unchanged(&self, places: &[PathBuf], found: &BTreeSet<(PathBuf, Vec<u8>)>) -> Done {
        let now = contents(places);
        match now.symmetric_difference(found).next().filter(|_| self.tool.time.is_none()) {
            Some((file, _)) => Err(Trouble::Wrong(format!("a refused command has changed {}", file.display()))),
            None => Ok(()),
        }
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InUse | ErrorKind::OutOfSight | ErrorKind::RevisionMissing | ErrorKind::NotASpace)
}

/// The revisions of one place.
struct Surveyed {
    /// Complete ones, oldest first.
    complete: BTreeSet<RevisionKey>,
    held: BTreeSet<RevisionKey>,
}

fn surveyed(places: &[PathBuf]) -> Result<Vec<Surveyed>, Error> {
    let of = |place: &PathBuf| {
        let survey = SpaceSurvey::open(place)?;
        let complete: BTreeSet<_> =
            survey.revisions.iter().filter(|revision| revision.complete).map(|revision| revision.key).collect();
        let held = survey.holds.iter().map(|held| held.key()).filter(|key| complete.contains(key)).collect();
        Ok(Surveyed { complete, held })
    };
    places.iter().map(of).collect()
}

/// The files with revisions in `places`.
fn contents(places: &[PathBuf]) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    // An unfinished layout does not count.
    let layouts =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "mainstay"));
    layouts.filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
}
