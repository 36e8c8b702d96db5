//! Files that a rank removes or renames while the last revision needs them. A second name beside each keeps it until a
//! newer revision is safe; a restart gives it its own name back.

use super::{kernel, protected};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CString, OsStr},
    fs,
    io::{self, Read, Write},
    mem,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt},
        },
    },
    path::Path,
};

/// A file system's number of a file.
pub(super) type Number = (u64, u64);

pub(super) fn number_of(about: &fs::Metadata) -> Number {
    (about.dev(), about.ino())
}

/// The files that lose a name while a revision needs them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed {
    newest: Generation,
    /// Needed until the newest revision is known to be safe.
    previous: Generation,
    /// Needed until the previous revision is known to be safe.
    older: Generation,
    /// Files that got their names back at a restart. They may have another name, too.
    returned: BTreeSet<Number>,
}

/// A revision, and the time from it to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Generation {
    /// The files of the revision, and the path of each.
    needed: BTreeMap<Number, Vec<u8>>,
    /// Paths of files that lost their name in that time. Each has a second name.
    lost: BTreeSet<Vec<u8>>,
}

impl Generation {
    fn merge(&mut self, other: &mut Generation) {
        self.needed.append(&mut other.needed);
        self.lost.append(&mut other.lost);
    }
}

impl Removed {
    /// A revision with these files is made now.
    pub fn begin_revision(&mut self, needed: BTreeMap<Number, Vec<u8>>) {
        self.older.merge(&mut self.previous);
        self.previous = mem::replace(&mut self.newest, Generation { needed, lost: BTreeSet::new() });
    }

    /// The previous revision is safe: removes the second names that only older ones need.
    pub fn previous_is_safe(&mut self) {
        for path in mem::take(&mut self.older).lost {
            if !self.previous.lost.contains(&path) {
                remove_second(&path);
            }
        }
    }

    /// The newest revision has failed, or the previous one: a restart may need any of them.
    pub fn revision_failed(&mut self) {
        self.newest.merge(&mut self.previous);
        self.newest.merge(&mut self.older);
    }

    /// The paths of all files that have a second name.
    pub fn all_lost(&mut self) -> BTreeSet<Vec<u8>> {
        self.revision_failed();
        self.newest.lost.clone()
    }

    /// Gives a file of the revision its name back, if it has lost that since. The second name stays until a newer revision
    /// is safe: if the rank is brought back once more, it shows that the file may have another name.
    pub fn take_back(&mut self, path: &[u8]) {
        let second = second_name(path);
        let (first, second) = (OsStr::from_bytes(path), OsStr::from_bytes(&second));
        // An older second name is of no use while there is a file.
        let is_older = self.previous.lost.contains(path) || self.older.lost.contains(path);
        let is_lost = !is_older || fs::symlink_metadata(first).is_err();
        let Ok(about) = fs::symlink_metadata(second) else { return };
        if is_lost && replace(second, first, number_of(&about)).is_ok() {
            self.returned.insert(number_of(&about));
            self.newest.lost.insert(path.to_vec());
        }
    }

    /// A file is renamed. If it has the new name already, from before a restart, the kernel would do nothing: so it loses
    /// that name first.
    pub fn will_be_renamed(&self, from: (u64, u64), to: (u64, u64)) {
        let number = number_at(from);
        if number.is_some_and(|number| self.returned.contains(&number)) && number == number_at(to) {
            kernel::call(libc::SYS_unlinkat, [to.0, to.1, 0, 0, 0, 0]);
        }
    }

    /// A call takes the name at the address `name` from a file, in the directory of the host's descriptor. `own`: the path
    /// of a protected file that the rank has written.
    pub fn keep(&mut self, directory: u64, name: u64, own: Option<Vec<u8>>) {
        let number = number_at((directory, name));
        let all = [&self.newest, &self.previous, &self.older];
        let needed = || number.and_then(|number| all.iter().find_map(|one| one.needed.get(&number).cloned()));
        let Some(path) = own.or_else(needed) else { return };
        let second = second_name(&path);
        let _ = fs::remove_file(OsStr::from_bytes(&second));
        let Ok(second) = CString::new(second) else { return };
        // A file system without second names loses the file, as it does outside of slots.
        if protected::link(directory, name, &second) {
            self.newest.lost.insert(path);
        }
    }
}

