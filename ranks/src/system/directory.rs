//! The rank's own directory, and its files by name.

use super::{Arguments, System, kernel, protected};
use crate::{Error, Result, memory};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::OpenOptionsExt,
        },
    },
};

#[derive(Debug)]
pub(super) struct Directory(File);

const AT_CURRENT: u64 = libc::AT_FDCWD as u64;

impl Directory {
    pub fn current() -> Result<Directory> {
        Directory::open(b".")
    }

    pub fn open(path: &[u8]) -> Result<Directory> {
        let path = OsString::from_vec(path.to_vec());
        let directory = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(&path);
        directory.map(Directory).map_err(|error| Error::system(path.display(), error))
    }

    pub fn path(&self) -> Result<Vec<u8>> {
        let path = fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        path.map(|path| path.into_os_string().into_vec())
            .map_err(|error| Error::system("the directory of a rank", error))
    }
}

/// A name in a call: the host's descriptor of its directory, its address, and the absolute name if files are protected.
type Name = (u64, u64, Option<Vec<u8>>);

/// A call that takes a name from a file. `new`: it gives another one.
struct NameChange {
    old: Name,
    new: Option<Name>,
}

impl NameChange {
    fn of(system: &System, number: i64, [from, name, to, new_name, ..]: Arguments) -> Option<NameChange> {
        let full =
            |directory: u64, name: u64| (directory, name, protected::own_name(system.slot, directory as RawFd, name));
        match number {
            libc::SYS_unlinkat => Some(NameChange { old: full(from, name), new: None }),
            libc::SYS_renameat | libc::SYS_renameat2 => {
                Some(NameChange { old: full(from, name), new: Some(full(to, new_name)) })
            }
            _ => None,
        }
    }
}

impl System {
    /// The host's descriptor for a directory that a call names.
    pub(super) fn directory_of(&self, number: i32) -> io::Result<RawFd> {
        if number == libc::AT_FDCWD {
            return Ok(self.directory.0.as_raw_fd());
        }
        // An absolute path lets the kernel ignore a wrong descriptor; an invalid one does the same.
        Ok(self.descriptors.get(number).map_or(-1, |file| file.host.as_raw_fd()))
    }

    /// Does a call that may make a file, with the rank's mask for its mode.
    pub(super) fn with_umask<R>(&mut self, does: impl FnOnce(&mut System) -> R) -> R {
        let Some(mask) = self.process.umask else { return does(self) };
        let before = kernel::call(libc::SYS_umask, [mask.into(), 0, 0, 0, 0, 0]);
        let result = does(self);
        kernel::call(libc::SYS_umask, [before as u64, 0, 0, 0, 0, 0]);
        result
    }

    /// Passes on a call of the `*at` family. The arguments at `places` are descriptors of directories.
    pub(super) fn at_path(&mut self, number: i64, mut arguments: Arguments, places: &[usize]) -> i64 {
        for place in places {
            match self.directory_of(arguments[*place] as i32) {
                Ok(host) => arguments[*place] = host as u64,
                Err(error) => return kernel::number(&error),
            }
        }
        let change = NameChange::of(self, number, arguments);
        if let Some(change) = &change {
            self.before(change);
        }
        let result = self.with_umask(|system| protected::call(system.slot, number, arguments));
        if let Some(change) = change.filter(|_| result == 0) {
            self.descriptors.follow(change.old.2, change.new.and_then(|new| new.2));
        }
        result
    }

    /// Files that lose a name keep a second one.
    fn before(&mut self, change: &NameChange) {
        let (from, name, old) = &change.old;
        self.removed.keep(*from, *name, self.descriptors.written_whole(old.as_deref()));
        if let Some((to, new_name, new)) = &change.new {
            self.removed.keep(*to, *new_name, self.descriptors.written_whole(new.as_deref()));
            self.removed.will_be_renamed((*from, *name), (*to, *new_name));
        }
    }

