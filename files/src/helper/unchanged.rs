//! A file that was locked for an update, but not changed, makes no generation.
//!
//! HDF5 locks each file that it opens to update, and a lock takes a copy of the older generation. The copy has the time of
//! that generation, and a write changes the time. A write through a mapping does not, so a file that was mapped always
//! counts as changed. So does a file that a process left open.

use super::state::{Fingerprint, Staged};
use crate::{copy, sets};
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

/// Longer than a step of the kernel's clock: a write into the copy gets another time than a generation of this age.
const OLD: Duration = Duration::from_secs(1);

/// Copies the older generation into a staged file. `None`: a later change would not show.
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
    /// Whether the file still equals the older generation. In a set each member counts as changed.
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
