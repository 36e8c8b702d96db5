//! Files that a rank has open and has deleted, such as scratch files of Fortran. No other process finds their bytes, so
//! they are saved.

use super::{
    System,
    descriptors::{Descriptors, OpenFile},
};
use crate::{Error, Result};
use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    process,
    rc::Rc,
};

/// The kernel ends the path of such a file so.
const ENDING: &[u8] = b" (deleted)";
/// A larger one is not saved.
pub(super) const SAVED_MAX: u64 = 1 << 30;

/// The path of an unnamed file, as it is saved.
pub(super) fn unnamed_path(path: &[u8]) -> Vec<u8> {
    let without = path.strip_suffix(ENDING).unwrap_or(path);
    [without, ENDING].concat()
}

/// A new file without a name, if that of the saved path had none: in the same folder, or in that for temporary files.
pub(super) fn without_name(saved: &[u8], mark: &str) -> Option<io::Result<File>> {
    let path = Path::new(OsStr::from_bytes(saved.strip_suffix(ENDING)?));
    if Path::new(OsStr::from_bytes(saved)).exists() {
        return None;
    }
    let made = |folder: PathBuf| -> io::Result<File> {
        let name = folder.join(format!(".mainstay-{}-{mark}", process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&name)?;
        fs::remove_file(&name).map(|()| file)
    };
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    Some(made(folder).or_else(|_| made(env::temp_dir())))
}

pub(super) fn has_no_name(file: &File) -> bool {
    file.metadata().is_ok_and(|about| about.is_file() && about.nlink() == 0)
}

impl Descriptors {
    fn unnamed(&self) -> Vec<(i32, Rc<OpenFile>)> {
        let mut all: Vec<(i32, Rc<OpenFile>)> = Vec::new();
        for (number, file) in self.all() {
            if file.is_unnamed() && !all.iter().any(|(_, known)| Rc::ptr_eq(known, file)) {
                all.push((number, file.clone()));
            }
        }
        all
    }
}

impl System {
    /// The bytes of the files without a name, each with its lowest descriptor.
    pub fn unnamed_files(&self) -> Result<Vec<(i32, Vec<u8>)>> {
        let mut all = Vec::new();
        for (number, file) in self.descriptors.unnamed() {
            let length = file.host.metadata().map_or(0, |about| about.len());
            if length > SAVED_MAX {
                continue;
            }
            let mut bytes = vec![0; length as usize];
            // The rank may have opened it to write alone.
            let again = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file.host)));
            again.and_then(|again| again.read_exact_at(&mut bytes, 0)).map_err(|error| self.unnamed_error(error))?;
            all.push((number, bytes));
        }
        Ok(all)
    }

    /// Fills the files without a name of a rank that is brought back. `bytes`: those of a descriptor.
    pub fn fill_unnamed(&self, mut bytes: impl FnMut(i32) -> Result<Vec<u8>>) -> Result<()> {
        for (number, file) in self.descriptors.unnamed() {
            file.host.write_all_at(&bytes(number)?, 0).map_err(|error| self.unnamed_error(error))?;
        }
        Ok(())
    }

    fn unnamed_error(&self, error: io::Error) -> Error {
        Error::system(format_args!("rank {}: a file that it has deleted", self.rank), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_file_comes_back_without_a_name() {
        let saved = unnamed_path(&unnamed_path(b"/tmp/scratch"));
        assert_eq!(saved, b"/tmp/scratch (deleted)");
        let file = without_name(&saved, "test").expect("it had no name").unwrap();
        assert!(has_no_name(&file));
        assert!(without_name(b"/tmp/scratch", "test").is_none());
    }
}