    /// The older calls, as their `*at` twins.
    pub(super) fn by_name(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [a, b, c, ..] = arguments;
        const NO_FOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
        let (number, arguments, places): (_, _, &[usize]) = match number {
            libc::SYS_stat => (libc::SYS_newfstatat, [AT_CURRENT, a, b, 0, 0, 0], &[0]),
            libc::SYS_lstat => (libc::SYS_newfstatat, [AT_CURRENT, a, b, NO_FOLLOW, 0, 0], &[0]),
            libc::SYS_access => (libc::SYS_faccessat, [AT_CURRENT, a, b, 0, 0, 0], &[0]),
            libc::SYS_mkdir => (libc::SYS_mkdirat, [AT_CURRENT, a, b, 0, 0, 0], &[0]),
            libc::SYS_mknod => (libc::SYS_mknodat, [AT_CURRENT, a, b, c, 0, 0], &[0]),
            libc::SYS_rmdir => (libc::SYS_unlinkat, [AT_CURRENT, a, libc::AT_REMOVEDIR as u64, 0, 0, 0], &[0]),
            libc::SYS_unlink => (libc::SYS_unlinkat, [AT_CURRENT, a, 0, 0, 0, 0], &[0]),
            libc::SYS_rename => (libc::SYS_renameat, [AT_CURRENT, a, AT_CURRENT, b, 0, 0], &[0, 2]),
            libc::SYS_link => (libc::SYS_linkat, [AT_CURRENT, a, AT_CURRENT, b, 0, 0], &[0, 2]),
            libc::SYS_symlink => (libc::SYS_symlinkat, [a, AT_CURRENT, b, 0, 0, 0], &[1]),
            libc::SYS_chmod => (libc::SYS_fchmodat, [AT_CURRENT, a, b, 0, 0, 0], &[0]),
            libc::SYS_lchown => (libc::SYS_fchownat, [AT_CURRENT, a, b, c, NO_FOLLOW, 0], &[0]),
            _ => (libc::SYS_fchownat, [AT_CURRENT, a, b, c, 0, 0], &[0]),
        };
        kernel::result(self.at_path(number, arguments, places))
    }

    /// Passes on a call without an `*at` twin, with the name made absolute.
    pub(super) fn in_directory(&mut self, number: i64, mut arguments: Arguments) -> io::Result<i64> {
        let name = memory::string(self.slot, arguments[0] as usize)?;
        if name.first() != Some(&b'/') {
            let mut whole = self.directory.path().map_err(|_| io::Error::from_raw_os_error(libc::ENOENT))?;
            whole.extend([b"/", &*name, b"\0"].concat());
            arguments[0] = whole.as_ptr() as u64;
            // The name is no longer in the rank's memory.
            return kernel::result(protected::call_with(number, arguments));
        }
        kernel::result(protected::call(self.slot, number, arguments))
    }

    /// `/proc/self/exe` is the rank's program, not the host.
    pub(super) fn read_link(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [a, b, c, d, ..] = arguments;
        let (directory, name, into, room) =
            if number == libc::SYS_readlinkat { (a, b, c, d) } else { (AT_CURRENT, a, b, c) };
        if memory::string(self.slot, name as usize)? == b"/proc/self/exe" {
            let path = self.mapped.name(0);
            let bytes = path.len().min(room as usize);
            memory::write(self.slot, into as usize, &path.as_bytes()[..bytes])?;
            return Ok(bytes as i64);
        }
        kernel::result(self.at_path(libc::SYS_readlinkat, [directory, name, into, room, 0, 0], &[0]))
    }

    pub(super) fn change_directory(&mut self, number: i64, [argument, ..]: Arguments) -> io::Result<i64> {
        let host = if number == libc::SYS_fchdir {
            let file = self.descriptors.get(argument as i32)?;
            fs::read_link(format!("/proc/self/fd/{}", file.host.as_raw_fd()))?
        } else {
            let name = memory::string(self.slot, argument as usize)?;
            let mut whole = self.directory.path().map_err(|_| io::Error::from_raw_os_error(libc::ENOENT))?;
            if name.first() == Some(&b'/') {
                whole.clear();
            }
            whole.extend([b"/", &*name].concat());
            OsString::from_vec(whole).into()
        };
        let directory = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(host)?;
        self.directory = Directory(directory);
        Ok(0)
    }

    pub(super) fn current_directory(&mut self, _: i64, [into, room, ..]: Arguments) -> io::Result<i64> {
        let mut path =
            fs::read_link(format!("/proc/self/fd/{}", self.directory.0.as_raw_fd()))?.as_os_str().as_bytes().to_vec();
        path.push(0);
        if path.len() > room as usize {
            return Err(io::Error::from_raw_os_error(libc::ERANGE));
        }
        memory::write(self.slot, into as usize, &path)?;
        Ok(path.len() as i64)
    }

    pub(super) fn set_umask(&mut self, _: i64, [mask, ..]: Arguments) -> io::Result<i64> {
        let before = self.process.umask.unwrap_or_else(|| {
            let before = kernel::call(libc::SYS_umask, [0o77, 0, 0, 0, 0, 0]);
            kernel::call(libc::SYS_umask, [before as u64, 0, 0, 0, 0, 0]);
            before as u32
        });
        self.process.umask = Some(mask as u32 & 0o777);
        Ok(before.into())
    }
}
