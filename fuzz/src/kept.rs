//! The kept inputs of each target: `corpora/NAME`.

use crate::Target;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The folder with the kept inputs of all targets.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora")
}

/// The kept inputs of a target, in the order of their names. A target without any has one of zero bytes.
pub fn inputs(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = match fs::read_dir(folder().join(target.name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![Vec::new()]),
        entries => entries?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?,
    };
    paths.sort();
    paths.iter().map(fs::read).collect()
}
