//! The documents of `mainstay files`.

use mainstay_files::{Generation, NamedFile, StagedFile};
use serde::Serialize;
use std::time::UNIX_EPOCH;

#[derive(Debug, Serialize)]
pub struct ProtectedFiles {
    files: Vec<ProtectedFile>,
    /// Files on their way on this node.
    staged: Vec<FileOnItsWay>,
}

#[derive(Debug, Serialize)]
struct ProtectedFile {
    name: String,
    /// The file under the name was not written with `mainstay files`.
    foreign: bool,
    /// No file is under the name.
    missing: bool,
    generations: Vec<KeptGeneration>,
}

#[derive(Debug, Serialize)]
struct KeptGeneration {
    generation: u64,
    bytes: u64,
    modified_unix_ns: u64,
    current: bool,
    /// Of `verify` alone.
    good: Option<bool>,
}

#[derive(Debug, Serialize)]
struct FileOnItsWay {
    name: String,
    closed: bool,
    /// The reason that it could not be saved.
    failure: Option<String>,
}

impl ProtectedFiles {
    pub fn of(
        files: &[NamedFile],
        staged: &[StagedFile],
        mut good: impl FnMut(&NamedFile, &Generation) -> Option<bool>,
    ) -> ProtectedFiles {
        let mut of_generation = |file: &NamedFile, one: &Generation| KeptGeneration {
            generation: one.number,
            bytes: one.bytes,
            modified_unix_ns: one.modified.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
            current: one.is_current,
            good: good(file, one),
        };
        let files = files.iter().map(|file| ProtectedFile {
            name: file.name.to_string_lossy().into_owned(),
            foreign: file.is_foreign,
            missing: file.is_missing,
            generations: file.generations.iter().map(|one| of_generation(file, one)).collect(),
        });
        let staged = staged.iter().map(|file| FileOnItsWay {
            name: file.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            closed: file.is_whole,
            failure: file.failure.clone(),
        });
        ProtectedFiles { files: files.collect(), staged: staged.collect() }
    }
}
