//! Pools that no process is in any more: completing their data and removing the rest.

use super::{
    Pool,
    file::{self, absolute},
    layout::{CLEANER, Constants},
    listing::{records_of, remove_files},
    sealed::{Sealed, StagedBytes},
    space_note::SpaceNote,
};
use crate::{
    device::{ByteLocks, LockOutcome},
    error::{Error, Result},
};
use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A pool without members. No other process cleans it up while this value is alive.
#[derive(Debug)]
pub(crate) struct Dead {
    directory: PathBuf,
    constants: Constants,
    locks: ByteLocks,
}

impl Pool {
    /// Opens the pool `id` to complete the data in it. Returns `None` if the pool is gone, a member is still in it, or
    /// another process has opened it in this way.
    pub(crate) fn open_dead(directory: &Path, id: [u8; 16]) -> Result<Option<Dead>> {
        let directory = absolute(directory)?;
        let path = file::path_of(&directory, id, None);
        let Some(locks) = lock_dead(&path)? else { return Ok(None) };
        let constants = Constants::read(locks.file(), id).map_err(|why| file::refused(&path, why))?;
        Ok(Some(Dead { directory, constants, locks }))
    }
}

impl Dead {
    pub(crate) fn id(&self) -> [u8; 16] {
        self.constants.id
    }

    pub(crate) fn contents(&self) -> StagedBytes<'_> {
        StagedBytes { file: self.locks.file(), constants: &self.constants }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn path(&self) -> PathBuf {
        path(&self.directory, self.id())
    }

    /// The spaces of the pool's job, if noted.
    pub(crate) fn spaces(&self) -> Option<SpaceNote> {
        SpaceNote::read(self.locks.file())
    }

    pub(crate) fn remove(self) -> Result<()> {
        remove_files(&self.directory, self.id())
    }
}

/// The path of the pool `id`.
pub(crate) fn path(directory: &Path, id: [u8; 16]) -> PathBuf {
    file::path_of(directory, id, None)
}

/// Whether the file of a pool or of a record is refused, because another user could have made it or can access it.
pub(crate) fn is_refused(path: &Path) -> bool {
    matches!(file::open(path), Err(Error::PoolRefused { .. }))
}

/// Whether another version of Mainstay made the pool `id`. A build of that version can complete its data.
pub(crate) fn is_of_another_version(directory: &Path, id: [u8; 16]) -> bool {
    let found = file::open(&file::path_of(directory, id, None)).ok().flatten();
    found.is_some_and(|found| Constants::are_of_another_version(&found))
}

/// The spaces of the pool's job, if noted, even if the pool cannot be used.
pub(crate) fn spaces_of(directory: &Path, id: [u8; 16]) -> Option<SpaceNote> {
    SpaceNote::read(&file::open_to_look(&file::path_of(directory, id, None))?)
}

/// Whether `remove` would remove the pool now.
pub(crate) fn is_removable(directory: &Path, id: [u8; 16]) -> Result<bool> {
    let path = file::path_of(&absolute(directory)?, id, None);
    Ok(lock_dead(&path)?.is_some() || path.symlink_metadata().is_err())
}

/// Removes a pool and its records: sealed or not, damaged or not. Returns `false` if a member is still in the pool, or
/// another process cleans it up.
pub(crate) fn remove(directory: &Path, id: [u8; 16]) -> Result<bool> {
    let directory = absolute(directory)?;
    let path = file::path_of(&directory, id, None);
    let held = lock_dead(&path)?;
    if held.is_none() && path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    remove_files(&directory, id).map(|()| true)
}

/// The sealed shards beside the pool `id`, even if members are in it. An unreadable record counts as no shard.
pub(crate) fn sealed_of(directory: &Path, id: [u8; 16]) -> Result<Vec<Sealed>> {
    let records = records_of(directory, id)?.into_iter();
    Ok(records.filter_map(|rank| Sealed::open(directory, id, rank).ok().flatten()).collect())
}

/// Whether a record beside the pool `id` is unreadable, so that it may hold anything.
pub(crate) fn has_unreadable(directory: &Path, id: [u8; 16]) -> bool {
    let is_unreadable = |rank: &u32| Sealed::open(directory, id, *rank).is_err();
    records_of(directory, id).is_ok_and(|records| records.iter().any(is_unreadable))
}

/// Locks a pool that has no member: takes the cleaner's byte first, then looks for members (see `open`).
fn lock_dead(path: &Path) -> Result<Option<ByteLocks>> {
    let Some(found) = file::open(path)? else { return Ok(None) };
    let failed = |e| file::failed("locking", path, e);
    let locks = ByteLocks::of(found);
    let free = match locks.try_lock(CLEANER).map_err(failed)? {
        LockOutcome::Done => !locks.is_locked().map_err(failed)?,
        LockOutcome::Busy | LockOutcome::Read(_) => false,
        LockOutcome::Unsupported => return Err(failed(io::ErrorKind::Unsupported.into())),
    };
    // Another process may have removed the pool first.
    let there = free && locks.file().metadata().map_err(failed)?.nlink() == 1;
    Ok(there.then_some(locks))
}
