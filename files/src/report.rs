//! Reports new generations to `mainstay run`, in the file that `run` makes for its job (`engine/src/session/report.rs`).
//!
//! The helper writes a word `file` GENERATION PATH for each published file. Generation 0: the file system keeps none. The
//! helper needs no reader.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// The system's name for the file of `mainstay run` (`memfd_create`).
const MEMORY_FILE: &[u8] = b"/memfd:mainstay-run-report";

pub fn tell_published(report: &Path, file: &Path, generation: u64) {
    // `mainstay run` may be on another machine. Then the path may lead to any file of any process here.
    let is_report =
        |path: &Path| fs::read_link(path).is_ok_and(|to| to.as_os_str().as_bytes().starts_with(MEMORY_FILE));
    if !is_report(report) {
        return;
    }
    let word = [format!("file {generation} ").as_bytes(), file.as_os_str().as_bytes(), b"\0"].concat();
    let _ = OpenOptions::new().append(true).open(report).and_then(|mut report| report.write_all(&word));
}
