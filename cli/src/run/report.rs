//! The reports of the job's rank 0, as `engine/src/session/report.rs` writes them.

use super::spaces::Key;
use mainstay_engine::status::Recovery;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::PathBuf,
};

/// A file without a name, which only this user can open: nothing is left of it, however this process ends.
pub struct Report {
    file: File,
}

/// The reports of all starts so far, or since a mark.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The opened spaces, and whether they are still open: a job that recovers from a failure opens its space anew.
    pub(super) open: BTreeMap<PathBuf, bool>,
    /// The recoveries of the job, each with the open space.
    pub recovered: Vec<(PathBuf, Recovery)>,
    /// Spaces that were opened anew without a reported reason: no rank that knew of the failure is left.
    pub untold: BTreeSet<PathBuf>,
    /// Ranks have failed during the close of a session, and nothing is lost.
    pub left: bool,
    /// Each space's newest complete revision, on any level.
    pub newest: BTreeMap<PathBuf, Key>,
    /// For each space, rank 0's wait for each revision, in nanoseconds.
    pub checkpoints: BTreeMap<PathBuf, BTreeMap<Key, u64>>,
    /// For each space, the restores and their times.
    pub restores: BTreeMap<PathBuf, BTreeSet<(Key, u64)>>,
    /// The ranks of the job cannot run in slots.
    pub refused: bool,
    /// The exit code of a program whose ranks in slots have all ended.
    pub ended: Option<u8>,
    /// For each space, the revision of a rehearsed job's end.
    pub ends: BTreeMap<PathBuf, u64>,
    /// The restart files that have got their names (`files/src/report.rs`), each with its generation.
    pub files: Vec<(PathBuf, u64)>,
    /// The spaces that the job uses, even if it has not opened them yet.
    pub spaces: Vec<PathBuf>,
}

impl Report {
    pub const VARIABLE: &str = "MAINSTAY_RUN_REPORT";

    pub fn new() -> io::Result<Report> {
        let file = memfd_create(c"mainstay-run-report", MFdFlags::MFD_CLOEXEC)?;
        Ok(Report { file: file.into() })
    }

    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The place where the reports of a new job begin.
    pub fn mark(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }

    pub fn told_since(&self, mark: u64) -> Reported {
        self.told_between(mark, self.mark())
    }

    pub fn told_between(&self, mark: u64, end: u64) -> Reported {
        let mut bytes = vec![0; end.saturating_sub(mark) as usize];
        if self.file.read_exact_at(&mut bytes, mark).is_err() {
            return Reported::default();
        }
        Reported::read(&bytes)
    }

    /// All spaces in the reports so far, each once.
    pub fn spaces(&self) -> Vec<PathBuf> {
        self.told_since(0).spaces
    }
}

/// The recoveries of a start, as they are reported.
pub struct Recoveries<'a> {
    report: &'a Report,
    /// The begin of its reports.
    begun: u64,
    /// The reports were read up to here.
    mark: u64,
}

impl Recoveries<'_> {
    pub fn since(report: &Report, mark: u64) -> Recoveries<'_> {
        Recoveries { report, begun: mark, mark }
    }

    /// Has the job reported anything?
    pub fn has_told(&self) -> bool {
        self.report.mark() > self.begun
    }

    /// The recoveries since the last call.
    pub fn news(&mut self) -> impl Iterator<Item = Recovery> + use<> {
        // Each report is written as a whole.
        let end = self.report.mark();
        let told = self.report.told_between(self.mark, end);
        self.mark = end;
        told.recovered.into_iter().map(|(_, recovery)| recovery)
    }
}

