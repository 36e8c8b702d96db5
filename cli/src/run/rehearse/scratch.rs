//! The directories of a rehearsal: one for each run, with the files that the job needs, and one for its memory.
//!
//! Invariant: only files that were made here are removed.

use crate::{exit::Failure, space::completing::pool_directory};
use mainstay_engine::{SpaceSurvey, printable_path, space::is_of_space, unix_ns};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Component, Path, PathBuf},
    process,
};

const NAME: &str = "mainstay-rehearsal-";
/// Limits on the copy of a whole working directory.
const BYTES_MAX: u64 = 1 << 30;
const FILES_MAX: usize = 20_000;

pub struct Scratch {
    root: PathBuf,
    pub calm: PathBuf,
    pub killed: PathBuf,
    /// The pools and the memory levels of both runs.
    pub memory: PathBuf,
}

impl Scratch {
    /// Both directories, inside the working directory, with all its files or those of `with`.
    pub fn make(with: &[PathBuf]) -> Result<Scratch, Failure> {
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        let here = here.map_err(|e| failed("finding", Path::new("the working directory"), &e))?;
        // Process ids repeat, and directories of earlier rehearsals stay if the runs differed.
        let name = format!("{NAME}{:x}-{}", unix_ns() / 1_000_000, process::id());
        let root = here.join(&name);
        let scratch = Scratch {
            calm: root.join("undisturbed"),
            killed: root.join("killed"),
            memory: pool_directory()?.join(&name),
            root,
        };
        scratch.fill(&here, with).inspect_err(|_| scratch.remove())?;
        Ok(scratch)
    }

    fn fill(&self, here: &Path, with: &[PathBuf]) -> Result<(), Failure> {
        for directory in [&self.root, &self.calm, &self.killed, &self.memory] {
            DirBuilder::new().mode(0o700).create(directory).map_err(|e| failed("making", directory, &e))?;
        }
        let mut files = Vec::new();
        match with {
            [] => {
                list(
                    here,
                    Path::new(""),
                    &mut Room { bytes: BYTES_MAX, files: FILES_MAX, is_named: false },
                    &mut files,
                )?;
            }
            named => {
                for path in named {
                    check_within(path, "--with")?;
                    // `./mesh` and `mesh` are one.
                    let path = &path.components().filter(|part| *part != Component::CurDir).collect::<PathBuf>();
                    fs::symlink_metadata(here.join(path)).map_err(|e| failed("looking at", path, &e))?;
                    let mut room = Room { bytes: u64::MAX, files: usize::MAX, is_named: true };
                    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
                        files.push((above.to_owned(), What::Directory));
                    }
                    list_one(here, path, &mut room, &mut files)?;
                }
                files.sort();
                files.dedup();
            }
        }
        for run in [&self.calm, &self.killed] {
            for (path, what) in &files {
                copy(&here.join(path), &run.join(path), *what)?;
            }
        }
        Ok(())
    }

    /// Files in memory are removed in any case.
    pub fn remove_memory(&self) {
        let _ = fs::remove_dir_all(&self.memory);
    }

    pub fn remove(&self) {
        self.remove_memory();
        let _ = fs::remove_dir_all(&self.root);
    }

    /// The place, as a text for people.
    pub fn root(&self) -> String {
        printable_path(&self.root)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Directory,
    File,
    /// Copies to the same relative place.
    Link,
}

/// The rest of the allowed copy.
struct Room {
    bytes: u64,
    files: usize,
    /// The user has named it.
    is_named: bool,
}

/// Refuses a path out of the working directory.
pub fn check_within(path: &Path, option: &str) -> Result<(), Failure> {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    match path.components().all(is_plain) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{option} {}: give a path relative to the working directory, because each run works in a copy of it",
            printable_path(path)
        ))),
    }
}

/// Adds the contents of the directory `path` of `here`, and of those below it.
fn list(here: &Path, path: &Path, room: &mut Room, files: &mut Vec<(PathBuf, What)>) -> Result<(), Failure> {
    let directory = here.join(path);
    for entry in fs::read_dir(&directory).map_err(|e| failed("listing", &directory, &e))? {
        let name = entry.map_err(|e| failed("listing", &directory, &e))?.file_name();
        list_one(here, &path.join(name), room, files)?;
    }
    Ok(())
}

fn list_one(here: &Path, path: &Path, room: &mut Room, files: &mut Vec<(PathBuf, What)>) -> Result<(), Failure> {
    let full = here.join(path);
    let kind = fs::symlink_metadata(&full).map_err(|e| failed("looking at", &full, &e))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if kind.is_dir() && (name.starts_with(NAME) || is_space(&full)) {
        return Ok(());
    }
    let what = match kind {
        _ if kind.is_symlink() => What::Link,
        // Environments and repositories are large, and jobs do not write to them.
        _ if kind.is_dir() && name.starts_with('.') && !room.is_named => What::Link,
        _ if kind.is_dir() => What::Directory,
        _ if kind.is_file() => What::File,
        _ => return Ok(()),
    };
    let bytes = if what == What::File { kind.len() } else { 0 };
    if bytes > room.bytes || room.files == 0 {
        return Err(Failure::usage(
            "the working directory has more than 1 GiB or 20,000 files to copy; name the files that the job needs (--with PATH), or call it in a directory with only those",
        ));
    }
    room.bytes -= bytes;
    room.files -= 1;
    files.push((path.to_owned(), what));
    if what == What::Directory { list(here, path, room, files) } else { Ok(()) }
}

fn is_space(directory: &Path) -> bool {
    let names = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.filter(|name| is_of_space(name)).collect();
    // Other directories can have a file `lock`.
    names.iter().any(|name| name != "lock" && name != "status") && SpaceSurvey::open(directory).is_ok()
}

fn copy(from: &Path, to: &Path, what: What) -> Result<(), Failure> {
    let done = match what {
        What::Directory => fs::create_dir(to),
        What::File => fs::copy(from, to).map(drop),
        // A relative link would lead elsewhere.
        What::Link => symlink(from.canonicalize().unwrap_or_else(|_| from.to_owned()), to),
    };
    done.map_err(|e| failed("copying", from, &e))
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::refused(format!("{doing} {} failed: {error}", printable_path(path)))
}
