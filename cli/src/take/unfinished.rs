//! Files that appear whole or not at all: they are written in a folder beside their place, and renamed at the end.

use crate::{exit::Failure, replaced::refuse_irreplaceable};
use mainstay_engine::{Error, printable_path, unix_ns};
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process,
};

/// A folder that is removed with its contents when this is dropped.
pub struct Unfinished {
    target: PathBuf,
    folder: PathBuf,
}

fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Error::io(doing, printable_path(path), error).into()
}

impl Unfinished {
    /// Makes `target` if it is missing, and a folder in it.
    pub fn begin(target: &Path) -> Result<Unfinished, Failure> {
        fs::create_dir_all(target).map_err(failed("making the directory", target))?;
        let folder = target.join(format!(".mainstay-unfinished-{}-{}", process::id(), unix_ns()));
        fs::create_dir(&folder).map_err(failed("making the directory", &folder))?;
        Ok(Unfinished { target: target.to_owned(), folder })
    }

    /// Makes the future file `name`, of `bytes` zeros with `head` at the beginning.
    pub fn make(&self, name: &Path, head: &[u8], bytes: u64) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let made = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            let file = File::create_new(&path)?;
            file.set_len(head.len() as u64 + bytes)?;
            file.write_all_at(head, 0)
        };
        made().map_err(failed("making", &self.target.join(name)))
    }

    /// The temporary place of the future file `name`.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes each of `pieces` at its place in the file. Opens the file for each call: there may be more files than a
    /// process may have open.
    pub fn write<'a>(&self, name: &Path, pieces: impl IntoIterator<Item = (u64, &'a [u8])>) -> Result<(), Failure> {
        let file = OpenOptions::new().write(true).open(self.folder.join(name));
        let written = |file: File| pieces.into_iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, at));
        file.and_then(written).map_err(failed("writing", &self.target.join(name)))
    }

    /// Makes all files durable and gives them their names.
    pub fn finish(self, names: &[PathBuf], force: bool) -> Result<(), Failure> {
        for name in names {
            let synced = File::open(self.folder.join(name)).and_then(|file| file.sync_all());
            synced.map_err(failed("syncing", &self.target.join(name)))?;
        }
        refuse_existing(&self.target, names, force)?;
        let mut folders = BTreeSet::from([self.target.clone()]);
        for name in names {
            let path = self.target.join(name);
            let folder = path.parent().unwrap_or(&self.target);
            fs::create_dir_all(folder).map_err(failed("making the directory", folder))?;
            fs::rename(self.folder.join(name), &path).map_err(failed("naming", &path))?;
            folders.extend(folder.ancestors().take_while(|above| above.starts_with(&self.target)).map(Path::to_owned));
        }
        for folder in folders {
            File::open(&folder).and_then(|file| file.sync_all()).map_err(failed("syncing", &folder))?;
        }
        Ok(())
    }
}

/// Fails if one of `names` exists, unless it may be replaced.
pub fn refuse_existing(target: &Path, names: &[PathBuf], force: bool) -> Result<(), Failure> {
    names.iter().try_for_each(|name| refuse_irreplaceable(&target.join(name)))?;
    let there = names.iter().map(|name| target.join(name)).find(|path| !force && path.symlink_metadata().is_ok());
    there.map_or(Ok(()), |path| {
        Err(Failure::refused(format!("{} exists already; --force replaces such files", printable_path(&path))))
    })
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If it cannot be removed, its name says that it is unfinished.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
