//! The locks of a space's writers: one byte of the lock file for each rank, freed when its process dies.
//!
//! Invariant: while the ranks of a job change their numbers, each holds a byte all the time, so that no other job
//! finds the space free.

use super::LOCK_FILE;
use crate::{
    device::{Access, Device, LockFile, LockOutcome, LockReader, RANK_BYTES},
    error::{Error, Result},
    ground::{Instant, lock, sleep},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

const POLL: Duration = Duration::from_millis(10);
/// From here on, far above all ranks, are the bytes for ranks that are changing their numbers.
const ASIDE: u64 = RANK_BYTES / 2;

/// The locks of one process, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    file: Box<dyn LockFile>,
    directory: PathBuf,
    space: String,
    held: Mutex<BTreeSet<u64>>,
}

impl Locks {
    /// Opens the lock file, and makes it if it is missing; locks nothing yet. From then on only its user may open it,
    /// because every reader can lock it.
    pub(crate) fn open(device: &dyn Device) -> Result<Locks> {
        let space = device.path();
        let file = device
            .lock_file(LOCK_FILE, Access::Write)
            .map_err(|e| failed(&space, e).for_want_of(0, || device.directory().available_bytes()))?;
        Ok(Locks { file, directory: device.directory().to_path_buf(), space, held: Mutex::default() })
    }

    /// Whether these locks belong to the space in `directory`, and the file there is still the same.
    pub(crate) fn are_of(&self, directory: &Path) -> bool {
        self.directory == directory && self.file.is_named()
    }

    /// The bytes that this process has locked, ascending.
    pub(crate) fn held(&self) -> Vec<u64> {
        lock(&self.held).iter().copied().collect()
    }

    /// Checks that no other process holds the byte of any rank, except `ours`, which other ranks of this job hold: a
    /// job of which some ranks have died still holds some. Waits up to `grace` for the ranks of a killed job to
    /// disappear.
    pub(crate) fn wait_for_others(&self, grace: Duration, ours: &BTreeSet<u64>) -> Result<()> {
        let deadline = Instant::now() + grace;
        while self.is_anothers(ours).map_err(|e| failed(&self.space, e))? {
            if Instant::now() >= deadline {
                return Err(self.in_use());
            }
            sleep(POLL);
        }
        Ok(())
    }

    fn is_anothers(&self, ours: &BTreeSet<u64>) -> std::io::Result<bool> {
        let mut from = 0;
        for end in ours.iter().copied().filter(|byte| *byte < RANK_BYTES).chain([RANK_BYTES]) {
            if from < end {
                match self.file.is_locked_in(from, end - from) {
                    // Without locks no process can make another wait.
                    Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(false),
                    Ok(false) => {}
                    found => return found,
                }
            }
            from = end + 1;
        }
        Ok(false)
    }

    /// Locks the byte of `rank`. Returns false if the file system has no locks.
    pub(crate) fn lock_rank(&self, rank: u64) -> Result<bool> {
        match self.try_lock(rank)? {
            LockOutcome::Done => Ok(true),
            LockOutcome::Busy => Err(self.in_use()),
            LockOutcome::Read(reader) => Err(self.read(reader)),
            LockOutcome::Unsupported => Ok(false),
        }
    }

    /// Locks a byte that belongs to no rank in place of the held ones, so that others can take those; does nothing if
    /// none is held. `near`: a number that no other rank passes.
    pub(crate) fn step_aside(&self, near: u64) -> Result<()> {
        let before = self.held();
        if before.is_empty() {
            return Ok(());
        }
        // If a failure interrupted a rank that stepped aside, the rank already has one of these bytes.
        for byte in ASIDE + near..RANK_BYTES {
            if before.contains(&byte) || self.try_lock(byte)? == LockOutcome::Done {
                before.into_iter().filter(|held| *held != byte).try_for_each(|held| self.unlock(held))?;
                debug_assert_eq!(self.held(), [byte], "a rank that changes its number holds no byte");
                return Ok(());
            }
        }
        Err(self.in_use())
    }

