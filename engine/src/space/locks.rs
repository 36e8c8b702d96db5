//! The locks of those who write to a space: one byte of the lock file a rank, freed when its process dies.

use super::LOCK_FILE;
use crate::{
    device::{Device, LockFile, LockOutcome, LockReader},
    error::{Error, Result},
    ground::{Instant, sleep},
};
use std::time::Duration;

const POLL: Duration = Duration::from_millis(10);

/// The locks of one process, which last until this is dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    file: Box<dyn LockFile>,
    space: String,
}

impl Locks {
    /// Opens the lock file, made if it is missing; locks nothing yet. From then on nobody but its user may open it: who
    /// may read it can lock it.
    pub(crate) fn open(device: &dyn Device) -> Result<Locks> {
        let space = device.path();
        let file = device.lock_file(LOCK_FILE).map_err(|e| failed(&space, e))?;
        // The lock counts also where the file's mode cannot be changed.
        let _ = file.make_private();
        Ok(Locks { file, space })
    }

    /// Nobody else may hold the byte of any rank: a job whose ranks are partly dead still holds some. The
    /// ranks of a job that was killed have `grace` to disappear.
    pub(crate) fn wait_for_others(&self, grace: Duration) -> Result<()> {
        let deadline = Instant::now() + grace;
        while self.file.is_locked().map_err(|e| failed(&self.space, e))? {
            if Instant::now() >= deadline {
                return Err(self.in_use());
            }
            sleep(POLL);
        }
        Ok(())
    }

    /// Locks the byte of `rank`; false if the file system has no locks.
    pub(crate) fn lock_rank(&self, rank: u64) -> Result<bool> {
        match self.try_lock(rank)? {
            LockOutcome::Held => Ok(true),
            LockOutcome::Busy => {
                Err(self.file.reader_of(rank).map_or_else(|| self.in_use(), |reader| self.read(reader)))
            }
            LockOutcome::Unsupported => Ok(false),
        }
    }

    pub(crate) fn try_lock(&self, byte: u64) -> Result<LockOutcome> {
        self.file.try_lock(byte).map_err(|e| failed(&self.space, e))
    }

    /// The error where a process has a lock for reading: nobody saves there, and nobody can as long as it has it.
    fn read(&self, reader: LockReader) -> Error {
        let process = reader.process.map_or("a process".to_owned(), |process| format!("process {process}"));
        let holder = format!(
            ": {process} that may only read it holds a lock for reading on {0}/{LOCK_FILE}; end it, and take that right \
             away (chmod 600 {0}/{LOCK_FILE}), for readers need no lock",
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
