//! Which spaces the job saves to, and how far it has come.

use crate::exit::say;
use mainstay_engine::{Error, RevisionKey, SpaceSurvey, printable_path};
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
    path::{Path, PathBuf},
};

/// Where rank 0 of each session of the job tells which space it uses. A file without a name, that only
/// this user can open: nothing is left of it, however we end.
pub struct Report {
    file: File,
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

    /// All spaces that were told of so far, each once.
    pub fn spaces(&self) -> Vec<PathBuf> {
        let mut bytes = vec![0; self.file.metadata().map_or(0, |file| file.len() as usize)];
        if self.file.read_exact_at(&mut bytes, 0).is_err() {
            return Vec::new();
        }
        let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let mut spaces: Vec<PathBuf> = paths.map(|path| OsStr::from_bytes(path).into()).collect();
        spaces.sort();
        spaces.dedup();
        spaces
    }
}

/// The newest complete revision of each space that has one.
#[derive(Debug, PartialEq, Eq)]
pub struct Newest(BTreeMap<PathBuf, RevisionKey>);

impl Newest {
    pub fn of(spaces: &[PathBuf]) -> Newest {
        let newest = |space: &PathBuf| match SpaceSurvey::open_all(space) {
            Ok(survey) => survey.newest().map(|revision| (space.clone(), revision.key)),
            // The job may have failed before it made it.
            Err(Error::NotASpace { .. }) => None,
            Err(error) => {
                say(&error.to_string());
                None
            }
        };
        Newest(spaces.iter().filter_map(newest).collect())
    }
}

impl fmt::Display for Newest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no complete revision");
        }
        let all = self.0.iter().map(|(space, key)| {
            format!("revision {} (lineage {}) of {}", key.number, key.lineage.number, printable_path(space))
        });
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

/// What cannot be told is no reason to wait.
pub fn is_in_use(space: &Path) -> bool {
    matches!(SpaceSurvey::is_in_use(space), Ok(Some(true)))
}

/// Whether it is sure that no job has it open.
pub fn is_free(space: &Path) -> bool {
    matches!(SpaceSurvey::is_in_use(space), Ok(Some(false)))
}

/// Whether it is sure that nothing is saved there: neither a shard that can be seen nor one that cannot be read.
pub fn is_without_revision(space: &Path) -> bool {
    match SpaceSurvey::open_all(space) {
        Ok(survey) => survey.revisions.is_empty() && survey.damage.is_empty() && survey.not_here().is_empty(),
        Err(error) => matches!(error, Error::NotASpace { .. }),
    }
}
