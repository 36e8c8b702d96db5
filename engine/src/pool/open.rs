//! Making, joining and leaving a pool.
//!
//! A joining process locks its own byte first, then looks for a cleaner. A cleaner locks the cleaner's byte first, then
//! looks for members. If two processes meet, at least one sees the other and releases its lock.

use super::{
    Pool, Shape, Shared,
    file::{self, absolute},
    layout::{CLEANER, Constants},
    listing::remove_files,
    sizes::Sizes,
};
use crate::{
    device::{ByteLocks, LockFile as _, LockOutcome, Mapping, forks},
    error::{Error, Result},
    ground::{files, sleep},
    printable::printable_path,
};
use std::{
    fs::{self, File},
    io,
    mem::ManuallyDrop,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};
use zerocopy::IntoBytes;

const LOOK_AGAIN: Duration = Duration::from_millis(1);
const ATTEMPTS: usize = 10;
/// How often to retry a lock that others hold only for an instant.
const LOOKS: usize = 2000;

impl Pool {
    /// Creates the file of pool `id`, without memory for its chunks, and joins it as member 0. Refuses if there is no
    /// room for the chunks.
    pub(crate) fn create(directory: &Path, id: [u8; 16], shape: &Shape) -> Result<Pool> {
        let directory = absolute(directory)?;
        check_room(&directory, if shape.grows { 0 } else { shape.bytes })?;
        let constants = Constants::new(id, shape)?;
        until_kept(|| create_once(&directory, constants))
    }

    /// Joins the pool that another rank of this node made.
    pub(crate) fn join(directory: &Path, id: [u8; 16], member: u32) -> Result<Pool> {
        let directory = absolute(directory)?;
        let path = file::path_of(&directory, id, None);
        let missing = || file::refused(&path, "it is not there, or this rank sees another directory");
        let found = file::open(&path)?.ok_or_else(missing)?;
        let constants = Constants::read(&found, id).map_err(|why| file::refused(&path, why))?;
        if member >= constants.members {
            return Err(file::refused(&path, format!("it has {} members, none is {member}", constants.members)));
        }
        let locks = ByteLocks::of(found);
        take_byte(&locks, &path, member)?;
        join(directory, path, locks, constants, member)
    }
}

/// Retries `make`: until the new file is locked, a cleaner may take it for the file of a dead process.
pub(super) fn until_kept<T>(make: impl Fn() -> Result<T>) -> Result<T> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        match make() {
            Err(Error::PoolRefused { .. }) if attempts.next().is_some() => {}
            made => return made,
        }
    }
}

fn create_once(directory: &Path, constants: Constants) -> Result<Pool> {
    let path = file::path_of(directory, constants.id, None);
    let locks = ByteLocks::of(file::create(&path)?);
    // Lock the byte at once: anyone may remove a pool that has no member.
    let made = take_byte(&locks, &path, 0).and_then(|()| {
        make(locks.file(), &path, &constants)?;
        join(directory.to_owned(), path.clone(), locks, constants, 0)
    });
    made.inspect_err(|_| {
        let _ = fs::remove_file(&path);
    })
}

pub(super) fn check_room(directory: &Path, bytes: u64) -> Result<()> {
    let there = files::directory(directory);
    let refused = |what: &str| {
        let why =
            format!("{} {what}; make it on each node, or name another folder in memory", printable_path(directory));
        Error::argument("pool_directory", why)
    };
    let there = there.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => refused("is not there"),
        io::ErrorKind::NotADirectory => refused("is no directory"),
        _ => Error::io("making the pool in", format!("{} (pool_directory)", printable_path(directory)), e),
    })?;
    let available = file::available(&there);
    if bytes > available { Err(file::full(&directory.join("pool"), bytes, available)) } else { Ok(()) }
}

