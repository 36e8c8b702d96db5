//! Files that a rank has mapped without ever being able to write: programs, libraries, read-only data. Their bytes are
//! not saved. A restart maps the same files again, and refuses others.

use crate::{Error, Result, elf::build_id};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ffi::OsString,
    fs::File,
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::Path,
};

/// Tells a file from another of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Identity {
    /// The build id that the linker made from the contents.
    Build(Vec<u8>),
    /// The size, and the time of the last change in nanoseconds.
    Stat(u64, i128),
}

impl Identity {
    fn of(file: &File) -> io::Result<Identity> {
        let about = file.metadata()?;
        // A copy of a library on another machine has the same build id, but another time.
        let changed = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        Ok(build_id(file).map_or(Identity::Stat(about.len(), changed), Identity::Build))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MappedFile {
    pub path: Vec<u8>,
    pub identity: Identity,
}

/// The list, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MappedFiles(Vec<MappedFile>);

impl MappedFiles {
    /// The number of the file `file` at `path`.
    pub fn enter(&mut self, path: &Path, file: &File) -> io::Result<u32> {
        let new = MappedFile { path: path.as_os_str().as_bytes().to_vec(), identity: Identity::of(file)? };
        if let Some(known) = self.0.iter().position(|one| *one == new) {
            return Ok(known as u32);
        }
        self.0.push(new);
        Ok(self.0.len() as u32 - 1)
    }

    pub fn name(&self, number: u32) -> String {
        self.0.get(number as usize).map_or_else(String::new, |one| String::from_utf8_lossy(&one.path).into_owned())
    }

    /// Refuses another program than the first of the list.
    pub fn must_begin_with(&self, path: &Path, file: &File) -> Result<()> {
        let identity = Identity::of(file).map_err(|error| Error::system(path.display(), error))?;
        match self.0.first() {
            Some(first) if first.identity == identity => Ok(()),
            _ => Err(Error::Refused(format!(
                "{} is not the program that was saved, but another build; go on with that, or name another space",
                path.display()
            ))),
        }
    }

    /// Opens those again that memory still needs, by number. Refuses a file that is not the same.
    pub fn open(&self, needed: impl Iterator<Item = u32>) -> Result<BTreeMap<u32, File>> {
        let mut files = BTreeMap::new();
        for number in needed {
            if let (Entry::Vacant(place), Some(one)) = (files.entry(number), self.0.get(number as usize)) {
                place.insert(one.open()?);
            }
        }
        Ok(files)
    }
}

impl MappedFile {
    fn open(&self) -> Result<File> {
        let path = OsString::from_vec(self.path.clone());
        let file = File::open(&path).map_err(|error| Error::system(path.display(), error))?;
        let identity = Identity::of(&file).map_err(|error| Error::system(path.display(), error))?;
        if identity != self.identity {
            let advice = "bring back the file of that time, or start anew with another space";
            return Err(Error::Refused(format!("{} is not the file that was saved with; {advice}", path.display())));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_memory_no_longer_needs_may_be_gone_or_changed() {
        let path = std::env::temp_dir().join(format!("mainstay-mapped-{}", std::process::id()));
        let mut files = MappedFiles::default();
        let mut enter = |bytes: &str| {
            fs::write(&path, bytes).unwrap();
            files.enter(&path, &File::open(&path).unwrap()).unwrap()
        };
        let (old, new) = (enter("old"), enter("newer"));
        assert_ne!(old, new, "a changed file is another");
        assert_eq!(new, files.enter(&path, &File::open(&path).unwrap()).unwrap());
        assert!(files.open([new, new].into_iter()).is_ok());
        assert!(files.open([old].into_iter()).is_err());
        fs::remove_file(&path).unwrap();
        assert!(files.open([].into_iter()).is_ok());
        assert!(files.open([new].into_iter()).is_err());
    }
}
