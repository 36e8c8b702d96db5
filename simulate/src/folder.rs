//! The folder of a run, in memory.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

/// The folder of a run. Its path has the same length in each run, because files of the engine hold paths.
pub struct Folder {
    pub path: PathBuf,
    _lock: File,
}

impl Folder {
    pub fn make() -> Folder {
        (0..1000).find_map(|turn| Folder::take(turn % 100)).expect("a folder in memory for the simulation")
    }

    /// Takes the folder with this number, unless another simulation has it. One of a killed simulation is emptied.
    fn take(slot: usize) -> Option<Folder> {
        // SAFETY: the call has no conditions.
        #[allow(unsafe_code)]
        let user = unsafe { libc::geteuid() };
        let path = PathBuf::from(format!("/dev/shm/mainstay-simulated-{user:010}-{slot:02}"));
        let _ = fs::create_dir(&path);
        let lock = File::open(&path).ok()?;
        lock.try_lock().ok()?;
        let (opened, named) = (lock.metadata().ok()?, fs::symlink_metadata(&path).ok()?);
        if opened.ino() != named.ino() || opened.uid() != user {
            // Another simulation has just removed this folder, at its end; or another user has put something in its place.
            return None;
        }
        for entry in fs::read_dir(&path).ok()? {
            fs::remove_dir_all(entry.ok()?.path()).ok()?;
        }
        Some(Folder { path, _lock: lock })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
