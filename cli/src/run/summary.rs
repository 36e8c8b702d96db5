//! The result of a run: counted while the run goes on, and printed at its end.

use super::{report::Reported, spaces::Newest};
use crate::{exit::say, text};
use mainstay_engine::{
    printable_path,
    status::{Completion, Event, Journal, Recovery},
    unix_ns,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

/// In a shorter run, one checkpoint is a large share of the time, which says nothing about longer runs.
const SHARE_FROM_NS: u64 = 60_000_000_000;

/// The run so far, of all starts.
pub struct Summary {
    begun: Instant,
    begun_unix_ns: u64,
    starts: u32,
    /// Begin of the present failure-free period: the last start, or the last recovery.
    undisturbed_unix_ns: u64,
    /// End of the last start, until the next begins.
    ended: Option<Instant>,
    ended_unix_ns: u64,
    /// Time from the newest complete revision to the failure of a start or of ranks.
    again_ns: u64,
    /// Time from the end of a failed start to the next one.
    between_ns: u64,
}

/// The reports about a space, and its journal since the run began: rank 0's times, in nanoseconds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Inside {
    checkpoints: u64,
    checkpoints_ns: u64,
    restores: u64,
    restores_ns: u64,
    recoveries: u64,
    recoveries_ns: u64,
}

impl Summary {
    pub fn begin() -> Summary {
        let now = unix_ns();
        Summary {
            begun: Instant::now(),
            begun_unix_ns: now,
            starts: 0,
            undisturbed_unix_ns: now,
            ended: None,
            ended_unix_ns: now,
            again_ns: 0,
            between_ns: 0,
        }
    }

    pub fn starts(&mut self) {
        self.starts += 1;
        self.undisturbed_unix_ns = unix_ns();
        self.between_ns += self.ended.take().map_or(0, |ended| ended.elapsed().as_nanos() as u64);
    }

    /// Ends the present start, in which the job recovered from these failures, one after another.
    pub fn ended(&mut self, recovered: &[(PathBuf, Recovery)]) {
        (self.ended, self.ended_unix_ns) = (Some(Instant::now()), unix_ns());
        for (_, recovery) in recovered {
            let saved = recovery.back_to.and_then(|back| back.saved_unix_ns);
            let since = saved.unwrap_or(0).max(self.undisturbed_unix_ns);
            self.again_ns += recovery.noticed_unix_ns.saturating_sub(since);
            let went_on = recovery.noticed_unix_ns.saturating_add(recovery.total_ns);
            self.undisturbed_unix_ns = self.undisturbed_unix_ns.max(went_on);
        }
    }

    /// The last start did not end in order, and left `newest` to go on from.
    pub fn lost_after(&mut self, newest: &Newest) {
        let since = newest.saved_unix_ns().unwrap_or(0).max(self.undisturbed_unix_ns);
        self.again_ns += self.ended_unix_ns.saturating_sub(since);
    }

    /// Prints the result of the run in a few lines. There is no summary for a job that was never started or saves
    /// nothing.
    pub fn tell(&self, spaces: &[PathBuf], newest: &Newest, told: &Reported) {
        if self.starts == 0 || (spaces.is_empty() && !newest.has_files()) {
            return;
        }
        let run_ns = self.begun.elapsed().as_nanos() as u64;
        say(&format!(
            "summary: {} and {} in {}; lost {}: {} of work after the last {}, {} between starts",
            text::count(u64::from(self.starts), "start"),
            text::count(u64::from(self.starts - 1), "restart"),
            text::age(run_ns),
            text::age(self.again_ns + self.between_ns),
            text::age(self.again_ns),
            if spaces.is_empty() { "restart file" } else { "revision" },
            text::age(self.between_ns),
        ));
        for line in newest.ages(unix_ns()) {
            say(&format!("summary: {line}"));
        }
        for space in spaces {
            if let Ok(journal) = Journal::read(space) {
                let path = space.canonicalize().unwrap_or_else(|_| space.clone());
                let inside = Inside::of(&journal.unwrap_or_default(), told, &path, self.begun_unix_ns);
                self.tell_inside(space, &inside, run_ns);
            }
        }
    }

