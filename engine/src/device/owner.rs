//! Checks the owner of a directory. A place such as /tmp or /dev/shm is open to all users. Another user may have made
//! the named directory there, to read a job's data or to replace it.

use crate::{
    error::{Error, Result},
    printable::printable_path,
};
use nix::unistd::geteuid;
use std::{
    fs,
    os::unix::fs::{MetadataExt, fchown},
    path::Path,
};

/// The mode of a directory in which all users may make files and remove only their own, such as /tmp.
const ANYBODYS: u32 = libc::S_ISVTX | libc::S_IWOTH;

/// Refuses the absolute path `path` if a part of it is in a place open to all users and was made by another user.
pub(super) fn check_own(path: &Path) -> Result<()> {
    for (inner, outer) in path.ancestors().zip(path.ancestors().skip(1)) {
        let (Ok(inner_is), Ok(outer_is)) = (fs::symlink_metadata(inner), fs::metadata(outer)) else { continue };
        let is_trusted = [0, geteuid().as_raw()].contains(&inner_is.uid());
        if outer_is.mode() & ANYBODYS == ANYBODYS && !is_trusted {
            let (made, within) = (printable_path(inner), printable_path(outer));
            let why = format!(
                "user {} made {made}, in {within}, where anybody can: data saved there would be in that user's hands; \
                 give a directory of your own",
                inner_is.uid()
            );
            return Err(Error::NotASpace { path: printable_path(path), why });
        }
    }
    Ok(())
}

/// Root gives a new, still empty file in the directory of another user to that user. Otherwise the user's jobs could
/// not open it. If the file system refuses that (root of another machine, on NFS), the owner stays.
pub(crate) fn hand_over(file: &fs::File, directory: &Path) {
    // Not for another file of root's that the user has moved or linked to this name.
    let is_new = || file.metadata().is_ok_and(|file| file.uid() == 0 && file.nlink() == 1 && file.len() == 0);
    if geteuid().is_root()
        && let Ok(found) = fs::metadata(directory)
        && found.uid() != 0
        && is_new()
    {
        let _ = fchown(file, Some(found.uid()), Some(found.gid()));
    }
}
