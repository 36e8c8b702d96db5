//! Who owns a directory. In a place where anybody may make directories (/tmp, /dev/shm) somebody else can have made the one
//! that is named, to read what a job saves there or to put something else in its place.

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

/// The mode of a directory in which anybody may make files, and remove only their own, such as /tmp.
const ANYBODYS: u32 = libc::S_ISVTX | libc::S_IWOTH;

/// Refuses `path`, which is absolute, if it leads through something that another user has made in a place of anybody's.
pub(super) fn check_own(path: &Path) -> Result<()> {
    for (inner, outer) in path.ancestors().zip(path.ancestors().skip(1)) {
        let (Ok(inner_is), Ok(outer_is)) = (fs::symlink_metadata(inner), fs::metadata(outer)) else { continue };
        let is_trusted = [0, geteuid().as_raw()].contains(&inner_is.uid());
        if outer_is.mode() & ANYBODYS == ANYBODYS && !is_trusted {
            let (made, within) = (printable_path(inner), printable_path(outer));
            let why = format!(
                "user {} has made {made}, in {within}, where anybody can: what is saved there would be in that user's hands; \
                 give a directory of your own",
                inner_is.uid()
            );
            return Err(Error::NotASpace { path: printable_path(path), why });
        }
    }
    Ok(())
}

/// Gives a file that root has just made, still empty, in the directory of another user to that user, whose jobs could not open it else. A file
/// system that refuses that (root of another machine, on NFS) leaves it whose it is.
pub(crate) fn hand_over(file: &fs::File, directory: &Path) {
    // Another file of root's, which that user has moved or linked to this name, is not given away.
    let is_new = || file.metadata().is_ok_and(|file| file.uid() == 0 && file.nlink() == 1 && file.len() == 0);
    if geteuid().is_root()
        && let Ok(found) = fs::metadata(directory)
        && found.uid() != 0
        && is_new()
    {
        let _ = fchown(file, Some(found.uid()), Some(found.gid()));
    }
}
