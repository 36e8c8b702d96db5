//! Reporting the end of a job in place of its rank 0, which failed before it did; and the end of the last job according
//! to the journal.

use super::{
    document::Status,
    journal::{Event, Journal, JournalEntry, Opening, Pen},
    writer::put,
};
use crate::{ground::unix_ns, printable::shortened};
use std::path::{Path, PathBuf};

/// The last opening in a journal, and the fate of that job.
pub(super) struct LastOpening {
    pub(super) unix_ns: u64,
    pub(super) lineage: u64,
    pub(super) every_ns: u64,
    pub(super) is_closed: bool,
    has_died: bool,
}

impl LastOpening {
    /// Reads it from the journal in `directory`; `None` if that has no opening.
    pub(super) fn read(directory: &Path) -> Option<LastOpening> {
        let (mut is_closed, mut has_died) = (false, false);
        for JournalEntry { unix_ns, event } in Journal::read(directory).ok()??.entries.into_iter().rev() {
            match event {
                Event::Opened(Opening { lineage, every_ns, .. }) => {
                    return Some(LastOpening { unix_ns, lineage, every_ns, is_closed, has_died });
                }
                Event::Closed => is_closed = true,
                Event::Died { .. } => has_died = true,
                _ => {}
            }
        }
        None
    }

    fn is_open(&self) -> bool {
        !self.is_closed && !self.has_died
    }
}

/// Notes in the journal of the space in `directory` that its last job has ended `why`, unless the journal already has
/// its end.
pub fn tell_death(directory: &Path, why: &str) {
    if LastOpening::read(directory).is_some_and(|last| last.is_open()) {
        let event = Event::Died { why: shortened(why) };
        Pen::new(vec![directory.to_owned()]).write(&[JournalEntry { unix_ns: unix_ns(), event }]);
    }
}

/// Marks the job that saves under `lineage` as ended in `directories`, the farthest level's first, unless that is done.
/// `memory_goes`: the data on the nearest level disappears with it.
pub(crate) fn tell_end(directories: &[PathBuf], lineage: u64, memory_goes: bool) {
    for directory in directories {
        if let Ok(Some(Status { job, mut progress })) = Status::read(directory)
            && progress.lineage <= lineage
            && !progress.ended
        {
            (progress.ended, progress.told_unix_ns) = (true, unix_ns());
            if let Some(nearest) = progress.levels.first_mut().filter(|_| memory_goes) {
                nearest.complete.clear();
                nearest.copies.iter_mut().for_each(|copy| copy.complete.clear());
            }
            // A failure only makes the displayed status stale.
            let _ = put(directory, &job, &progress);
        }
        if LastOpening::read(directory).is_some_and(|last| last.is_open() && last.lineage <= lineage) {
            Pen::new(vec![directory.clone()]).write(&[JournalEntry { unix_ns: unix_ns(), event: Event::Closed }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        space::LevelKind,
        status::{Job, JobProgress, LevelStatus, Opening, PlaceOfLevel, Saved},
    };

    #[test]
    fn the_end_is_told_once_and_of_no_newer_job() {
        let folder = tempfile::tempdir().unwrap();
        let directories = [folder.path().to_owned()];
        tell_end(&directories, 9, true);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing was told that could end");

        let saved = Saved { lineage: 3, revision: 7, saved_unix_ns: None };
        let level = LevelStatus { complete: vec![saved], ..LevelStatus::default() };
        let progress =
            JobProgress { lineage: 3, told_unix_ns: 5, levels: vec![level.clone(), level], ..JobProgress::default() };
        let place = |level| PlaceOfLevel {
            level,
            directories: vec!["/space".to_owned()],
            every: 1,
            keep: 1,
            outlives_nodes: false,
            holders: Vec::new(),
        };
        let places = vec![place(LevelKind::Memory), place(LevelKind::Pfs)];
        let job = Job { ranks: 1, places, ..Job::default() };
        put(folder.path(), &job, &progress).unwrap();
        let opening = Opening { lineage: 3, ranks: 1, ..Opening::default() };
        Pen::new(directories.to_vec()).write(&[JournalEntry { unix_ns: 5, event: Event::Opened(opening) }]);
        let found = || (Status::read(folder.path()).unwrap().unwrap(), Journal::read(folder.path()).unwrap().unwrap());

        tell_end(&directories, 2, true);
        assert_eq!((found().0.progress, found().1.entries.len()), (progress, 1), "a newer job has the space");
        for _ in 0..2 {
            tell_end(&directories, 3, true);
            let (status, journal) = found();
            assert!(status.progress.ended && status.progress.levels[0].complete.is_empty());
            assert_eq!(status.progress.levels[1].complete.len(), 1);
            assert_eq!(journal.entries.iter().map(|entry| &entry.event).collect::<Vec<_>>()[1..], [&Event::Closed]);
        }
    }
}
