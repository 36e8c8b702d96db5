//! A disk that is full on a test's request.

use super::between::Between;
use mainstay_engine::device::{Access, Device, Disk, File, NewFile};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A disk that has no room for another layout once the flag is set.
#[derive(Debug, Default)]
pub struct Full(pub AtomicBool);

impl Between for Full {
    fn create(&self, disk: &Disk, name: &str, wanted: &NewFile) -> io::Result<Arc<dyn File>> {
        if name.starts_with("layout-") && self.0.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(nix::libc::ENOSPC));
        }
        disk.open(name, Access::Write, Some(wanted))
    }
}
