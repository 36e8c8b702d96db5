//! The user's folder for files that Mainstay can make again.
//!
//! Invariant: a folder in it is whole, because it gets its name last.

use crate::exit::Failure;
use mainstay_engine::printable_path;
use nix::unistd::mkdtemp;
use std::{
    env, fs,
    hash::{DefaultHasher, Hasher},
    io,
    path::{Path, PathBuf},
};

/// A name for a folder that depends on all `parts`.
pub fn name(kind: &str, parts: &[&[u8]]) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    format!("{kind}-{:016x}", hasher.finish())
}

/// The folder of this name. If it is missing, `make` fills it first.
pub fn once(name: &str, make: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<PathBuf, Failure> {
    let root = root()?;
    let place = root.join(name);
    if place.is_dir() {
        return Ok(place);
    }
    let failed = |e: io::Error| {
        let advice = "name a folder for it in XDG_CACHE_HOME";
        Failure::refused(format!("the cache {} cannot be written: {e}; {advice}", printable_path(&root)))
    };
    fs::create_dir_all(&root).map_err(failed)?;
    let unfinished = mkdtemp(&root.join(format!("{name}-XXXXXX"))).map_err(|e| failed(e.into()))?;
    let made = make(&unfinished).and_then(|()| match fs::rename(&unfinished, &place) {
        // Another process was faster.
        Err(_) if place.is_dir() => fs::remove_dir_all(&unfinished).map_err(failed),
        renamed => renamed.map_err(failed),
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    made.map(|()| place)
}

fn root() -> Result<PathBuf, Failure> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("mainstay"))
        .ok_or_else(|| Failure::refused("there is no place for a cache: set XDG_CACHE_HOME to a folder".to_owned()))
}