/// The file of this name, which lies in the memory of a rank, in the directory of the host's descriptor.
fn number_at((directory, name): (u64, u64)) -> Option<Number> {
    let mut about = [0u64; mem::size_of::<libc::stat>() / 8];
    let arguments = [directory, name, about.as_mut_ptr() as u64, libc::AT_SYMLINK_NOFOLLOW as u64, 0, 0];
    (kernel::call(libc::SYS_newfstatat, arguments) == 0).then_some((about[0], about[1]))
}

/// Makes `first` a name of the file `second` with this number, in place of any other file.
fn replace(second: &OsStr, first: &OsStr, number: Number) -> io::Result<()> {
    if fs::symlink_metadata(first).is_ok_and(|about| number_of(&about) == number) {
        return Ok(());
    }
    let mut new = second.to_os_string();
    new.push("~");
    let _ = fs::remove_file(&new);
    fs::hard_link(second, &new)?;
    fs::rename(new, first)
}

/// Removes the second name of a file, which no revision needs any more.
pub(crate) fn remove_second(path: &[u8]) {
    let _ = fs::remove_file(OsStr::from_bytes(&second_name(path)));
}

fn second_name(path: &[u8]) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(path));
    let mut name = b".".to_vec();
    name.extend(path.file_name().unwrap_or_default().as_bytes());
    name.extend(b".mainstay");
    path.with_file_name(OsStr::from_bytes(&name)).into_os_string().as_bytes().to_vec()
}

/// The name that an open file has now: it may have been renamed. `None`: it has been removed.
pub(super) fn name_of(file: &fs::File) -> Option<Vec<u8>> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let is_it = number_of(&fs::metadata(&path).ok()?) == number_of(&file.metadata().ok()?);
    is_it.then(|| path.into_os_string().as_bytes().to_vec())
}

/// The bytes of a file without a name: nothing else keeps them.
pub(super) fn bytes_of(file: &fs::File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A file without a name again, where it was.
pub(super) fn nameless_again(path: &[u8], options: &mut fs::OpenOptions, bytes: &[u8]) -> io::Result<fs::File> {
    let folder = Path::new(OsStr::from_bytes(path)).parent().unwrap_or(Path::new("/"));
    let mut made = fs::OpenOptions::new().write(true).read(true).custom_flags(libc::O_TMPFILE).open(folder)?;
    made.write_all(bytes)?;
    options.open(format!("/proc/self/fd/{}", made.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rename of a file over another name of itself does nothing.
    #[test]
    fn a_rename_is_repeated_after_a_second_restart() {
        let folder = tempfile::tempdir().unwrap();
        let [first, log] = ["first", "log"].map(|name| folder.path().join(name));
        fs::write(&first, "a line").unwrap();
        let path = first.as_os_str().as_bytes().to_vec();
        let mut removed = Removed::default();
        removed.begin_revision(BTreeMap::from([(number_of(&fs::metadata(&first).unwrap()), path.clone())]));
        let revision = removed.clone();
        let rename = |removed: &mut Removed| {
            let names = [&first, &log].map(|path| CString::new(path.as_os_str().as_bytes()).unwrap());
            let [from, to] = names.each_ref().map(|name| (libc::AT_FDCWD as u64, name.as_ptr() as u64));
            removed.will_be_renamed(from, to);
            removed.keep(from.0, from.1, None);
            fs::rename(&first, &log).unwrap();
        };
        rename(&mut removed);
        for _ in 0..3 {
            removed = revision.clone();
            removed.take_back(&path);
            assert_eq!(fs::read(&first).unwrap(), b"a line");
        }
        rename(&mut removed);
        assert!(!first.exists() && log.exists());
        removed.all_lost().iter().for_each(|path| remove_second(path));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no second name is left");
    }
}
