//! The levels of a session as a list: the nearest first, each followed by its copies.

use super::{
    attempt::Attempt,
    copies,
    level::{Level, LevelKind, Writers},
    places::NoteFile,
};
use crate::{
    commit::{Complete, RevisionKey},
    error::{Error, Result},
    group::Group,
    mutant::{self, Mutant},
    printable::printable_path,
    space::is_of_space,
};
use std::{
    ffi::OsStr,
    ops::Range,
    path::{Path, absolute},
    sync::OnceLock,
};

/// The levels of a session, the nearest first; never empty.
pub(super) struct Levels {
    levels: Vec<Level>,
    /// The note about the other levels in the farthest one, if that is a directory.
    pub(super) note: Option<NoteFile>,
    /// Whether ranks can send each other shards, once that was tried.
    can_exchange: OnceLock<bool>,
}

impl Levels {
    /// `levels` must not be empty.
    pub(super) fn new(levels: Vec<Level>, note: Option<NoteFile>) -> Levels {
        assert!(!levels.is_empty(), "a session without a level");
        Levels { levels, note, can_exchange: OnceLock::new() }
    }

    /// Whether a rank can read shards that only another rank sees. Collective.
    pub(super) fn can_exchange(&self, group: &dyn Group) -> Result<bool> {
        if group.size() == 1 {
            return Ok(true);
        }
        match self.can_exchange.get() {
            Some(can) => Ok(*can),
            None => {
                let can = copies::can_exchange(group)?;
                Ok(*self.can_exchange.get_or_init(|| can))
            }
        }
    }

    /// The level that a checkpoint waits for and a restore reads first.
    pub(super) fn nearest(&self) -> &Level {
        &self.levels[0]
    }

    pub(super) fn nearest_mut(&mut self) -> &mut Level {
        &mut self.levels[0]
    }

    pub(super) fn at(&self, index: usize) -> &Level {
        &self.levels[index]
    }

    pub(super) fn at_mut(&mut self, index: usize) -> &mut Level {
        &mut self.levels[index]
    }

    /// The level that outlives the others. Its path opened the session.
    pub(super) fn farthest(&self) -> &Level {
        &self.levels[self.levels.len() - 1]
    }

    pub(super) fn all(&self) -> &[Level] {
        &self.levels
    }

    /// The nearest level, and the farther ones.
    pub(super) fn split(&mut self) -> (&mut Level, &mut [Level]) {
        let (nearest, farther) = self.levels.split_at_mut(1);
        (&mut nearest[0], farther)
    }

    /// Ranges of indices: each is one level with its copies.
    pub(super) fn families(&self) -> Vec<Range<usize>> {
        let begins = (0..self.levels.len()).filter(|index| !self.levels[*index].is_copy());
        let begins: Vec<usize> = begins.chain([self.levels.len()]).collect();
        begins.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// From now on the newest revision that is complete on a level and on all its copies stays on all of them. For the
    /// nearest level only the copies are checked: they are made from it, so it had the revision before. If all copies
    /// are former ones, the level keeps its newest revision as usual, and no extra revision once room was found.
    pub(super) fn note_joint(&mut self, rank: usize) {
        for family in self.families() {
            if family.len() == 1 {
                let level = &mut self.levels[family.start];
                let newest = level.complete.first().map(|complete| complete.key);
                if level.joint.iter().any(|joint| Some(*joint) <= newest) {
                    level.joint.retain(|joint| Some(*joint) > newest);
                    level.hold_known();
                }
                continue;
            }
            let asked = usize::from(family.start == 0);
            let levels = &mut self.levels[family];
            let has_copies = matches!(levels[1].location.writers, Writers::Holders(_));
            let asked = if has_copies { &levels[asked..] } else { &levels[..1] };
            let on_all = |complete: &&Complete| asked.iter().all(|level| level.is_former() || level.has(complete.key));
            let newest = levels[usize::from(has_copies)].complete.iter().find(on_all).map(|complete| complete.key);
            for level in levels.iter_mut().filter(|level| newest.is_some_and(|newest| level.joint != [newest])) {
                if level.is_former() && level.newest() < newest {
                    level.drop_all(rank);
                }
                level.joint.retain(|joint| Some(*joint) > newest);
                if has_copies || level.is_former() {
                    level.joint.extend(newest);
                }
                level.hold_known();
            }
            if mutant::is(Mutant::GivenUpWithOneCopy) {
                // Only on the level itself: a copy that is behind may be writing, with its ledger locked.
                levels[0].joint.clear();
                levels[0].hold_known();
            }
        }
    }

    /// The newest revision on its way to a farther level; copies do not count.
    pub(super) fn newest_fed(&self) -> Option<RevisionKey> {
        let farther = self.iter().skip(1).filter(|level| !level.is_copy());
        farther.filter_map(|level| level.saving.as_ref().and_then(Attempt::key)).max()
    }

    /// Refuses a kind of level that the session does not have.
    pub(super) fn check_kind(&self, kind: LevelKind) -> Result<()> {
        if self.iter().any(|level| level.location.kind == kind) {
            return Ok(());
        }
        let names: Vec<&str> =
            self.iter().filter(|level| !level.is_copy()).map(|level| level.location.kind.name()).collect();
        let why = format!("the session has no level {}; it has {}", kind.name(), names.join(" and "));
        Err(Error::argument("level", why))
    }

    /// Replaces the level at this index with the result of `open`. After an error the level is gone.
    pub(super) fn replace(&mut self, index: usize, open: impl FnOnce(Level) -> Result<Level>) -> Result<()> {
        let opened = open(self.levels.remove(index))?;
        self.levels.insert(index, opened);
        Ok(())
    }

    pub(super) fn extend(&mut self, levels: Vec<Level>) {
        self.levels.extend(levels);
    }

    pub(super) fn into_levels(self) -> Vec<Level> {
        self.levels
    }

    /// Refuses a level's own file as an output file, because a restore would truncate it.
    pub(super) fn check_not_own(&self, output: &Path) -> Result<()> {
        let real = |path: &Path| path.canonicalize().or_else(|_| absolute(path)).unwrap_or_else(|_| path.to_owned());
        let file = real(output);
        let folder = file.parent().map(real);
        let is_named = file.file_name().and_then(OsStr::to_str).is_some_and(is_of_space);
        if is_named && self.iter().any(|level| folder.as_ref() == Some(&real(level.location.device.directory()))) {
            let why = format!("{} is one of the space; name one that the program writes", printable_path(&file));
            return Err(Error::argument("output file", why));
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        self.levels.iter_mut()
    }
}