impl Reported {
    pub(super) fn read(bytes: &[u8]) -> Reported {
        let mut told = Reported::default();
        for word in bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
            // Paths are absolute, so a path alone is no other kind of report.
            let (what, path) = word.split_at(word.iter().position(|byte| *byte == b'/').unwrap_or(word.len()));
            let path = PathBuf::from(OsStr::from_bytes(path));
            let what = str::from_utf8(what).unwrap_or("?");
            match what.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                [] => told.spaces.push(path),
                ["refused"] => told.refused = true,
                ["file", generation] => told.files.extend(generation.parse().ok().map(|number| (path, number))),
                ["ended", code] => told.ended = code.parse().ok(),
                ["opened"] if told.open.insert(path.clone(), true) == Some(true) => {
                    told.untold.insert(path);
                }
                ["opened"] => {}
                ["end", number] => {
                    if let Ok(number) = number.parse() {
                        told.ends.insert(path, number);
                    }
                }
                ["closed"] => drop(told.open.insert(path, false)),
                ["left"] => {
                    told.open.insert(path, false);
                    told.left = true;
                }
                ["recovered", recovery] => {
                    told.untold.remove(&path);
                    told.recovered.extend(Recovery::of_word(recovery).map(|recovery| (path, recovery)));
                }
                ["complete", lineage, number] => {
                    if let (Ok(lineage), Ok(number)) = (lineage.parse(), number.parse()) {
                        let newest = told.newest.entry(path).or_default();
                        *newest = (*newest).max((lineage, number));
                    }
                }
                [what @ ("checkpoint" | "restored"), lineage, number, ns] => {
                    if let (Ok(lineage), Ok(number), Ok(ns)) = (lineage.parse(), number.parse(), ns.parse()) {
                        let key = (lineage, number);
                        if what == "restored" {
                            told.restores.entry(path).or_default().insert((key, ns));
                        } else {
                            told.checkpoints.entry(path).or_default().insert(key, ns);
                        }
                    }
                }
                _ => {} // from a newer library
            }
        }
        told.spaces.sort();
        told.spaces.dedup();
        told
    }

    /// Has the job recovered from a failure?
    pub fn went_on(&self) -> bool {
        self.left || !self.recovered.is_empty()
    }

    /// Was any space opened? Only then are the closed ones known.
    pub fn is_known(&self) -> bool {
        !self.open.is_empty()
    }

    /// A space that was opened, and not closed in order.
    pub fn left_open(&self) -> Option<&PathBuf> {
        self.open.iter().find(|(_, is_open)| **is_open).map(|(space, _)| space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_and_not_closed_is_known() {
        let told = Reported::read(
            b"/b c\0/a\0opened /b c\0complete 3 7 /b c\0complete 3 6 /b c\0closed /b c\0opened /a\0news /a\0/a\0",
        );
        assert_eq!(told.spaces, [PathBuf::from("/a"), PathBuf::from("/b c")]);
        assert_eq!(told.left_open(), Some(&PathBuf::from("/a")));
        assert_eq!(told.newest, BTreeMap::from([(PathBuf::from("/b c"), (3, 7))]));
        assert!(told.is_known() && !Reported::read(b"/a\0").is_known());
        // One session after the other.
        let told = Reported::read(b"opened /a\0closed /a\0opened /a\0closed /a\0");
        assert_eq!((told.left_open(), told.is_known(), told.went_on()), (None, true, false));
        // A space that a failed rank 0 had opened was not closed by it.
        let told = Reported::read(b"opened /a\0opened /a\0closed /a\0");
        assert_eq!((told.left_open(), told.went_on(), told.untold.len()), (None, false, 1));
    }

    /// From remaining ranks, one of which may not have heard of the failure.
    #[test]
    fn a_session_that_was_closed_without_all_ranks_is_closed() {
        let told = Reported::read(b"opened /a\0left /a\0left /a\0");
        assert!(told.left && told.left_open().is_none());
        // In a job that goes on when ranks fail, all ranks report the close.
        let told = Reported::read(b"opened /a\0closed /a\0closed /a\0");
        assert!(!told.left && told.left_open().is_none());
        assert!(!Reported::read(b"opened /a\0closed /a\0").left);
    }

    #[test]
    fn recoveries_are_told_in_words() {
        let lost = r#"["revision\u00207\u0020in\u0020\u002fb:\u0020gone"]"#;
        let word = |failed: &str, lost: &str| {
            format!(
                r#"recovered {{"noticed_unix_ns":1,"failed":{failed},"way":"spare","ranks_before":4,"ranks":4,"parts":{{"regroup_ns":0,"open_ns":0,"copies_ns":0,"state_ns":0}},"total_ns":120000000,"back_to":null,"lineage":2,"step":null,"lost":{lost}}} /b c"#
            )
        };
        let words =
            ["opened /b c", &word("[2]", lost), &word("[4]", "[]"), "recovered 2 7 120000000 2 /b c", "closed /b c"];
        let told = Reported::read(words.join("\0").as_bytes());
        let told: Vec<String> = told
            .recovered
            .iter()
            .map(|(path, recovery)| format!("{}: {}", path.display(), recovery.summary()))
            .collect();
        let parts = "a spare took its place; group 0.000 s, opening 0.000 s, state 0.000 s, copies 0.000 s";
        let wanted =
            format!("/b c: rank 2 failed; the job went on anew after 0.12 s ({parts}); lost: revision 7 in /b: gone");
        assert_eq!(told, [wanted]);
    }
}
