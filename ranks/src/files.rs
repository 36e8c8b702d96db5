//! Files that a rank has mapped without ever being able to write: programs, libraries, read-only data. Their bytes are
//! not saved. A restart maps the same files again, and refuses others.

use crate::{Error, Result, slot::build_id};
use serde::{Deserialize, Serialize};
use std::{
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
        let path = path.as_os_str().as_bytes();
        if let Some(known) = self.0.iter().position(|one| one.path == path) {
            return Ok(known as u32);
        }
        self.0.push(MappedFile { path: path.to_vec(), identity: Identity::of(file)? });
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

    /// Opens all of them again. Refuses a file that is not the same.
    pub fn open(&self) -> Result<Vec<File>> {
        self.0.iter().map(MappedFile::open).collect()
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