    fn tell_inside(&self, space: &Path, inside: &Inside, run_ns: u64) {
        let Inside { checkpoints, checkpoints_ns, restores, restores_ns, recoveries, recoveries_ns } = *inside;
        let all_ns = checkpoints_ns + restores_ns + recoveries_ns;
        let kinds = [
            (checkpoints, checkpoints_ns, "checkpoint"),
            (restores, restores_ns, "restore"),
            (recoveries, recoveries_ns, "recovery"),
        ];
        let kinds = kinds.iter().filter(|(number, ..)| *number > 0);
        let kinds: Vec<String> =
            kinds.map(|(number, ns, what)| format!("{} {}", text::count(*number, what), text::duration(*ns))).collect();
        if !kinds.is_empty() {
            say(&format!(
                "summary: inside Mainstay {}{} ({}), in {}",
                text::duration(all_ns),
                share(all_ns, run_ns),
                kinds.join(", "),
                printable_path(space),
            ));
        }
    }
}

/// Mainstay's share of a run; empty for a short run.
fn share(all_ns: u64, run_ns: u64) -> String {
    let percent = 100.0 * all_ns as f64 / run_ns.max(1) as f64;
    if run_ns < SHARE_FROM_NS { String::new() } else { format!(", {percent:.2} % of the time") }
}

impl Inside {
    /// Times of the entries since `begun_unix_ns`. A revision counts once, by its first entry, for the nearest level;
    /// so do a restore and a recovery. Some are only `told` and in no journal: a failed rank 0 loses its unwritten
    /// entries, and a job with one level writes them late.
    fn of(journal: &Journal, told: &Reported, space: &Path, begun_unix_ns: u64) -> Inside {
        let mut inside = Inside::default();
        let mut perceived = told.checkpoints.get(space).cloned().unwrap_or_default();
        let mut restored = told.restores.get(space).cloned().unwrap_or_default();
        let recoveries = told.recovered.iter().filter(|(on, _)| on == space).map(|(_, recovery)| recovery);
        let mut recovered: BTreeMap<u64, u64> =
            recoveries.map(|recovery| (recovery.lineage, recovery.total_ns)).collect();
        for entry in journal.entries.iter().filter(|entry| entry.unix_ns >= begun_unix_ns) {
            match &entry.event {
                Event::Complete(Completion { lineage, revision, phases: Some(phases), .. }) => {
                    perceived.entry((*lineage, *revision)).or_insert(phases.perceived_ns);
                }
                Event::Restored { lineage, revision, took_ns, .. } => {
                    restored.insert(((*lineage, *revision), *took_ns));
                }
                Event::Recovered(recovery) => {
                    recovered.insert(recovery.lineage, recovery.total_ns);
                }
                _ => {}
            }
        }
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0, u64::saturating_add);
        (inside.checkpoints, inside.recoveries) = (perceived.len() as u64, recovered.len() as u64);
        inside.restores = restored.len() as u64;
        inside.checkpoints_ns = sum(&mut perceived.into_values());
        inside.restores_ns = sum(&mut restored.into_iter().map(|(_, took_ns)| took_ns));
        inside.recoveries_ns = sum(&mut recovered.into_values());
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::{
        LevelKind,
        space::format::PhaseRecord,
        status::{JournalEntry, Saved},
    };

    #[test]
    fn a_revision_counts_once_and_only_of_this_run() {
        let complete = |unix_ns, level, revision, perceived_ns| {
            let phases = Some(PhaseRecord { perceived_ns, ..PhaseRecord::default() });
            let (copy, lineage, step, bytes) = (0, 1, None, None);
            JournalEntry {
                unix_ns,
                event: Event::Complete(Completion {
                    level,
                    copy,
                    lineage,
                    revision,
                    step,
                    bytes,
                    phases,
                    saved_early: None,
                    put_off: 0,
                }),
            }
        };
        let restored = Event::Restored { lineage: 1, revision: 1, step: None, took_ns: 50, skipped: Vec::new() };
        let entries = vec![
            complete(9, LevelKind::Pfs, 1, 1000),
            JournalEntry { unix_ns: 10, event: restored },
            complete(11, LevelKind::Memory, 2, 7),
            complete(12, LevelKind::Pfs, 2, 900),
            complete(13, LevelKind::Memory, 3, 8),
        ];
        let wanted = Inside { checkpoints: 2, checkpoints_ns: 15, restores: 1, restores_ns: 50, ..Inside::default() };
        let journal = Journal { entries, passed_over: 0 };
        assert_eq!(Inside::of(&journal, &Reported::default(), Path::new("/a"), 10), wanted);
    }

