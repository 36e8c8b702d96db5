//! A file that was locked to update, and that no process has changed, makes no generation.
//!
//! HDF5 locks each file that it opens to update, and a lock takes a copy of the older generation. The copy has the time of
//! that generation, and a write changes it. A write through a mapping changes no time in memory, so a file that was mapped
//! always counts as changed; so does one that a process left open.

use super::state::{Fingerprint, Staged};
use crate::{copy, sets};
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

/// More than the steps of the kernel's clock. A write into the copy has another time than an older generation of this age.
const OLD: Duration = Duration::from_secs(1);

/// Copies the older generation into a staged file. `None`: nobody can tell later if that is changed.
pub fn fill(base: &File, path: &Path, locks: bool) -> io::Result<Option<Fingerprint>> {
    let file = OpenOptions::new().write(true).open(path)?;
    copy::fill(base, &file)?;
    let modified = base.metadata()?.modified()?;
    if !locks || !modified.elapsed().is_ok_and(|age| age > OLD) {
        return Ok(None);
    }
    file.set_modified(modified)?;
    Ok(Some(Fingerprint::of(&file.metadata()?)))
}

impl Staged {
    /// Whether the file is the older generation still. A set needs each of its members, changed or not.
    pub(super) fn is_unchanged(&self) -> bool {
        !self.record.is_through && sets::set_of(&self.record).is_none() && self.looks_as_filled()
    }

    fn looks_as_filled(&self) -> bool {
        self.filled.is_some() && fs::metadata(&self.path).ok().map(|found| Fingerprint::of(&found)) == self.filled
    }

    /// A process may have changed the file without a trace.
    pub(super) fn count_as_changed(&mut self) {
        if self.looks_as_filled() {
            let _ = File::open(&self.path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        self.filled = None;
    }
}
