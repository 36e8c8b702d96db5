//! The file `levels` of a space, and its copy `levels.copy`: reading them, and replacing them so that a crash leaves
//! the old or the new text.
//!
//! Invariant: the copy is written first, so it is never older than the file. If one of the two is lost or damaged,
//! the other still leads to the levels.

use super::{LEVELS_COPY, LEVELS_FILE, LevelsNote, NOTE_BYTES_MAX};
use crate::{
    device::{hand_over, within_limit},
    error::{Error, Result},
    ground::{
        change,
        files::{Open, put_in_place, read_within},
    },
    mutant::{self, Mutant},
    printable::printable_path,
};
use std::{io, path::Path};

impl LevelsNote {
    /// The note from the file in the directory `space`, or else from its copy; `None` if neither exists. If the
    /// existing ones cannot be read, returns the first error.
    pub(crate) fn of_space(space: &Path) -> Result<Option<LevelsNote>> {
        let mut failed = None;
        for name in [LEVELS_FILE, LEVELS_COPY] {
            let path = space.join(name);
            match read_within(&path, NOTE_BYTES_MAX) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(e) => failed = failed.or(Some(Error::io("reading", printable_path(&path), e))),
                Ok(bytes) => match LevelsNote::parse(&String::from_utf8_lossy(&bytes)) {
                    Some(note) => return Ok(Some(note)),
                    None => failed = failed.or(Some(names_no_levels(&path))),
                },
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Makes the files in the directory `space`, which has none, and returns their contents. If other processes make
    /// them at the same time, all get the same contents.
    pub(crate) fn make(&self, space: &Path) -> io::Result<()> {
        let own = space.join(format!("{LEVELS_FILE}.{}", self.id));
        let made =
            self.write(&own).and_then(|()| put_in_place(&space.join(LEVELS_FILE), |path| change::link(&own, path)));
        let _ = change::remove(&own);
        match made {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => change::sync_directory(space),
        }
    }

    /// Replaces the existing text with this one.
    pub(crate) fn replace(&self, space: &Path) -> Result<()> {
        [LEVELS_COPY, LEVELS_FILE].into_iter().try_for_each(|name| {
            let path = space.join(name);
            let replaced = self.replace_one(&path).or_else(|error| match error.raw_os_error() {
                // There is no room for a new file, and the other one is whole.
                Some(libc::ENOSPC | libc::EDQUOT) => self.write_over(&path).map_err(|_| error),
                _ => Err(error),
            });
            replaced.map_err(|e| Error::io("writing", printable_path(&path), e))
        })
    }

    fn replace_one(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_file_name(format!("{}.unfinished", name_of(path)));
        self.write(&unfinished).and_then(|()| put_in_place(path, |path| change::rename(&unfinished, path)))?;
        change::sync_directory(path.parent().unwrap_or(path))
    }

    /// Writes the file durably; the caller makes its name durable.
    fn write(&self, path: &Path) -> io::Result<()> {
        let file = change::make(path, &Open::to_write().or_make().emptied())?;
        hand_over(&file, path.parent().unwrap_or(path));
        let text = self.text();
        within_limit(text.len() as u64)?;
        change::write(&file, text.as_bytes())?;
        if mutant::is(Mutant::NoteNotSynced) {
            return Ok(());
        }
        change::sync(&file)
    }

    fn write_over(&self, path: &Path) -> io::Result<()> {
        let file = Open::to_write().file(path)?;
        let text = self.text();
        within_limit(text.len() as u64)?;
        change::write(&file, text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        change::sync(&file)
    }
}

fn names_no_levels(path: &Path) -> Error {
    let why = format!(
        "it does not name the levels of the space, and there is no other copy. Restore {LEVELS_FILE} from a backup. \
         Without it, revisions that are only in memory or on the nodes' disks are lost: to go on from the space alone, \
         remove {LEVELS_FILE} and {LEVELS_COPY}, and the directories of its levels (mainstay-level-…)"
    );
    Error::Damaged { what: vec![format!("{}: {why}", printable_path(path))] }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Uid, setfsuid};
    use std::fs;
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};
    use tempfile::TempDir;

    #[test]
    fn the_copy_counts_where_the_file_cannot_be_read() {
        let folder = TempDir::new().unwrap();
        let note = LevelsNote { id: "0".repeat(32), lineage: 7, within: BTreeMap::new(), back: Vec::new() };
        note.replace(folder.path()).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(folder.path(), 0o755);
        mode(&folder.path().join(LEVELS_COPY), 0o644);
        mode(&folder.path().join(LEVELS_FILE), 0);
        // Root may read everything, so this thread reads files as another user.
        let root = setfsuid(Uid::from_raw(65534));
        let found = LevelsNote::of_space(folder.path());
        setfsuid(root);
        assert_eq!(found.unwrap(), Some(note));
    }
}
