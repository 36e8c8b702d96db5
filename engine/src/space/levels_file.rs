//! The file `levels` of a space: read, written in one piece, and replaced so that a crash leaves the old or the new one.

use super::{LEVELS_FILE, LevelsNote, NOTE_BYTES_MAX};
use crate::{
    device::hand_over,
    error::{Error, Result},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

impl LevelsNote {
    /// What the file in the directory `space` says; `None` where there is none.
    pub(crate) fn of_space(space: &Path) -> Result<Option<LevelsNote>> {
        let path = space.join(LEVELS_FILE);
        match fs::symlink_metadata(&path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            _ => LevelsNote::read(&path).map(Some),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<LevelsNote> {
        let failed = |e| Error::io("reading", path.display().to_string(), e);
        let mut bytes = Vec::new();
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
        file.and_then(|file| file.take(NOTE_BYTES_MAX).read_to_end(&mut bytes)).map_err(failed)?;
        LevelsNote::parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
            let why = "it does not say which levels belong to the space; remove it, and nothing in memory or on the nodes' disks is found";
            Error::Damaged { what: vec![format!("{}: {why}", path.display())] }
        })
    }

    /// Writes the file, which may be there already, and has it durable; its name is not.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        hand_over(&file, directory_of(path));
        file.write_all(self.text().as_bytes())?;
        file.sync_all()
    }

    /// Puts the file in the place of the one that is there.
    pub(crate) fn replace(&self, path: &Path) -> Result<()> {
        let unfinished = path.with_extension("unfinished");
        let failed = |e| Error::io("writing", path.display().to_string(), e);
        let replaced = self.write(&unfinished).and_then(|()| fs::rename(&unfinished, path));
        replaced.and_then(|()| sync_directory(path)).map_err(failed)
    }
}

/// Makes the name of the file durable.
pub(crate) fn sync_directory(of: &Path) -> io::Result<()> {
    File::open(directory_of(of))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
