//! A directory of the file system.

use super::{
    Access, Device, Directory, File, FileSystem, LockFile, Naming, NewFile, Stripes, dangling,
    disk_file::DiskFile,
    hand_over,
    lock::ByteLocks,
    on_demand::{OnDemand, Recent},
    owner::check_own,
    stripes,
};
use crate::{
    error::{Error, Result},
    ground::{
        FileOperation, change,
        files::{self, Open},
        perform,
    },
    printable::printable_path,
};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{self, Path},
    sync::Arc,
};

#[derive(Debug)]
pub struct Disk {
    directory: Arc<Directory>,
    recent: Arc<Recent>,
}

/// Refuses a path that no directory has.
pub(crate) fn check_path(directory: &Path) -> Result<()> {
    let name = directory.as_os_str();
    let why = match name.as_encoded_bytes().contains(&0) {
        true => "it has a zero byte, which no file name has",
        false if name.is_empty() => "it is empty",
        false => return Ok(()),
    };
    Err(Error::argument("path", format!("{why}; give the directory of the space")))
}

impl Disk {
    /// The directory of an existing space.
    pub fn existing(directory: &Path) -> Disk {
        Disk { directory: Arc::new(Directory::of(directory)), recent: Arc::default() }
    }

    /// Makes the directory, for this user only, if it is missing. `NotASpace`: the path is not a directory, or another
    /// user made it in a place open to all users.
    pub fn make(directory: &Path) -> Result<Disk> {
        check_path(directory)?;
        if let Ok(named) = path::absolute(directory) {
            check_own(&named)?;
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        // The program may change its working directory before the first file is made.
        let found = made.and_then(|()| directory.canonicalize());
        let found = found.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                let why = dangling(directory).unwrap_or_else(|| "it is not a directory".to_owned());
                Error::NotASpace { path: printable_path(directory), why }
            }
            _ => Error::io("making the directory", printable_path(directory), e).for_want_of(0, || {
                let above = directory.ancestors().skip(1).find(|above| above.is_dir())?;
                Directory::of(above).available_bytes()
            }),
        })?;
        // Links in the path may have led to a directory that was not checked.
        check_own(&found)?;
        Ok(Disk::existing(&found))
    }

    fn make_file(&self, name: &str, wanted: &NewFile) -> io::Result<DiskFile> {
        let file_system = self.directory.file_system();
        let file = self.make_empty(name, &file_system, wanted.stripes)?;
        wanted.set_aside(&file.cached, file_system.sets_aside()).inspect_err(|_| self.forget(name))?;
        Ok(file)
    }

    /// Makes an empty file with the wanted stripes.
    fn make_empty(&self, name: &str, file_system: &FileSystem, wanted: Stripes) -> io::Result<DiskFile> {
        let mut way = Open::to_read_and_write();
        if let (FileSystem::Lustre { lfs: Some(lfs) }, true) = (file_system, wanted.is_chosen()) {
            stripes::make_lustre(lfs, &self.directory.join(name), wanted)?;
        } else {
            way = way.new_file();
        }
        let file = DiskFile::open(&self.directory.join(name), &way)?;
        hand_over(&file.cached, &self.directory);
        stripes::choose(file_system, &file.cached, wanted).inspect_err(|_| self.forget(name))?;
        Ok(file)
    }

    /// Removes a file that was not made completely. If that fails, the next opening removes it.
    fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.directory.join(name));
    }
}

impl Device for Disk {
    fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in files::entries(&**self.directory)? {
            // A name that is not text is not one of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str, access: Access, new: Option<&NewFile>) -> io::Result<Arc<dyn File>> {
        if let Some(wanted) = new {
            let operation = FileOperation::Make { path: &self.directory.join(name) };
            return perform(operation, || Ok(Arc::new(self.make_file(name, wanted)?) as _));
        }
        let path = path::absolute(self.directory.join(name))?;
        let found = path.clone();
        perform(FileOperation::Open { path: &found }, || Ok(Arc::new(OnDemand::open(path, access, &self.recent)?) as _))
    }

    fn name(&self, change: Naming<'_>) -> io::Result<()> {
        let at = |name: &str| self.directory.join(name);
        match change {
            Naming::Rename { from, to } => change::rename(&at(from), &at(to)),
            Naming::Remove(name) => change::remove(&at(name)),
            Naming::Link { of, name } => change::link(&at(of), &at(name)),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        change::sync_directory(&self.directory)
    }

    fn lock_file(&self, name: &str, access: Access) -> io::Result<Box<dyn LockFile>> {
        Ok(Box::new(ByteLocks::open(&self.directory.join(name), access)?))
    }
}
