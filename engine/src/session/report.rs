//! What rank 0 tells `mainstay run`, which may have started the job: words that end with a zero byte, in the file that an
//! environment variable names. Nothing depends on anybody reading them.
//!
//! | word | says |
//! |---|---|
//! | PATH | a session is about to open the space PATH |
//! | `opened` PATH | it is open |
//! | `complete` LINEAGE NUMBER PATH | a revision is complete on the nearest level |
//! | `checkpoint` LINEAGE NUMBER NS PATH | one was taken, for which the program waited so long; whether it is complete is told later |
//! | `restored` LINEAGE NUMBER NS PATH | a revision came back, which took so long |
//! | `recovered` RECOVERY PATH | it went on after a failure: RECOVERY is what the journal says of that, without spaces and slashes; rank 0 says nothing of it then |
//! | `end` NUMBER PATH | a session that is closed in a rehearsal has saved its end as this revision |
//! | `closed` PATH | all ranks have ended the session, whatever became of its last revision |
//! | `left` PATH | ranks have failed while it was ended, and nothing is lost; told by all that are left |

use crate::{commit::RevisionKey, ground::files::Open, printable::shortened, status::Recovery};
use std::{
    fs::{File, read_link},
    io::Write,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

const VARIABLE: &str = "MAINSTAY_RUN_REPORT";
/// How the system names what `mainstay run` makes for it (`memfd_create`).
const MEMORY_FILE: &str = "/memfd:mainstay-run-report";

pub(super) struct Report {
    file: File,
    space: PathBuf,
}

impl Report {
    /// `None` where nobody wants to be told. Of rank 0 alone.
    pub(super) fn begin(space: &Path) -> Option<Report> {
        let report = Report::find(space)?;
        report.tell("");
        Some(report)
    }

    /// The same of a rank that takes the place of rank 0 in this.
    pub(super) fn find(space: &Path) -> Option<Report> {
        let file = Open::to_append().through_links().file(Path::new(&std::env::var_os(VARIABLE)?)).ok()?;
        // On another machine than that of `mainstay run` the path may lead to any file of any process.
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

    /// Returns whether it could be told, so that `mainstay run` says it to the user.
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
        // A path may hold any byte but zero. One write, so that the words of coupled jobs do not mix.
        (&self.file).write_all(&[what.as_bytes(), self.space.as_os_str().as_bytes(), b"\0"].concat()).is_ok()
    }
}