/// Writes the header and allocates the tables; in a pool that grows, only the tables of the members. Checks first that
/// all chunks will fit: allocating until the memory runs out would starve every process for a while.
fn make(made: &File, path: &Path, constants: &Constants) -> Result<()> {
    let bytes = if constants.grows() { 0 } else { constants.bytes() };
    let (needed, available) = (constants.memory_bytes(bytes), file::available(made));
    if needed > available {
        return Err(file::full(path, needed, available));
    }
    file::set_length(made, path, constants.file_bytes())?;
    file::give_memory(made, path, 0, constants.tables_bytes(bytes))?;
    made.write_all_at(constants.as_bytes(), 0).map_err(|e| file::failed("making", path, e))
}

fn join(directory: PathBuf, path: PathBuf, locks: ByteLocks, constants: Constants, member: u32) -> Result<Pool> {
    let for_mapping = file::open_again(&path, locks.file())?;
    let map = Mapping::new(&for_mapping, constants.file_bytes()).map_err(|e| file::failed("mapping", &path, e))?;
    let shared = Shared {
        directory,
        path,
        constants,
        map,
        member,
        locks: ManuallyDrop::new(locks),
        forks: forks(),
        held: (0..constants.chunks).map(|_| AtomicBool::new(false)).collect(),
        // Members start at different chunks, so they rarely compete for the same one.
        cursor: AtomicU32::new((u64::from(constants.chunks) * u64::from(member) / u64::from(constants.members)) as u32),
        sizes: Sizes::new(&constants),
    };
    // A new process must not take the place of a member that died.
    if shared.member_entries()[member as usize].joined.swap(1, Ordering::AcqRel) != 0 {
        return Err(file::refused(&shared.path, format!("member {member} was here before, and has ended")));
    }
    Ok(Pool { shared: shared.into() })
}

pub(super) fn take_byte(locks: &ByteLocks, path: &Path, member: u32) -> Result<()> {
    let failed = |e| file::failed("locking", path, e);
    match locks.try_lock(u64::from(member)).map_err(failed)? {
        LockOutcome::Done => {}
        LockOutcome::Busy | LockOutcome::Read(_) => {
            return Err(file::refused(path, format!("member {member} is here already")));
        }
        LockOutcome::Unsupported => return Err(failed(io::ErrorKind::Unsupported.into())),
    }
    for _ in 0..LOOKS {
        if !locks.is_locked_in(CLEANER, 1).map_err(failed)? {
            return match locks.file().metadata().map_err(failed)?.nlink() {
                1 => Ok(()),
                _ => Err(file::refused(path, "it was removed meanwhile")),
            };
        }
        sleep(LOOK_AGAIN);
    }
    Err(file::refused(path, "another process is cleaning it up"))
}

/// Locks the cleaner's byte, which others hold only for an instant. Returns `false` if the byte stayed locked.
pub(super) fn take_cleaner(locks: &ByteLocks) -> bool {
    for look in 0..LOOKS {
        match locks.try_lock(CLEANER) {
            Ok(LockOutcome::Done) => return true,
            Ok(LockOutcome::Busy | LockOutcome::Read(_)) if look + 1 < LOOKS => sleep(LOOK_AGAIN),
            _ => break,
        }
    }
    false
}

impl Drop for Shared {
    /// Leaves the pool. The last member to leave removes the pool, unless a dead member's shard could still be
    /// completed from it, or was lost. In a forked child this does nothing: the pool belongs to the parent.
    fn drop(&mut self) {
        if forks() != self.forks {
            return;
        }
        // A process that joins or cleans up meanwhile sees the cleaner's byte locked, and waits.
        if take_cleaner(&self.locks) {
            let left = self.locks.unlock(u64::from(self.member));
            let last = left.is_ok() && self.locks.is_locked().is_ok_and(|others| !others);
            let id = self.constants.id;
            if last && !self.is_left_staged() {
                // The next process that cleans up finds any file that could not be removed.
                let _ = remove_files(&self.directory, id);
            }
        }
        // SAFETY: dropped once, here; nothing uses the locks after that.
        #[allow(unsafe_code)]
        unsafe {
            ManuallyDrop::drop(&mut self.locks)
        };
    }
}
