//! One file that the program appends to: its length, and the facts that identify it later.

use crate::{
    error::{Error, Result},
    ground::files::Open,
    printable::printable_path,
    space::format::{BLOCK_BYTES, Hash, OutputIdentity, OutputLength, hash},
};
use std::{
    fs::{self, File},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

#[derive(Debug)]
pub(super) struct Output {
    /// The path as the program gave it.
    name: Vec<u8>,
    /// The path from the root, for a program that changes its working directory.
    path: PathBuf,
    /// Kept open: the system reports errors of writing between two syncs only to a process that had the file open.
    file: Option<Arc<File>>,
    /// The place of `file` from the root and from the space, without links.
    places: Option<[Vec<u8>; 2]>,
    space: PathBuf,
}

/// An output file as it was at t1.
#[derive(Debug, Clone)]
pub(crate) struct Marked {
    pub(crate) length: OutputLength,
    path: PathBuf,
    /// `None` if the file did not exist.
    file: Option<Arc<File>>,
}

impl Output {
    /// The file at `path`, which need not exist. `space` is the directory of the session's space.
    pub(super) fn at(path: &Path, space: &Path) -> Result<Output> {
        let name = path.as_os_str().as_bytes().to_vec();
        if name.is_empty() || name.len() > libc::PATH_MAX as usize {
            return Err(Error::argument(
                "output file",
                format!("its path has {} bytes, the limit is 1 to {}", name.len(), libc::PATH_MAX),
            ));
        }
        let path = std::path::absolute(path).map_err(|e| Error::io("finding", printable_path(path), e))?;
        let mut output = Output { name, path, file: None, places: None, space: space.to_owned() };
        output.open()?;
        Ok(output)
    }

    /// Cuts the file back to `saved` bytes.
    pub(super) fn cut(&self, saved: u64) -> Result<()> {
        let now = self.bytes()?;
        if now == saved {
            return Ok(());
        }
        // Another rank may have cut the file meanwhile: setting the length would then extend it with zeros.
        self.check(saved)?;
        let file = Open::to_write().through_links().file(&self.path);
        file.and_then(|file| file.set_len(saved)).map_err(|e| self.failed("cutting back", e))
    }

    /// An error if the file is shorter than `saved` bytes: the missing bytes are lost.
    pub(super) fn check(&self, saved: u64) -> Result<()> {
        let (now, path) = (self.bytes()?, printable_path(&self.path));
        match now {
            _ if now >= saved => Ok(()),
            0 if !self.path.exists() => Err(Error::OutputMissing { path, saved, is_named: true }),
            _ => Err(Error::OutputShort { path, saved, now }),
        }
    }

    pub(super) fn mark(&mut self) -> Result<Marked> {
        let file = self.open()?;
        let places = self.places.clone().unwrap_or_else(|| self.lies());
        let (bytes, identity) = self.look(file.as_deref(), places)?;
        let length = OutputLength { name: self.name.clone(), bytes, identity: Some(identity) };
        Ok(Marked { length, path: self.path.clone(), file })
    }

    /// The length of the file, and the facts that identify it.
    fn look(&self, file: Option<&File>, [path, from_space]: [Vec<u8>; 2]) -> Result<(u64, OutputIdentity)> {
        let mut identity = OutputIdentity { path, from_space, ..OutputIdentity::default() };
        let Some(file) = file else { return Ok((0, identity)) };
        let found = file.metadata().map_err(|e| self.failed("looking at", e))?;
        (identity.inode, identity.born_unix_ns) = (found.ino(), born_unix_ns(&found));
        identity.hash = hash_of_ends(file, found.len()).unwrap_or_default();
        Ok((found.len(), identity))
    }

    /// The same for the file that has the name now.
    pub(super) fn now(&self) -> Result<(u64, OutputIdentity)> {
        self.bytes()?;
        // A file that cannot be read is identified by its inode and its path.
        let file = Open::to_read().through_links().file(&self.path).ok();
        self.look(file.as_ref().or(self.file.as_deref()), self.lies())
    }

    /// The hash of the file at a length of `bytes` bytes; `None` if it cannot be read.
    pub(super) fn hash_at(&self, bytes: u64) -> Option<Hash> {
        hash_of_ends(&Open::to_read().through_links().file(&self.path).ok()?, bytes)
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of this file if `other` is the same file.
    pub(super) fn same_as(&mut self, other: &Output) -> Option<PathBuf> {
        let of = |output: &Output| output.file.as_ref()?.metadata().ok().map(|found| (found.dev(), found.ino()));
        let _ = self.open();
        let is_same = self.lies() == other.lies() || of(self).is_some_and(|here| Some(here) == of(other));
        is_same.then(|| self.path.clone())
    }

    /// The place of the file from the root and from the space, without links.
    fn lies(&self) -> [Vec<u8>; 2] {
        let path = real_path(&self.path);
        [&path, &way(&self.space, &path)].map(|path| path.as_os_str().as_bytes().to_vec())
    }

    fn bytes(&self) -> Result<u64> {
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => Ok(found.len()),
            Ok(_) => Err(self.no_file()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(self.failed("looking at", e)),
        }
    }

    /// The file that has the name now; `None` if there is none.
    fn open(&mut self) -> Result<Option<Arc<File>>> {
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.failed("looking at", e)),
        };
        if !found.is_file() {
            return Err(self.no_file());
        }
        let is_this = |open: &fs::Metadata| (open.dev(), open.ino()) == (found.dev(), found.ino());
        if self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|open| is_this(&open))) {
            return Ok(self.file.clone());
        }
        // A pipe may have just taken the name; opening it must not block.
        let open = |way: Open| way.through_links().file(&self.path);
        let file = open(Open::to_read()).or_else(|_| open(Open::to_write()));
        self.file = Some(Arc::new(file.map_err(|e| self.failed("opening", e))?));
        self.places = Some(self.lies());
        Ok(self.file.clone())
    }

    fn failed(&self, doing: &str, source: io::Error) -> Error {
        Error::io(doing, format!("the output file {}", printable_path(&self.path)), source)
    }

    fn no_file(&self) -> Error {
        Error::argument(
            "output file",
            format!("{} is not a regular file, and cannot be cut back", printable_path(&self.path)),
        )
    }
}

