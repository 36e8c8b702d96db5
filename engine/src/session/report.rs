//! Messages of rank 0 to `mainstay run`, if that started the job. They are words that end with a zero byte, in the file
//! that an environment variable names. Nothing depends on a reader.
//!
//! | word | meaning |
//! |---|---|
//! | PATH | a session is about to open the space PATH |
//! | `opened` PATH | the space is open |
//! | `complete` LINEAGE NUMBER PATH | a revision is complete on the nearest level |
//! | `checkpoint` LINEAGE NUMBER NS PATH | a checkpoint was taken, with this perceived time; a later word says if it is
//! complete |
//! | `restored` LINEAGE NUMBER NS PATH | a revision was restored, in this time |
//! | `recovered` RECOVERY PATH | the job went on after a failure; RECOVERY is its journal entry without spaces and
//! slashes; rank 0 prints no remark then |
//! | `end` NUMBER PATH | a session closed in a rehearsal has saved its end as this revision |
//! | `closed` PATH | all ranks have ended the session, even if its last revision failed |
//! | `file` GENERATION PATH | a restart file has got its name; the helper of `mainstay files` writes this word |
//! | `left` PATH | ranks failed during the end, and nothing is lost; written by all ranks that are left |

use crate::{commit::RevisionKey, ground::files::Open, printable::shortened, status::Recovery};
use std::{
    fs::{File, read_link},
    io::Write,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

const VARIABLE: &str = "MAINSTAY_RUN_REPORT";
/// The system's name for the file that `mainstay run` makes (`memfd_create`).
const MEMORY_FILE: &str = "/memfd:mainstay-run-report";

pub(super) struct Report {
    file: File,
    space: PathBuf,
}

impl Report {
    /// `None` unless a reader is there. For rank 0.
    pub(super) fn begin(space: &Path) -> Option<Report> {
        let report = Report::find(space)?;
        report.tell("");
        Some(report)
    }

    /// As `begin`, for a rank that reports in place of rank 0.
    pub(super) fn find(space: &Path) -> Option<Report> {
        let file = Open::to_append().through_links().file(Path::new(&std::env::var_os(VARIABLE)?)).ok()?;
        // On another machine than that of `mainstay run`, the path may lead to any file of any process.
        let name = read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        if !name.as_os_str().as_bytes().starts_with(MEMORY_FILE.as_bytes()) {
            return None;
        }
        Some(Report { file, space: space.canonicalize().unwrap_or_else(|_| space.to_owned()) })
    }

    pub(super) fn opened(&self) {
        self.tell("opened ");
    }

    pub(super) fn complete(&self, key: RevisionKey) {
        self.tell(&format!("complete {} {} ", key.lineage.number, key.number));
    }

    pub(super) fn checkpoint(&self, key: RevisionKey, perceived_ns: u64) {
        self.tell(&format!("checkpoint {} {} {perceived_ns} ", key.lineage.number, key.number));
    }

    pub(super) fn restored(&self, key: RevisionKey, took_ns: u64) {
        self.tell(&format!("restored {} {} {took_ns} ", key.lineage.number, key.number));
    }

    /// Returns whether the word was written. If so, `mainstay run` informs the user.
    pub(super) fn recovered(&self, recovery: &Recovery) -> bool {
        self.tell(&format!("recovered {} ", recovery.clone().shortened(shortened).word()))
    }

    pub(super) fn end_saved(&self, number: u64) {
        self.tell(&format!("end {number} "));
    }

    pub(super) fn closed(&self) {
        self.tell("closed ");
    }

    pub(super) fn left(&self) {
        self.tell("left ");
    }

    fn tell(&self, what: &str) -> bool {
        // The word ends with zero because a path may hold any other byte. One write keeps words of coupled jobs apart.
        (&self.file).write_all(&[what.as_bytes(), self.space.as_os_str().as_bytes(), b"\0"].concat()).is_ok()
    }
}
