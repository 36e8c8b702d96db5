//! What the job's rank 0 tells, as `engine/src/session/report.rs` has it.

use super::spaces::Key;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
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
    /// How often each space was opened, less how often it was closed.
    open: BTreeMap<PathBuf, i64>,
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
        let mut bytes = vec![0; self.mark().saturating_sub(mark) as usize];
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
                ["opened"] => *told.open.entry(path).or_default() += 1,
                ["closed"] => *told.open.entry(path).or_default() -= 1,
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
        self.open.iter().find(|(_, count)| **count > 0).map(|(space, _)| space)
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
    }
}
