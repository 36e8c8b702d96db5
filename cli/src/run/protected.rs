//! A job whose restart files are protected: `mainstay files` stands before the program in its command.

use super::{generations::Generations, launcher, report::Report};
use crate::{
    arguments::{self, Catch, FileOptions},
    exit::Failure,
    files,
};
use mainstay_engine::unix_ns;
use mainstay_files::Patterns;
use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The restart files of a job.
pub struct Protected {
    matches: Vec<String>,
    options: FileOptions,
    /// The job goes on from them. Ranks in slots go on from a revision, and write the same files again.
    are_progress: bool,
}

impl Protected {
    /// From the command line, and from the table [files] of mainstay.toml.
    pub fn of(wanted: &arguments::Run) -> Result<Protected, Failure> {
        let (matches, options) = files::completed(&wanted.files, &wanted.file_options)?;
        if matches.is_empty() && is_given(&options) {
            return Err(Failure::usage(
                "options for restart files need a pattern: --files PATTERN. A setting of the program is a variable, such as \
                 MAINSTAY_KEEP=3",
            ));
        }
        if wanted.virtual_ranks.is_some() && options.catch == Some(Catch::Kernel) {
            return Err(Failure::usage(
                "--catch kernel is not for --virtual, which catches the files of its ranks itself",
            ));
        }
        Ok(Protected { matches, options, are_progress: wanted.virtual_ranks.is_none() })
    }

    pub fn is_any(&self) -> bool {
        !self.matches.is_empty()
    }

    /// The command with `mainstay files` before its program.
    pub fn before_program(&self, command: &[OsString]) -> Result<Vec<OsString>, Failure> {
        let at = launcher::parts(command)?.map_or(0, |parts| parts.program);
        let (launcher, program) = command.split_at(at);
        Ok([launcher, &self.words()?, program].concat())
    }

    /// `mainstay files` with its options, as it stands before a program. Empty without patterns.
    pub fn words(&self) -> Result<Vec<OsString>, Failure> {
        if !self.is_any() {
            return Ok(Vec::new());
        }
        files::inserted(&self.matches, &self.options, &format!("{}{}", std::process::id(), unix_ns()))
    }

    /// Completes the files that a killed start has closed.
    pub fn complete(&self) {
        files::salvage_all(self.options.stage.as_deref());
    }

    /// The newest generations of the files. Those on other nodes report nothing, but lie in the same folders, or in those
    /// that the patterns name, or in the working directory.
    pub fn newest(&self, report: &Report) -> Generations {
        if !self.are_progress {
            return Generations::default();
        }
        let mut found = Generations::reported(report.told_since(0).files, self.is_any());
        if !self.is_any() {
            return found;
        }
        let (matches, exclude) = (files::absolute(&self.matches), files::absolute(&self.options.exclude));
        let here = env::current_dir().ok();
        let named = matches.iter().filter_map(|pattern| folder_in(pattern));
        let folders = found.folders().chain(here).chain(named).filter_map(|folder| fs::canonicalize(folder).ok());
        let patterns = Patterns::new(&matches, &exclude, Path::new("/dev/shm"));
        for folder in folders.collect::<BTreeSet<PathBuf>>() {
            for (name, generation) in mainstay_files::newest(&folder).unwrap_or_default() {
                if patterns.is_wanted(&folder, name.as_bytes(), &folder.join(&name)) {
                    found.add(folder.join(name), generation);
                }
            }
        }
        found
    }
}

/// The folder that a pattern names, unless it stands for several.
fn folder_in(pattern: &str) -> Option<PathBuf> {
    let (folder, _) = pattern.rsplit_once('/')?;
    (pattern.starts_with('/') && !folder.contains(['*', '?', '[', '\\'])).then(|| Path::new("/").join(folder))
}

fn is_given(options: &FileOptions) -> bool {
    let FileOptions { exclude, keep, sets, count, damaged, fsync, catch, room, stage } = options;
    let is_list = !exclude.is_empty() || !sets.is_empty();
    let is_number = keep.is_some() || count.is_some() || room.is_some();
    is_list || is_number || damaged.is_some() || fsync.is_some() || catch.is_some() || stage.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_name_a_folder() {
        assert_eq!(folder_in("/data/run/restart.*"), Some(PathBuf::from("/data/run")));
        assert_eq!(folder_in("/restart.*"), Some(PathBuf::from("/")));
        for none in ["restart.*", "/data/*/restart", "*/restart"] {
            assert_eq!(folder_in(none), None, "{none}");
        }
    }
}
