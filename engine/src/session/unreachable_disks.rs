//! Revisions on node disks that are out of reach. A disk may come back with a revision newer than all others. A job
//! that went on without it would save over that revision.
//!
//! Invariants: all ranks come to the same answer. Only a revision that the status recorded can be missed.

use crate::{
    commit::RevisionKey,
    error::{Error, Result, named},
    group::{Group, broadcast},
    space::{GoneBack, LevelKind},
    status::{Saved, Status},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The newest revision that the status records on the disks, and the directories of the disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiskReport {
    lineage: u64,
    revision: u64,
    /// The revision was still being written there, and may have arrived.
    is_under_way: bool,
    directories: Vec<String>,
}

impl DiskReport {
    /// Reads the newest status in `directories` on rank 0. Leaves out revisions that a rollback discarded. Collective.
    pub(super) fn find(group: &dyn Group, directories: &[PathBuf], back: &[GoneBack]) -> Result<Option<DiskReport>> {
        let report = || DiskReport::of(&Status::newest_in(directories)?, back);
        let mine = if group.rank() == 0 { report() } else { None };
        broadcast(group, 0, &mine)
    }

    fn of(status: &Status, back: &[GoneBack]) -> Option<DiskReport> {
        let levels = status.job.places.iter().zip(&status.progress.levels);
        let (place, level) = levels.into_iter().find(|(place, _)| place.level == LevelKind::Disk)?;
        let lists = level.copies.iter().map(|copy| &copy.complete).chain([&level.complete]);
        let stays = |(lineage, number): &(u64, u64)| !back.iter().any(|back| back.leaves_out(*lineage, *number));
        let complete = lists.flatten().map(Saved::key).filter(stays).max();
        let under_way =
            level.under_way.filter(|_| !status.progress.ended).map(|number| (status.progress.lineage, number));
        let under_way = under_way.filter(stays);
        let (lineage, revision) = complete.max(under_way)?;
        let is_under_way = complete < under_way;
        Some(DiskReport { lineage, revision, is_under_way, directories: place.directories.clone() })
    }

    /// Whether this revision is newer than the newest one `left`, and its disks are not in sight.
    ///
    /// `seen` is the newest lineage of the disks in sight. A job that opens a level writes its lineage there. So disks
    /// with this lineage or a newer one have dropped every revision that they lack.
    pub(super) fn is_missed(&self, seen: u64, left: Option<RevisionKey>) -> bool {
        let left = left.map(|key| (key.lineage.number, key.number));
        seen < self.lineage && Some((self.lineage, self.revision)) > left
    }

    fn path(&self) -> String {
        named(self.directories.iter().map(String::as_str))
    }

    fn state(&self) -> &'static str {
        if self.is_under_way { "was on its way" } else { "is" }
    }

    /// The error that keeps the job from going on with the revision `left`.
    pub(super) fn refusal(&self, left: Option<RevisionKey>) -> Error {
        let (path, revision, state) = (self.path(), self.revision, self.state());
        let left = left.map_or("nothing".to_owned(), |key| format!("revision {}", key.number));
        Error::DiskOutOfSight { path, revision, state, left }
    }

    /// The remark if the job goes on all the same.
    pub(super) fn text(&self) -> String {
        let (path, revision, state) = (self.path(), self.revision, self.state());
        format!("revision {revision} {state} on the level disk, in {path}, which is out of reach: accepted as lost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{CopyStatus, Job, JobProgress, LevelStatus, PlaceOfLevel};

    fn saved(lineage: u64, revision: u64) -> Saved {
        Saved { lineage, revision, saved_unix_ns: None }
    }

    fn status(disk: LevelStatus) -> Status {
        let place = |level, directory: &str| PlaceOfLevel {
            level,
            directories: vec![directory.to_owned()],
            every: 1,
            keep: 1,
            outlives_nodes: false,
            holders: Vec::new(),
        };
        let places =
            vec![place(LevelKind::Memory, "/memory"), place(LevelKind::Disk, "/disk"), place(LevelKind::Pfs, "/space")];
        let memory = LevelStatus { complete: vec![saved(7, 90)], ..LevelStatus::default() };
        let levels = vec![memory, disk, LevelStatus::default()];
        Status {
            job: Job { places, ..Job::default() },
            progress: JobProgress { lineage: 7, levels, ..JobProgress::default() },
        }
    }

    fn report(disk: LevelStatus) -> Option<(u64, u64, bool)> {
        DiskReport::of(&status(disk), &[]).map(|report| (report.lineage, report.revision, report.is_under_way))
    }

    #[test]
    fn the_newest_on_the_disks_or_on_its_way_there_counts() {
        let none = LevelStatus::default;
        let complete = || vec![saved(7, 8), saved(6, 5)];
        assert_eq!(report(none()), None);
        assert_eq!(report(LevelStatus { complete: complete(), ..none() }), Some((7, 8, false)));
        let copy = CopyStatus { complete: complete(), ..CopyStatus::default() };
        assert_eq!(report(LevelStatus { copies: vec![copy], ..none() }), Some((7, 8, false)));
        assert_eq!(report(LevelStatus { under_way: Some(9), complete: complete(), ..none() }), Some((7, 9, true)));
        assert_eq!(report(LevelStatus { under_way: Some(1), ..none() }), Some((7, 1, true)));
        let mut ended = status(LevelStatus { under_way: Some(9), complete: complete(), ..none() });
        ended.progress.ended = true;
        assert_eq!(DiskReport::of(&ended, &[]).unwrap().revision, 8);
        // A revision that a rollback discarded is not missed.
        let back = [GoneBack { to: (6, 5), until: 7 }];
        let report = DiskReport::of(&status(LevelStatus { under_way: Some(9), complete: complete(), ..none() }), &back);
        assert_eq!(report.map(|report| report.revision), Some(5));
        let mut without = status(none());
        without.job.places.remove(1);
        without.progress.levels.remove(1);
        assert_eq!(DiskReport::of(&without, &[]), None);
    }

    #[test]
    fn what_is_as_new_elsewhere_or_was_let_go_is_not_missed() {
        let report = DiskReport { lineage: 7, revision: 8, is_under_way: false, directories: vec!["/disk".to_owned()] };
        let missed = |seen, left: Option<(u64, u64)>| {
            report.is_missed(seen, left.map(|(lineage, number)| RevisionKey::new(lineage_of(lineage), number)))
        };
        assert!(missed(0, None) && missed(6, Some((7, 7))) && missed(0, Some((6, 50))));
        assert!(!missed(0, Some((7, 8))) && !missed(0, Some((8, 1))));
        // The disks are there without the revision: it was pruned or rolled back.
        assert!(!missed(7, Some((7, 4))) && !missed(8, None));
        let refusal = report.refusal(None).to_string();
        assert!(
            refusal.contains("revision 8") && refusal.contains("/disk") && refusal.contains("nothing"),
            "{refusal}"
        );
        assert!(refusal.contains("disk_lost = \"accepted\""), "{refusal}");
    }

    fn lineage_of(number: u64) -> crate::space::format::Lineage {
        crate::space::format::Lineage { number, id: [1; 16] }
    }
}
