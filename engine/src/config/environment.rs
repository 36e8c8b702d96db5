//! What surrounds the program: its environment and its working directory.

use super::{Choice, KEYS, Key, Value};
use crate::error::{Error, Result};
use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

pub(super) const FILE_VARIABLE: &str = "MAINSTAY_CONFIG";
const FILE_NAME: &str = "mainstay.toml";
/// Variables that are no settings.
const OTHER_VARIABLES: &[&str] = &[FILE_VARIABLE, "MAINSTAY_RUN_REPORT"];

/// Where settings are looked for that the program does not give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub directory: PathBuf,
    /// Those whose name begins with MAINSTAY_.
    pub variables: BTreeMap<String, OsString>,
}

impl Surroundings {
    /// Those of this process.
    pub fn here() -> Surroundings {
        let ours = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Surroundings {
            // Without one (it was removed) there is no file in it either.
            directory: env::current_dir().unwrap_or_default(),
            variables: env::vars_os().filter_map(ours).filter(|(name, _)| name.starts_with("MAINSTAY_")).collect(),
        }
    }

    /// Variables that look like settings and are none, each with the one that may have been meant.
    pub fn unknown(&self) -> Vec<(&str, Option<String>)> {
        let known = |name: &str| OTHER_VARIABLES.contains(&name) || KEYS.iter().any(|key| key.variable() == name);
        let nearest = |name: &str| Key::nearest(name.trim_start_matches("MAINSTAY_")).and_then(Key::named);
        let names = self.variables.keys().map(String::as_str).filter(|name| !known(name));
        names.map(|name| (name, nearest(name).map(Key::variable))).collect()
    }

    /// The file to read, and whether it must be there.
    pub fn file(&self) -> (PathBuf, bool) {
        let named = self.variable(FILE_VARIABLE);
        (self.directory.join(named.unwrap_or(OsStr::new(FILE_NAME))), named.is_some())
    }

    pub(super) fn choice(&self) -> Result<Choice> {
        let mut choice = Choice::default();
        for key in KEYS {
            let variable = key.variable();
            if let Some(word) = self.variable(&variable) {
                choice.read(key, Value::Word(word)).map_err(|why| Error::argument(variable, why))?;
            }
        }
        Ok(choice)
    }

    /// An empty variable is none.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}
