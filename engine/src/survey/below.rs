//! Explains why a directory is not a space, and names spaces below it: often the directory above was given.

use crate::{
    ground::files,
    plural::count,
    printable::printable_path,
    space::{LEVELS_FILE, LOCK_FILE, OF_A_SPACE, is_layout},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The depth of the search for spaces, and its limit of files and directories.
const DEPTH: usize = 3;
const ENTRIES_MAX: usize = 2000;
/// The number of spaces that a message names.
const NAMED_MAX: usize = 5;

/// The reason for a directory that can be listed and has no file of a space.
pub(super) fn why_none(directory: &Path) -> String {
    let (mut spaces, mut left) = (Vec::new(), ENTRIES_MAX);
    let is_empty = files::entries(directory).is_ok_and(|mut entries| entries.next().is_none());
    look_below(directory, DEPTH, &mut left, &mut spaces);
    spaces.sort();
    let why = if is_empty { "it is empty" } else { "there is no layout in it" };
    match (&spaces[..], left) {
        ([], 0) => format!("{why}; the search below it was not complete"),
        ([], _) => why.to_owned(),
        (all, _) => {
            let name = |space: &PathBuf| printable_path(space.strip_prefix(directory).unwrap_or(space));
            let names = all.iter().take(NAMED_MAX).map(name).collect::<Vec<_>>().join(", ");
            let more = all.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{why}, but {} below it: {names}{more}", count(all.len() as u64, "space"))
        }
    }
}

/// Adds the spaces below `directory` to `spaces`. Links are not followed.
fn look_below(directory: &Path, depth: usize, left: &mut usize, spaces: &mut Vec<PathBuf>) {
    let mut within = Vec::new();
    for entry in files::entries(directory).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            within.push(entry.path());
        }
    }
    for path in within {
        if is_space(&path) {
            spaces.push(path);
        } else if depth > 1 {
            look_below(&path, depth - 1, left, spaces);
        }
    }
}

/// Whether the directory has a layout, or a note of nearer levels. The directory of a nearer level is not a space of
/// its own.
fn is_space(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has = |file: &str| fs::symlink_metadata(directory.join(file)).is_ok_and(|found| found.is_file());
    let mut entries = files::entries(directory).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let mut has_layout = || entries.any(|entry| entry.file_name().to_str().is_some_and(is_layout));
    !name.starts_with(OF_A_SPACE) && (has(LOCK_FILE) && has(LEVELS_FILE) || has_layout())
}