/// The time of the file's creation, in nanoseconds since 1970; 0 if the file system does not say.
pub(super) fn born_unix_ns(found: &fs::Metadata) -> u64 {
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    born.map_or(0, |born| born.as_nanos() as u64)
}

/// The hash of the first and the last block of the first `bytes` bytes; `None` if there are none, or they cannot be
/// read.
fn hash_of_ends(file: &File, bytes: u64) -> Option<Hash> {
    let part = bytes.min(BLOCK_BYTES) as usize;
    let mut ends = vec![0; 2 * part];
    let (first, last) = ends.split_at_mut(part);
    file.read_exact_at(first, 0).ok()?;
    file.read_exact_at(last, bytes - part as u64).ok()?;
    (part > 0).then(|| hash(&ends))
}

impl Marked {
    /// A file that its own rank has synced already.
    pub(crate) fn synced(path: PathBuf) -> Marked {
        Marked { length: OutputLength { name: Vec::new(), bytes: 0, identity: None }, path, file: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file's contents of t1 durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let failed = |e| Error::io("syncing", format!("the output file {}", printable_path(&self.path)), e);
        file.sync_data().map_err(failed)
    }
}

/// The path without links, of a file that need not exist.
pub(super) fn real_path(path: &Path) -> PathBuf {
    let beside = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// The way from the directory `from` to `path`; both from the root, without links.
pub(super) fn way(from: &Path, path: &Path) -> PathBuf {
    let shared = from.components().zip(path.components()).take_while(|(from, path)| from == path).count();
    let up = from.components().skip(shared).map(|_| "..");
    up.map(Path::new).chain(path.components().skip(shared).map(|part| Path::new(part.as_os_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_from_one_directory_to_a_file() {
        for (from, path, expected) in
            [("/a/space", "/a/log", "../log"), ("/a", "/a/log", "log"), ("/a/b", "/c/log", "../../c/log")]
        {
            assert_eq!(way(Path::new(from), Path::new(path)), Path::new(expected));
        }
    }
}
