//! Files that the program appends to: a revision knows how long each was, and a restore cuts it back, so
//! that what the program writes again after a restart is there once.
//!
//! What must hold: a revision that knows a length is published only after the bytes up to it are durable,
//! and no file is touched that the session has not named.

use crate::{
    error::{Error, Result},
    printable::printable_path,
    space::format::OutputLength,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

/// The output files of a session.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    list: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    /// The path as the program gave it, by which the file is found again wherever the job is started.
    name: Vec<u8>,
    /// The path from the root, for a program that changes its working directory.
    path: PathBuf,
    /// Kept open: errors of writing that come up between two syncs are told to those who had it open.
    file: Option<Arc<File>>,
}

/// An output file as it was at t1.
#[derive(Debug, Clone)]
pub(crate) struct Marked {
    pub(crate) length: OutputLength,
    path: PathBuf,
    /// `None`: it was not there.
    file: Option<Arc<File>>,
}

impl Outputs {
    /// Adds a file, which need not exist yet.
    pub(crate) fn add(&mut self, path: &Path) -> Result<()> {
        let name = path.as_os_str().as_bytes().to_vec();
        if name.is_empty() || name.len() > libc::PATH_MAX as usize {
            return Err(Error::argument(
                "output file",
                format!("its path has {} bytes, 1 to {} can be", name.len(), libc::PATH_MAX),
            ));
        }
        let path = std::path::absolute(path).map_err(|e| Error::io("finding", printable_path(path), e))?;
        if self.list.iter().any(|output| output.path == path) {
            return Err(Error::argument(
                "output file",
                format!("{} is named already; name each file once, on one rank", printable_path(&path)),
            ));
        }
        let mut output = Output { name, path, file: None };
        output.open()?;
        self.list.push(output);
        Ok(())
    }

    /// The paths of the files, as the program gave them.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        self.list.iter().map(|output| output.name.clone()).collect()
    }

    /// How long each file is now. Bytes that the program still keeps in buffers of its own do not count.
    pub(crate) fn mark(&mut self) -> Result<Vec<Marked>> {
        self.list.iter_mut().map(Output::mark).collect()
    }

    /// Refuses if a file is shorter than `lengths` says: the missing bytes are lost.
    pub(crate) fn check(&self, lengths: &[OutputLength]) -> Result<()> {
        self.known(lengths).try_for_each(|(output, saved)| {
            let now = output.bytes()?;
            let path = || printable_path(&output.path);
            if now < saved { Err(Error::OutputShort { path: path(), saved, now }) } else { Ok(()) }
        })
    }

    /// Cuts each file that `lengths` knows back to that length.
    pub(crate) fn cut(&self, lengths: &[OutputLength]) -> Result<()> {
        self.known(lengths).try_for_each(|(output, saved)| {
            let now = output.bytes()?;
            if now == saved {
                return Ok(());
            }
            // Another rank has cut the file meanwhile: setting its length would make it grow by zeros.
            if now < saved {
                return Err(Error::OutputShort { path: printable_path(&output.path), saved, now });
            }
            let file = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&output.path);
            file.and_then(|file| file.set_len(saved)).map_err(|e| output.failed("cutting back", e))
        })
    }

    fn known<'a>(&'a self, lengths: &'a [OutputLength]) -> impl Iterator<Item = (&'a Output, u64)> {
        let length = |output: &Output| lengths.iter().find(|length| length.name == output.name);
        self.list.iter().filter_map(move |output| length(output).map(|length| (output, length.bytes)))
    }
}

impl Output {
    fn mark(&mut self) -> Result<Marked> {
        let file = self.open()?;
        let bytes = match &file {
            Some(file) => file.metadata().map_err(|e| self.failed("looking at", e))?.len(),
            None => 0,
        };
        Ok(Marked { length: OutputLength { name: self.name.clone(), bytes }, path: self.path.clone(), file })
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
        // A pipe that took the name this instant must not hold us.
        let options = |write: bool| OpenOptions::new().read(!write).write(write).custom_flags(libc::O_NONBLOCK).clone();
        let file = options(false).open(&self.path).or_else(|_| options(true).open(&self.path));
        self.file = Some(Arc::new(file.map_err(|e| self.failed("opening", e))?));
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

/// Makes what a revision knows of an output file durable, for a process that has died: its first `bytes`
/// bytes. A file that is shorter, or gone, is an error.
pub(crate) fn sync_output(path: &Path, bytes: u64) -> Result<()> {
    let failed = |e| Error::io("syncing", format!("the output file {}", printable_path(path)), e);
    let short = |now| Err(Error::OutputShort { path: printable_path(path), saved: bytes, now });
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && bytes == 0 => return Ok(()),
        // Without its folder it may be on a file system that is not mounted yet.
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => return short(0),
        file => file.map_err(failed)?,
    };
    let now = file.metadata().map_err(failed)?.len();
    if now < bytes {
        return short(now);
    }
    file.sync_data().map_err(failed)
}

impl Marked {
    /// A file that its own rank has synced already.
    pub(crate) fn synced(path: PathBuf) -> Marked {
        Marked { length: OutputLength { name: Vec::new(), bytes: 0 }, path, file: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes what was in the file at t1 durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let failed = |e| Error::io("syncing", format!("the output file {}", printable_path(&self.path)), e);
        file.sync_data().map_err(failed)
    }
}
