//! Finds the folder and the file behind a name of the caller.

use super::{caller::Caller, calls::Spot, supervisor::Supervisor};
use crate::file::Named;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat};
use std::{
    ffi::OsStr,
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

const LINKS_MAX: usize = 16;

/// A file by its folder and name.
pub struct Found {
    pub named: Named,
    /// The kind of the file under the name. `None`: there is no file.
    pub kind: Option<FileType>,
    /// Whether the patterns match.
    pub is_wanted: bool,
}

impl Found {
    pub fn is_regular_or_absent(&self) -> bool {
        self.kind.is_none_or(|kind| kind == FileType::RegularFile)
    }
}

impl Supervisor<'_> {
    /// The path at `spot`, if its last part may match.
    pub(super) fn candidate(&self, caller: &Caller, spot: Spot) -> Option<Vec<u8>> {
        caller.path(spot.path).filter(|path| self.patterns.is_candidate(path))
    }

    /// `None`: the kernel must get the call unchanged.
    pub(super) fn find(&self, caller: &Caller, spot: Spot, path: &[u8], follows: bool) -> Option<Found> {
        // An absolute path needs no folder.
        let base = match path.first() {
            Some(b'/') => None,
            _ => Some(openat(CWD, caller.folder(spot.folder), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?),
        };
        let (mut folder, mut named) = self.enter(base.as_ref(), path)?;
        // The program's own name counts, not the target of a symbolic link.
        let from = base.as_ref().and_then(|base| fs::read_link(format!("/proc/self/fd/{}", base.as_raw_fd())).ok());
        let given = from.unwrap_or_default().join(OsStr::from_bytes(path));
        let is_wanted = self.patterns.is_wanted(&named.folder, named.name().as_bytes(), &given);
        for _ in 0..=LINKS_MAX {
            let kind = statat(&folder, named.name(), AtFlags::SYMLINK_NOFOLLOW).ok();
            let kind = kind.map(|status| FileType::from_raw_mode(status.st_mode));
            if !follows || kind != Some(FileType::Symlink) {
                return Some(Found { named, kind, is_wanted });
            }
            let target = readlinkat(&folder, named.name(), Vec::new()).ok()?;
            (folder, named) = self.enter(Some(&folder), target.as_bytes())?;
        }
        None
    }

    /// Finds it only if the patterns match, and the name is free or that of a regular file.
    pub(super) fn find_wanted(&self, caller: &Caller, spot: Spot, follows: bool) -> Option<Found> {
        let path = self.candidate(caller, spot)?;
        let found = self.find(caller, spot, &path, follows)?;
        (found.is_wanted && found.is_regular_or_absent()).then_some(found)
    }

    /// Opens the folder of `path`.
    fn enter(&self, base: Option<&OwnedFd>, path: &[u8]) -> Option<(OwnedFd, Named)> {
        let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (folder, name) = path.split_at(end);
        if name.is_empty() || name == b"." || name == b".." || name.len() > libc::NAME_MAX as usize {
            return None;
        }
        let folder = Path::new(OsStr::from_bytes(if folder.is_empty() { b"." } else { folder }));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match base {
            Some(base) => openat(base, folder, flags, Mode::empty()),
            None => openat(CWD, folder, flags, Mode::empty()),
        };
        let folder = folder.ok()?;
        let real = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
        if self.patterns.is_foreign(&real) {
            return None;
        }
        // A removed folder has no path.
        let named = Named::in_folder(&real, OsStr::from_bytes(name)).ok()?;
        Some((folder, named))
    }
}
