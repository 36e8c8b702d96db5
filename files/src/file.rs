//! The identity of a file: the device and inode of its folder, and its name. One folder may have several paths.

use mainstay_format::hash;
use rustix::process::geteuid;
use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// Mainstay's own folder, beside the protected files.
pub const BESIDE: &str = ".mainstay";

/// Most bytes of a name that Mainstay's own files carry unchanged. A longer name has a short form: its first bytes, and a
/// hash of all. Each short form is longer than this limit.
const PLAIN_BYTES_MAX: usize = 200;
const HEAD_BYTES: usize = PLAIN_BYTES_MAX - 2 * size_of::<mainstay_format::Hash>();

/// The form of a file's name in the names of Mainstay's own files.
pub fn short(name: &OsStr) -> Cow<'_, OsStr> {
    let bytes = name.as_bytes();
    if bytes.len() <= PLAIN_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    let digits: String = hash(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Cow::Owned(OsString::from_vec([&bytes[..HEAD_BYTES], b"~", digits.as_bytes()].concat()))
}

/// Whether `name` is a short form. If so, the folder `names` has the whole name.
pub fn is_short(form: &OsStr) -> bool {
    form.len() > PLAIN_BYTES_MAX
}

/// Opens a file beside the protected ones. Another user may have put a pipe there: the open does not block.
pub fn open_plain(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Fails if another user could have put something into Mainstay's folder in `folder`: a link, or files that pass for
/// generations. A missing folder is good.
pub fn check_beside(folder: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(folder.join(BESIDE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let trusted = [geteuid().as_raw(), fs::metadata(folder)?.uid(), 0];
    let is_open_to_all = found.mode() & 0o002 != 0;
    match found.is_dir() && trusted.contains(&found.uid()) && !is_open_to_all {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can change .mainstay in its folder"))
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    device: u64,
    inode: u64,
    name: OsString,
}

impl Key {
    pub fn kind(&self) -> Kind {
        let name = self.name.as_bytes().iter().copied().filter(|byte| !byte.is_ascii_digit()).collect();
        Kind(Key { name: OsString::from_vec(name), ..*self })
    }

    pub fn on_same_device(&self, other: &Key) -> bool {
        self.device == other.device
    }

    pub fn in_same_folder(&self, other: &Key) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Files of one folder whose names differ by digits alone, such as those of several steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind(Key);

/// Tells a file from another one under its name, and from itself after a change. Times are compared with themselves alone: the
/// clocks of a target and of this node differ, and a program may set a time to come.
pub type Identity = [i64; 3];

/// The file that a program's path stands for.
#[derive(Debug, Clone)]
pub struct Named {
    pub folder: PathBuf,
    pub key: Key,
}

impl Named {
    /// From four fields of a message: folder, device, inode, name.
    pub fn from_fields(fields: &[&[u8]; 4]) -> Option<Named> {
        let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
        let (folder, name) = (Path::new(OsStr::from_bytes(fields[0])), OsStr::from_bytes(fields[3]));
        let is_plain = !fields[3].is_empty() && fields[3].iter().all(|byte| !matches!(byte, b'/' | b'\n' | 0));
        if !folder.is_absolute() || !is_plain || name == "." || name == ".." {
            return None;
        }
        let key = Key { device: number(fields[1])?, inode: number(fields[2])?, name: name.to_owned() };
        Some(Named { folder: folder.to_owned(), key })
    }

    /// The file `name` in `folder`.
    pub fn in_folder(folder: &Path, name: &OsStr) -> io::Result<Named> {
        let found = fs::metadata(folder)?;
        let key = Key { device: found.dev(), inode: found.ino(), name: name.to_owned() };
        Ok(Named { folder: folder.to_owned(), key })
    }

    /// Fails if the path now leads to another folder, for example in another mount namespace.
    pub fn check_folder(&self) -> io::Result<()> {
        let found = fs::metadata(&self.folder)?;
        match (found.dev(), found.ino()) == (self.key.device, self.key.inode) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "its path leads to another folder now")),
        }
    }

    /// The file under the name, and the time of its last change: inode, seconds, nanoseconds. `None`: there is none.
    pub fn identity(&self) -> Option<Identity> {
        let found = fs::symlink_metadata(self.path()).ok()?;
        Some([found.ino() as i64, found.mtime(), found.mtime_nsec()])
    }

    pub fn name(&self) -> &OsStr {
        &self.key.name
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.key.name)
    }

    /// As four fields of a message.
    pub fn fields(&self) -> [Vec<u8>; 4] {
        let (device, inode) = (self.key.device.to_string(), self.key.inode.to_string());
        [self.folder.as_os_str().as_bytes().to_vec(), device.into(), inode.into(), self.key.name.as_bytes().to_vec()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_has_a_short_form_of_its_own() {
        let name = |last: &str| OsString::from("x".repeat(254) + last);
        let (one, other) = (name("1"), name("2"));
        assert_eq!(short(&one).len(), PLAIN_BYTES_MAX + 1);
        assert!(is_short(&short(&one)) && short(&one) != short(&other));
        let plain = OsString::from("x".repeat(PLAIN_BYTES_MAX));
        assert!(short(&plain) == *plain && !is_short(&plain));
    }
}
