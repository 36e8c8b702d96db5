//! The files of pools: their names, and the access rights that they need.

use crate::{
    device::{self, HugePages, Mapping, allocate_at, within_limit},
    error::{Error, Result},
    ground::files::{self, Open},
    printable::printable_path,
};
use nix::unistd::geteuid;
use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

const PREFIX: &str = "mainstay-pool-";

/// The path of pool `id`, or of the record of one rank beside it.
pub(super) fn path_of(directory: &Path, id: [u8; 16], rank: Option<u32>) -> PathBuf {
    let id = u128::from_be_bytes(id);
    directory.join(match rank {
        None => format!("{PREFIX}{id:032x}"),
        Some(rank) => format!("{PREFIX}{id:032x}.{rank}"),
    })
}

/// Parses a name made by `path_of`; returns `None` for any other name.
pub(super) fn parse_name(name: &str) -> Option<([u8; 16], Option<u32>)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (id, rank) = rest.split_once('.').map_or((rest, None), |(id, rank)| (id, Some(rank)));
    let id = u128::from_str_radix(id, 16).ok()?.to_be_bytes();
    let rank = rank.map(str::parse).transpose().ok()?;
    // Each file has exactly one name: no signs, no capitals, no leading zeros.
    (path_of(Path::new(""), id, rank).to_str() == Some(name)).then_some((id, rank))
}

/// Creates an empty file that only this user can access.
pub(super) fn create(path: &Path) -> Result<File> {
    // Set the mode explicitly, so that the umask does not matter.
    let made = Open::to_read_and_write().new_file().file(path).and_then(|file| {
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    });
    made.map_err(|e| failed("making", path, e).for_want_of(0, || path.parent().and_then(room_in)))
}

/// Free bytes in a directory, if the file system reports them.
fn room_in(directory: &Path) -> Option<u64> {
    device::available(&files::directory(directory).ok()?)
}

/// Opens a file that `create` made; returns `None` if there is none. Refuses a file that another user could have
/// created or can access.
pub(super) fn open(path: &Path) -> Result<Option<File>> {
    let file = match Open::to_read_and_write().file(path) {
        Ok(file) => file,
        // Report any other kind of file in its place: the program has staged its state there.
        Err(e) if files::is_in_the_way(path) => return Err(refused(path, e.to_string())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("opening", path, e)),
    };
    let found = file.metadata().map_err(|e| failed("looking at", path, e))?;
    let why = if found.uid() != geteuid().as_raw() {
        format!("it belongs to user {}", found.uid())
    } else if found.mode() & 0o777 != 0o600 {
        format!("its mode is {:o}, not 600", found.mode() & 0o777)
    } else if found.nlink() > 1 {
        format!("it has {} names", found.nlink())
    } else {
        return Ok(Some(file));
    };
    Err(refused(path, why))
}

/// Opens a file of this user with any mode, only to find its owner.
pub(super) fn open_to_look(path: &Path) -> Option<File> {
    let file = Open::to_read().file(path).ok()?;
    let found = file.metadata().ok()?;
    (found.uid() == geteuid().as_raw()).then_some(file)
}

/// Removes a file. A missing file is no error.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("removing", path, e)),
        _ => Ok(()),
    }
}

/// Opens a second handle of `file`. Locks and a mapping need separate handles: a mapping outlives its handle, and would
/// keep the locks alive.
pub(super) fn open_again(path: &Path, file: &File) -> Result<File> {
    let again = open(path)?.ok_or_else(|| refused(path, "it was removed meanwhile"))?;
    let identity = |file: &File| file.metadata().map(|found| (found.dev(), found.ino()));
    match (identity(file), identity(&again)) {
        (Ok(first), Ok(second)) if first == second => Ok(again),
        _ => Err(refused(path, "it was replaced meanwhile")),
    }
}

/// Sets the length of `file` without allocating memory.
pub(super) fn set_length(file: &File, path: &Path, bytes: u64) -> Result<()> {
    within_limit(bytes).and_then(|()| file.set_len(bytes)).map_err(|e| failed("making", path, e))
}

/// Allocates memory for `bytes` bytes of `file`, starting at `at`.
pub(super) fn give_memory(file: &File, path: &Path, at: u64, bytes: u64) -> Result<()> {
    allocate_at(file, at, bytes).map_err(|e| ungiven(file, path, bytes, e))
}

/// The same with huge pages, step by step, up to offset `to` of a file mapped by `map`. Returns the end of the part
/// that has memory now.
pub(super) fn give_huge(
    file: &File,
    path: &Path,
    map: &Mapping,
    pages: &mut HugePages,
    (from, to): (u64, u64),
) -> Result<u64> {
    pages.give(file, map, from, to).map_err(|e| ungiven(file, path, to - from, e))
}

fn ungiven(file: &File, path: &Path, bytes: u64, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => full(path, bytes, available(file)),
        _ => failed("making", path, error),
    }
}

/// Frees the memory of `bytes` bytes, starting at `at`.
#[allow(unsafe_code)]
pub(super) fn take_memory_back(file: &File, at: u64, bytes: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(at), Ok(bytes)) = (i64::try_from(at), i64::try_from(bytes)) else { return };
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the call touches no memory of ours; mapped pages of the range are zeros from now on.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, at, bytes) };
}

/// Free bytes of the file system of `file`; no limit if it reports none.
pub(super) fn available(file: &File) -> u64 {
    device::available(file).unwrap_or(u64::MAX)
}

pub(super) fn full(path: &Path, needed: u64, available: u64) -> Error {
    let directory = path.parent().unwrap_or(path);
    Error::PoolFull { path: printable_path(directory), needed, available }
}

pub(super) fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    Error::io(doing, format!("the pool {}", printable_path(path)), error)
}

pub(super) fn refused(path: &Path, why: impl Into<String>) -> Error {
    Error::PoolRefused { path: printable_path(path), why: why.into() }
}

pub(super) fn absolute(directory: &Path) -> Result<PathBuf> {
    // The path must stay valid if the program changes its working directory before it leaves the pool.
    std::path::absolute(directory).map_err(|e| Error::io("finding", printable_path(directory), e))
}
