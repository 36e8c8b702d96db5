//! The output file of a process that died: finds it again, even if it was renamed or moved with the space, and makes it
//! durable.

use super::output::born_unix_ns;
use crate::{
    error::{Error, Result},
    ground::files::{Open, entries},
    printable::printable_path,
    space::format::{OutputIdentity, OutputLength},
};
use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirEntryExt, MetadataExt},
    },
    path::Path,
};

/// Makes the bytes durable that a revision of the space in `space` records for the output file at `path`.
/// `OutputMissing`: the file can be put back. `OutputShort`: bytes are lost.
pub(crate) fn sync_output(path: &Path, saved: &OutputLength, space: &Path) -> Result<()> {
    let failed = |e| Error::io("syncing", format!("the output file {}", printable_path(path)), e);
    let Some(file) = find(path, saved, space).map_err(failed)? else {
        let missing = Error::OutputMissing { path: printable_path(path), saved: saved.bytes, is_named: false };
        return if saved.bytes == 0 { Ok(()) } else { Err(missing) };
    };
    let now = file.metadata().map_err(failed)?.len();
    if now < saved.bytes {
        return Err(Error::OutputShort { path: printable_path(path), saved: saved.bytes, now });
    }
    file.sync_data().map_err(failed)
}

/// The saved file, under its current name; otherwise the file that has its name; `None` if there is none.
fn find(path: &Path, saved: &OutputLength, space: &Path) -> io::Result<Option<File>> {
    let known = saved.identity.as_ref();
    let from_space = known.map(|known| space.join(OsStr::from_bytes(&known.from_space)));
    let places = || [Some(path), from_space.as_deref()].into_iter().flatten();
    let mut named = None;
    for place in places() {
        let file = open(place)?;
        if file.as_ref().is_some_and(|file| is_saved(file, saved)) {
            return Ok(file);
        }
        named = named.or(file);
    }
    let renamed = |place: &Path| {
        let all = entries(place.parent()?).ok()?.flatten();
        let mut alike = all.filter(|entry| known.is_some_and(|known| known.inode == entry.ino()));
        alike.find_map(|entry| open(&entry.path()).ok()?.filter(|file| is_saved(file, saved)))
    };
    Ok(places().find_map(renamed).or(named))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match Open::to_read().through_links().file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// Whether this is certainly the saved file, and holds all saved bytes.
fn is_saved(file: &File, saved: &OutputLength) -> bool {
    let is_it = |known: &OutputIdentity, found: &Metadata| {
        known.born_unix_ns > 0 && (known.inode, known.born_unix_ns) == (found.ino(), born_unix_ns(found))
    };
    let found = file.metadata().ok();
    found.zip(saved.identity.as_ref()).is_some_and(|(found, known)| is_it(known, &found) && found.len() >= saved.bytes)
}