    /// A first try of some seconds was reported to spend half of its time on checkpoints.
    #[test]
    fn the_share_is_told_of_a_minute_and_more() {
        assert_eq!(share(500, 59_999_999_999), "");
        assert_eq!(share(600_000_000, 60_000_000_000), ", 1.00 % of the time");
    }

    /// Before, a killed job with one level counted for nothing, for example after SIGTERM at the end of its time: it
    /// writes its journal when it ends.
    #[test]
    fn what_is_told_of_a_killed_job_counts_and_once() {
        let told = Reported::read(
            b"checkpoint 1 1 40 /a\0checkpoint 1 2 7 /a\0restored 1 2 50 /a\0restored 1 2 60 /a\0checkpoint 1 1 900 /b\0",
        );
        let restored = Event::Restored { lineage: 1, revision: 2, step: None, took_ns: 50, skipped: Vec::new() };
        let journal = Journal { entries: vec![JournalEntry { unix_ns: 10, event: restored }], passed_over: 0 };
        let wanted = Inside { checkpoints: 2, checkpoints_ns: 47, restores: 2, restores_ns: 110, ..Inside::default() };
        assert_eq!(Inside::of(&journal, &told, Path::new("/a"), 10), wanted);
    }

    /// Before, only the journal counted: entries that a failed rank 0 had not written were left out.
    #[test]
    fn a_recovery_counts_once_whoever_tells_of_it() {
        let recovery = |lineage, total_ns| Recovery { lineage, total_ns, ..Recovery::default() };
        let noted = |unix_ns, recovery| JournalEntry { unix_ns, event: Event::Recovered(recovery) };
        let entries = vec![noted(9, recovery(2, 100)), noted(11, recovery(4, 30)), noted(12, recovery(4, 30))];
        let recovered = [recovery(3, 5), recovery(4, 30)].map(|recovery| (PathBuf::from("/a"), recovery)).to_vec();
        let told = Reported { recovered, ..Reported::default() };
        let wanted = Inside { recoveries: 2, recoveries_ns: 35, ..Inside::default() };
        assert_eq!(Inside::of(&Journal { entries, passed_over: 0 }, &told, Path::new("/a"), 10), wanted);
    }

    /// Lost work counts from the revision that the job goes back to; from the last recovery, if it is the same revision
    /// again; and all of it if the job begins anew. A job with two open spaces reports one failure twice.
    #[test]
    fn work_that_is_lost_in_a_job_that_goes_on_counts() {
        let recovery = |noticed_unix_ns, saved_unix_ns: Option<u64>| {
            let back_to = saved_unix_ns.map(|at| Saved { saved_unix_ns: Some(at), ..Saved::default() });
            (PathBuf::from("/a"), Recovery { noticed_unix_ns, total_ns: 10, back_to, ..Recovery::default() })
        };
        let mut summary = Summary { undisturbed_unix_ns: 1000, ..Summary::begin() };
        summary.ended(&[recovery(1100, Some(1060)), recovery(1150, Some(1060)), recovery(1155, Some(1060))]);
        assert_eq!((summary.again_ns, summary.undisturbed_unix_ns), (40 + 40, 1165));
        let mut summary = Summary { undisturbed_unix_ns: 1000, ..Summary::begin() };
        summary.ended(&[recovery(1100, None), recovery(1300, Some(900))]);
        assert_eq!(summary.again_ns, 100 + 190);
    }
}
