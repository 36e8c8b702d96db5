//! The settings in force, and the source of each value: the program's own settings take precedence over the
//! environment, the environment over the file, and the file over the default.

use super::{Choice, Config, KEYS, Key, Shown, Surroundings, file};
use crate::{
    error::{Error, Result},
    printable::printable_path,
};
use std::{fmt, path::PathBuf};

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Environment { variable: String },
    Program,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File { path, line } => write!(f, "{}, line {line}", printable_path(path)),
            Source::Environment { variable } => f.write_str(variable),
            Source::Program => f.write_str("program"),
        }
    }
}

/// One setting that is in force.
#[derive(Clone)]
pub struct Setting {
    pub key: &'static Key,
    pub value: Shown,
    pub source: Source,
}

/// The settings in force, and each of them as text.
#[derive(Clone)]
pub struct Resolved {
    pub config: Config,
    /// The file that was read, if there is one.
    pub file: Option<PathBuf>,
    /// All settings, in the order of `KEYS`.
    pub settings: Vec<Setting>,
}

impl Config {
    /// The settings of a session of this program, which itself sets `choice`. An error names the key, its valid values,
    /// and the wrong line of the file or the wrong variable.
    pub fn resolve(choice: &Choice) -> Result<Resolved> {
        Self::resolve_in(choice, &Surroundings::here())
    }

    /// Like `resolve`, for a program with these `surroundings`.
    pub fn resolve_in(choice: &Choice, surroundings: &Surroundings) -> Result<Resolved> {
        let (path, must_exist) = surroundings.file();
        let found = file::read(&path, must_exist)?;
        let read = found.is_some().then(|| path.clone());
        let file = found.unwrap_or_default();
        let environment = surroundings.choice()?;

        let mut config = Config::default();
        let mut settings = Vec::new();
        for key in KEYS {
            let line = file.lines.get(key.name).copied().unwrap_or_default();
            let layers = [
                (&file.choice, Source::File { path: path.clone(), line }),
                (&environment, Source::Environment { variable: key.variable() }),
                (choice, Source::Program),
            ];
            let mut source = Source::Default;
            for (choice, from) in layers {
                if (key.take)(choice, &mut config) {
                    source = from;
                }
            }
            key.check(&config).map_err(|why| Error::argument(place(key, &source), why))?;
            settings.push(Setting { key, value: (key.show)(&config), source });
        }
        config.check_pool().map_err(|why| {
            let place = |name| settings.iter().find(|s| s.key.name == name).map(|s| place(s.key, &s.source));
            let [pool, chunk] = ["pool_bytes", "chunk_bytes"].map(|name| place(name).unwrap_or_default());
            Error::argument(if chunk == "chunk_bytes" { pool } else { format!("{pool}, with {chunk}") }, why)
        })?;
        Ok(Resolved { config, file: read, settings })
    }
}

/// The name of the key in a message, with the place where it was set.
fn place(key: &Key, source: &Source) -> String {
    match source {
        Source::Default | Source::Program => key.name.to_owned(),
        Source::File { path, line } => file::place(key.name, path, *line),
        Source::Environment { variable } => variable.clone(),
    }
}
