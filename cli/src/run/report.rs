//! What the job's rank 0 tells, as `engine/src/session/report.rs` has it.

use super::spaces::Key;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt,
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::PathBuf,
};

/// A file without a name, that only this user can open: nothing is left of it, however we end.
pub struct Report {
    file: File,
}

/// What all starts so far, or those since a mark, have told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The spaces that were opened, and whether they still are: a job that goes on after a failure opens its space anew.
    open: BTreeMap<PathBuf, bool>,
    pub recovered: Vec<Recovered>,
    /// Ranks have failed while a session was closed, and nothing is lost.
    pub left: bool,
    /// Each space's newest complete revision, on whichever level.
    pub newest: BTreeMap<PathBuf, Key>,
    /// The spaces that the job uses, whether or not it has got to opening them.
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

    /// Where the words of a job that is started now begin.
    pub fn mark(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }

    pub fn told_since(&self, mark: u64) -> Told {
        self.told_between(mark, self.mark())
    }

    fn told_between(&self, mark: u64, end: u64) -> Told {
        let mut bytes = vec![0; end.saturating_sub(mark) as usize];
        if self.file.read_exact_at(&mut bytes, mark).is_err() {
            return Told::default();
        }
        Told::read(&bytes)
    }

    /// All spaces that were told of so far, each once.
    pub fn spaces(&self) -> Vec<PathBuf> {
        self.told_since(0).spaces
    }
}

/// The job has gone on after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    ranks: Vec<u32>,
    /// The revision that it went back to; `None` if it began anew.
    revision: Option<u64>,
    ns: u64,
}

impl Recovered {
    fn read([lineage, number, ns, ranks]: [&str; 4]) -> Option<Recovered> {
        let _: u64 = lineage.parse().ok()?;
        let revision = if number == "-" { None } else { Some(number.parse().ok()?) };
        let ranks = if ranks == "-" { "" } else { ranks };
        let ranks = ranks.split(',').filter(|rank| !rank.is_empty()).map(|rank| rank.parse().ok());
        Some(Recovered { ranks: ranks.collect::<Option<_>>()?, revision, ns: ns.parse().ok()? })
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        match &ranks[..] {
            [] => f.write_str("ranks failed")?,
            [one] => write!(f, "rank {one} failed")?,
            [all @ .., last] => write!(f, "ranks {} and {last} failed", all.join(", "))?,
        }
        f.write_str("; the job went on ")?;
        match self.revision {
            Some(revision) => write!(f, "from revision {revision}")?,
            None => f.write_str("anew")?,
        }
        write!(f, " after {:.2} s", self.ns as f64 / 1e9)
    }
}

/// The recoveries of a start, as they are told.
pub struct Recoveries<'a> {
    report: &'a Report,
    /// Where its words begin.
    begun: u64,
    /// Up to here it was asked.
    mark: u64,
}

impl Recoveries<'_> {
    pub fn since(report: &Report, mark: u64) -> Recoveries<'_> {
        Recoveries { report, begun: mark, mark }
    }

    /// Whether the job has told anything.
    pub fn has_told(&self) -> bool {
        self.report.mark() > self.begun
    }

    /// Those that were told since it was last asked.
    pub fn news(&mut self) -> Vec<Recovered> {
        // Each word is written as a whole.
        let end = self.report.mark();
        let told = self.report.told_between(self.mark, end);
        self.mark = end;
        told.recovered
    }
}

impl Told {
    fn read(bytes: &[u8]) -> Told {
        let mut told = Told::default();
        for word in bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
            // Paths are absolute, so that a path alone is none of the others.
            let (what, path) = word.split_at(word.iter().position(|byte| *byte == b'/').unwrap_or(word.len()));
            let path = PathBuf::from(OsStr::from_bytes(path));
            let what = str::from_utf8(what).unwrap_or("?");
            match what.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                [] => told.spaces.push(path),
                ["opened"] => drop(told.open.insert(path, true)),
                ["closed"] => drop(told.open.insert(path, false)),
                ["left"] => {
                    told.open.insert(path, false);
                    told.left = true;
                }
                ["recovered", lineage, number, ns, ranks] => {
                    told.recovered.extend(Recovered::read([lineage, number, ns, ranks]));
                }
                ["complete", lineage, number] => {
                    if let (Ok(lineage), Ok(number)) = (lineage.parse(), number.parse()) {
                        let newest = told.newest.entry(path).or_default();
                        *newest = (*newest).max((lineage, number));
                    }
                }
                _ => {} // of a newer library
            }
        }
        told.spaces.sort();
        told.spaces.dedup();
        told
    }

    /// Whether any space was opened: only then is it known which were closed.
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
        let told = Told::read(
            b"/b c\0/a\0opened /b c\0complete 3 7 /b c\0complete 3 6 /b c\0closed /b c\0opened /a\0news /a\0/a\0",
        );
        assert_eq!(told.spaces, [PathBuf::from("/a"), PathBuf::from("/b c")]);
        assert_eq!(told.left_open(), Some(&PathBuf::from("/a")));
        assert_eq!(told.newest, BTreeMap::from([(PathBuf::from("/b c"), (3, 7))]));
        assert!(told.is_known() && !Told::read(b"/a\0").is_known());
        // One session after the other.
        let told = Told::read(b"opened /a\0closed /a\0opened /a\0closed /a\0");
        assert_eq!((told.left_open(), told.is_known()), (None, true));
        // One that a failed rank 0 had opened was not closed by it.
        let told = Told::read(b"opened /a\0opened /a\0closed /a\0");
        assert_eq!(told.left_open(), None);
    }

    /// By ranks that are left, of which one may not have heard of the failure.
    #[test]
    fn a_session_that_was_closed_without_all_ranks_is_closed() {
        let told = Told::read(b"opened /a\0left /a\0left /a\0");
        assert!(told.left && told.left_open().is_none());
        // Of a job that goes on when ranks fail, all tell that it is closed.
        let told = Told::read(b"opened /a\0closed /a\0closed /a\0");
        assert!(!told.left && told.left_open().is_none());
        assert!(!Told::read(b"opened /a\0closed /a\0").left);
    }

    #[test]
    fn recoveries_are_told_in_words() {
        let told = Told::read(
            b"opened /a\0recovered 2 7 120000000 2 /a\0recovered 3 - 2000000000 0,1,3 /a\0recovered 3 - x 0 /a\0closed /a\0",
        );
        let told: Vec<String> = told.recovered.iter().map(ToString::to_string).collect();
        let wanted = [
            "rank 2 failed; the job went on from revision 7 after 0.12 s",
            "ranks 0, 1 and 3 failed; the job went on anew after 2.00 s",
        ];
        assert_eq!(told, wanted);
    }
}
