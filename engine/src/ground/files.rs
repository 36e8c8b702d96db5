//! The only place where files are opened.
//!
//! Invariants, for every file:
//! - Its descriptor is 3 or higher (`descriptor`).
//! - Opening never waits, even if a pipe has the name.
//! - Only regular files count. A directory, a pipe, a socket, a device or a symbolic link counts as missing; links are
//!   followed only with `through_links`.
//! - At most as many bytes are read as the reader has room for, because others may write the file.

use super::{
    descriptor::{above_standard, occupy_standard, raised},
    system::process_id,
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    ffi::CStr,
    fs::{self, File, OpenOptions, ReadDir},
    io::{self, PipeReader, PipeWriter, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Options for opening a file.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    options: OpenOptions,
    flags: libc::c_int,
    makes: bool,
}

impl Open {
    fn with(set: impl FnOnce(&mut OpenOptions) -> &mut OpenOptions) -> Open {
        let mut options = OpenOptions::new();
        set(&mut options).mode(0o600);
        Open { options, flags: libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW, makes: false }
    }

    pub(crate) fn to_read() -> Open {
        Open::with(|options| options.read(true))
    }

    pub(crate) fn to_write() -> Open {
        Open::with(|options| options.write(true))
    }

    pub(crate) fn to_read_and_write() -> Open {
        Open::with(|options| options.read(true).write(true))
    }

    /// For reading too.
    pub(crate) fn to_append() -> Open {
        Open::with(|options| options.read(true).append(true))
    }

    /// Makes the file if it is missing, for this user only. Anything other than a regular file is moved out of the way.
    pub(crate) fn or_make(mut self) -> Open {
        self.options.create(true);
        self.makes = true;
        self
    }

    /// Makes the file, for this user only. Fails if the name is taken.
    pub(crate) fn new_file(mut self) -> Open {
        self.options.create_new(true);
        self
    }

    /// The file exists by now.
    pub(crate) fn again(mut self) -> Open {
        self.options.create(false).create_new(false);
        self.makes = false;
        self
    }

    /// Truncates the file.
    pub(crate) fn emptied(mut self) -> Open {
        self.options.truncate(true);
        self
    }

    pub(crate) fn mode(mut self, mode: u32) -> Open {
        self.options.mode(mode);
        self
    }

    /// Bypasses the page cache.
    pub(crate) fn direct(mut self) -> Open {
        self.flags |= libc::O_DIRECT;
        self
    }

    /// Follows a symbolic link: the user has named the file.
    pub(crate) fn through_links(mut self) -> Open {
        self.flags &= !libc::O_NOFOLLOW;
        self
    }

    /// The regular file at `path`. `NotFound`: there is none, or the name belongs to something else.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        match self.regular(path) {
            Err(error) if self.makes && error.kind() != io::ErrorKind::AlreadyExists => {
                // Another process may have moved it aside since, or may be doing so.
                let moved = if is_in_the_way(path) { move_aside(path) } else { Ok(()) };
                moved.or_else(|failed| if failed.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
                self.regular(path)
            }
            opened => opened,
        }
    }

    fn regular(&self, path: &Path) -> io::Result<File> {
        match self.any(path) {
            Ok(file) if file.metadata()?.is_file() => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(error) => Err(self.gone(path).unwrap_or(error)),
            Ok(_) => Err(not_regular()),
        }
    }

    /// The error if the name belongs to something other than a regular file.
    fn gone(&self, path: &Path) -> Option<io::Error> {
        let found = fs::symlink_metadata(path).ok()?;
        let is_followed = self.flags & libc::O_NOFOLLOW == 0;
        match is_followed && found.is_symlink() {
            true => fs::metadata(path).is_ok_and(|found| !found.is_file()).then(not_regular),
            false if found.is_symlink() => Some(io::Error::new(io::ErrorKind::NotFound, "it is a symbolic link")),
            false => (!found.is_file()).then(not_regular),
        }
    }

    /// Any kind of file at `path`, such as a device or a file of the kernel.
    pub(crate) fn any(&self, path: &Path) -> io::Result<File> {
        above_standard(|| self.options.clone().custom_flags(self.flags).open(path))
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "it is not a regular file")
}

/// Whether the name belongs to something other than a regular file.
pub(crate) fn is_in_the_way(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// Renames the object at `path`, which is not a regular file, to another name beside it.
pub(crate) fn move_aside(path: &Path) -> io::Result<()> {
    let aside = aside(path);
    fs::rename(path, &aside)?;
    if !is_in_the_way(&aside) {
        // Another process has moved it aside before, and made the file, which keeps its name.
        fs::hard_link(&aside, path)?;
        fs::remove_file(&aside)?;
    }
    Ok(())
}

/// Calls `put` to give a new file the name `path`, after moving anything but a regular file out of the way.
pub(crate) fn put_in_place(path: &Path, put: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    match put(path) {
        Err(error) if is_in_the_way(path) => move_aside(path).map_err(|_| error).and_then(|()| put(path)),
        done => done,
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".aside-{}", process_id()));
    name.into()
}

/// At most `limit` bytes of the regular file at `path`; `NotFound` as `Open::file`.
pub(crate) fn read_within(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_from(Open::to_read().file(path)?, limit)
}

/// At most `limit` bytes of an open file.
pub(crate) fn read_from(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file of the kernel, such as in /proc.
pub(crate) fn kernel_file(path: impl AsRef<Path>) -> io::Result<File> {
    Open::to_read().through_links().any(path.as_ref())
}

/// The whole contents of a file of the kernel.
pub fn kernel_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    kernel_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(kernel_bytes(path)?).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// A directory, for a sync or for questions about its file system.
pub(crate) fn directory(path: &Path) -> io::Result<File> {
    above_standard(|| OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path))
}

/// The entries of a directory.
pub(crate) fn entries(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    occupy_standard()?;
    fs::read_dir(path)
}

/// An empty file in memory, without a name in any directory.
pub(crate) fn in_memory(name: &CStr) -> io::Result<File> {
    above_standard(|| Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into()))
}

pub(crate) fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    occupy_standard()?;
    let (reader, writer) = io::pipe()?;
    Ok((raised(reader)?, raised(writer)?))
}

/// A command; its pipes do not get standard descriptors.
pub(crate) fn command(program: &Path) -> io::Result<Command> {
    occupy_standard()?;
    Ok(Command::new(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::MetadataExt, sync::Barrier, thread};
    use tempfile::TempDir;

    /// One of them moves the link aside, while the other has seen it and looks again.
    #[test]
    fn two_processes_that_find_a_link_in_the_way_open_one_file() {
        let folder = TempDir::new().unwrap();
        for round in 0..2000 {
            let path = folder.path().join(format!("lock-{round}"));
            std::os::unix::fs::symlink("nowhere", &path).unwrap();
            let both = Barrier::new(2);
            let opens = || {
                both.wait();
                Open::to_write().or_make().file(&path).unwrap().metadata().unwrap().ino()
            };
            let (one, other) = thread::scope(|scope| {
                let one = scope.spawn(opens);
                (opens(), one.join().unwrap())
            });
            assert_eq!(one, other, "round {round}");
        }
    }
}
