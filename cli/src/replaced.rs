//! Checks the target of an output file: it may replace neither a space's own files, nor a directory or device.

use crate::exit::Failure;
use mainstay_engine::{SpaceSurvey, printable_path, space};
use std::{ffi::OsStr, path::Path};

/// Fails if a file at `path` would replace one of a space's own files, a directory or a device.
pub fn refuse_irreplaceable(path: &Path) -> Result<(), Failure> {
    let why = match path.metadata() {
        _ if is_of_space(path) => "is a file of the space in that directory",
        Ok(there) if !there.is_file() => "exists and is no regular file; name another",
        _ => return Ok(()),
    };
    Err(Failure::refused(format!("{} {why}", printable_path(path))))
}

/// Is its directory a space, and its name one of the space's own?
fn is_of_space(path: &Path) -> bool {
    let own = |name: &OsStr| name.to_str().is_some_and(space::is_of_space);
    let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    path.file_name().is_some_and(own) && folder.is_some_and(|folder| SpaceSurvey::open(folder).is_ok())
}