    /// Unlocks all but the byte of `rank`.
    pub(crate) fn keep_only(&self, rank: u64) -> Result<()> {
        let held = self.held();
        debug_assert!(held.is_empty() || held.contains(&rank), "a rank gives up the only byte that it holds");
        held.into_iter().filter(|held| *held != rank).try_for_each(|held| self.unlock(held))
    }

    pub(crate) fn try_lock(&self, byte: u64) -> Result<LockOutcome> {
        let outcome = self.file.try_lock(byte).map_err(|e| failed(&self.space, e))?;
        if outcome == LockOutcome::Done {
            lock(&self.held).insert(byte);
        }
        Ok(outcome)
    }

    fn unlock(&self, byte: u64) -> Result<()> {
        self.file.unlock(byte).map_err(|e| failed(&self.space, e))?;
        lock(&self.held).remove(&byte);
        Ok(())
    }

    /// The error if a process holds a read lock: no job saves there, and none can while the lock is held.
    fn read(&self, reader: LockReader) -> Error {
        let process = reader.process.map_or("a process".to_owned(), |process| format!("process {process}"));
        let holder = format!(
            ": {process} with only read permission holds a read lock on {0}/{LOCK_FILE}; end it, and remove that \
             permission (chmod 600 {0}/{LOCK_FILE}), because readers need no lock",
            self.space
        );
        Error::InUse { path: self.space.clone(), holder }
    }

    pub(crate) fn in_use(&self) -> Error {
        Error::InUse { path: self.space.clone(), holder: String::new() }
    }
}

fn failed(space: &str, e: std::io::Error) -> Error {
    Error::io("locking", format!("{space}/{LOCK_FILE}"), e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Disk;

    fn locks(folder: &tempfile::TempDir) -> Locks {
        Locks::open(&Disk::make(folder.path()).unwrap()).unwrap()
    }

    #[test]
    fn a_rank_that_gets_another_number_holds_a_byte_all_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let (moved, other) = (locks(&folder), locks(&folder));
        assert!(moved.lock_rank(3).unwrap());
        moved.step_aside(2).unwrap();
        assert!(other.lock_rank(3).unwrap(), "the byte is another's to take");
        assert!(other.file.is_locked().unwrap());
        assert!(moved.lock_rank(2).unwrap());
        moved.keep_only(2).unwrap();
        assert_eq!(moved.held(), [2]);
        assert_eq!(other.try_lock(ASIDE + 2).unwrap(), LockOutcome::Done, "nobody is aside any longer");
    }

    #[test]
    fn one_that_was_cut_short_aside_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (locks(&folder), locks(&folder));
        assert!(first.lock_rank(0).unwrap() && second.lock_rank(1).unwrap());
        first.step_aside(1).unwrap();
        second.step_aside(1).unwrap();
        // Any byte will do.
        first.step_aside(0).unwrap();
        assert_eq!((first.held().len(), second.held().len()), (1, 1));
    }

    #[test]
    fn others_are_those_of_no_rank_of_the_job() {
        let folder = tempfile::tempdir().unwrap();
        let (leader, mate, stranger) = (locks(&folder), locks(&folder), locks(&folder));
        assert!(leader.lock_rank(0).unwrap() && mate.lock_rank(2).unwrap());
        leader.wait_for_others(Duration::ZERO, &BTreeSet::from([0, 2])).unwrap();
        for byte in [1, 3, RANK_BYTES - 1] {
            assert!(stranger.lock_rank(byte).unwrap());
            leader.wait_for_others(Duration::ZERO, &BTreeSet::from([0, 2])).unwrap_err();
            stranger.unlock(byte).unwrap();
        }
    }

    #[test]
    fn locks_of_a_file_that_was_removed_are_locks_of_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Disk::make(folder.path()).unwrap().directory().to_path_buf();
        let before = locks(&folder);
        assert!(before.are_of(&directory));
        std::fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
        assert!(!before.are_of(&directory));
    }
}
