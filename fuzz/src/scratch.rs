//! A folder in memory for the files that targets read.

use std::{
    env, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tempfile::TempDir;

static PATH: OnceLock<PathBuf> = OnceLock::new();

/// The folder of this process. It goes with this value.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes the folder in TMPDIR, or in memory.
    pub fn make() -> io::Result<Scratch> {
        let folder = env::var_os("TMPDIR").unwrap_or("/dev/shm".into());
        let made = tempfile::Builder::new().prefix("mainstay-fuzz-").tempdir_in(folder)?;
        PATH.get_or_init(|| made.path().to_owned());
        Ok(Scratch(made))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A file or folder in the folder of this process.
pub(crate) fn scratch(name: &str) -> PathBuf {
    PATH.get().expect("the process has made its folder").join(name)
}
