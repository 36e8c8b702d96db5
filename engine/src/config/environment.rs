//! The program's environment variables and its working directory.

use super::{
    Choice, KEYS, Key, TableLine, Value, file,
    key::{is_meant, likeness},
};
use crate::error::{Error, Result};
use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

pub(super) const FILE_VARIABLE: &str = "MAINSTAY_CONFIG";
const FILE_NAME: &str = "mainstay.toml";
const PREFIX: &str = "MAINSTAY_";
/// Variables that are not settings, but are read too.
const OTHER_VARIABLES: &[&str] = &[FILE_VARIABLE, "MAINSTAY_NODE", "MAINSTAY_DOMAIN", "MAINSTAY_DOMAIN_FILE"];
/// Prefixes of the variables that `mainstay run`, `mainstay files`, and our tests, pass to their own processes.
const OWN_PREFIXES: &[&str] = &["MAINSTAY_RUN_", "MAINSTAY_FILES_", "MAINSTAY_TEST_"];

/// A variable that is named like a setting, and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable<'a> {
    pub name: &'a str,
    /// The most similar variable, if any.
    pub nearest: Option<String>,
    /// The two are so similar that nothing else can be meant.
    pub is_misspelt: bool,
}

/// The sources of settings that the program does not give.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub directory: PathBuf,
    /// The variables with names that begin with MAINSTAY_.
    pub variables: BTreeMap<String, OsString>,
}

impl Surroundings {
    /// The surroundings of this process.
    pub fn here() -> Surroundings {
        let ours = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Surroundings {
            // A process in a removed directory has no file there either.
            directory: env::current_dir().unwrap_or_default(),
            variables: env::vars_os().filter_map(ours).filter(|(name, _)| name.starts_with(PREFIX)).collect(),
        }
    }

    /// The variables that are named like settings, and are none. Programs and module systems may have such variables of
    /// their own.
    pub fn unknown(&self) -> Vec<UnknownVariable<'_>> {
        let is_known = |name: &str| {
            OTHER_VARIABLES.contains(&name)
                || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || KEYS.iter().any(|key| key.variable() == name)
        };
        let names = self.variables.keys().map(String::as_str);
        let unknown = |name| {
            let key = Key::nearest(name_of(name));
            let alike = |other: &&&str| likeness(name_of(name), name_of(other));
            let other = OTHER_VARIABLES.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let other = other.filter(|other| is_meant(name_of(name), name_of(other)));
            let is_misspelt = other.is_some() || key.is_some_and(|key| is_meant(name_of(name), key));
            let nearest = other.map(|other| (*other).to_owned()).or(key.and_then(Key::named).map(Key::variable));
            UnknownVariable { name, nearest, is_misspelt }
        };
        names.filter(|name| !is_known(name) && self.variable(name).is_some()).map(unknown).collect()
    }

    /// Refuses settings that are wrong for every program in these surroundings.
    pub fn check(&self) -> Result<()> {
        self.choice()?;
        let (path, must_exist) = self.file();
        file::read(&path, must_exist).map(drop)
    }

    /// The lines of a table in the file, for another part of Mainstay.
    pub fn table(&self, name: &str) -> Result<Vec<TableLine>> {
        let (path, must_exist) = self.file();
        // A table with a misspelt name would be passed over.
        file::read(&path, must_exist)?;
        file::table(&path, must_exist, name)
    }

    /// Refuses a variable that must have been meant as a setting: otherwise the program would run with another value.
    fn check_names(&self) -> Result<()> {
        let misspelt = self.unknown().into_iter().find(|unknown| unknown.is_misspelt);
        misspelt.map_or(Ok(()), |UnknownVariable { name, nearest, .. }| {
            // None of Mainstay's other variables is short for several.
            let nearest = nearest.unwrap_or_default();
            let all = Key::meant(name_of(name), |key| format!("{PREFIX}{}", key.to_uppercase()));
            let meant = all.filter(|all| all.contains(&nearest)).unwrap_or(nearest);
            let why = format!("there is no such setting; did you mean {meant}? Unset it if it is not Mainstay's");
            Err(Error::argument(name, why))
        })
    }

    /// The path of the file to read, and whether the file must be there.
    pub fn file(&self) -> (PathBuf, bool) {
        let named = self.variable(FILE_VARIABLE);
        (self.directory.join(named.unwrap_or(OsStr::new(FILE_NAME))), named.is_some())
    }

    pub(super) fn choice(&self) -> Result<Choice> {
        self.check_names()?;
        let mut choice = Choice::default();
        for key in KEYS {
            let variable = key.variable();
            if let Some(word) = self.variable(&variable) {
                choice.read(key, Value::Word(word)).map_err(|why| Error::argument(variable, why))?;
            }
        }
        Ok(choice)
    }

    /// The value of a variable; an empty variable counts as none.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

/// The variable's name without the prefix: the key's name in the file, apart from case.
fn name_of(variable: &str) -> &str {
    variable.strip_prefix(PREFIX).unwrap_or(variable)
}

/// The message about ignored variables; `None` if there are none.
pub(crate) fn passed_over(surroundings: &Surroundings) -> Option<String> {
    let unknown = surroundings.unknown();
    let names: Vec<&str> = unknown.iter().map(|unknown| unknown.name).collect();
    let is = if names.len() == 1 { "is no setting and is" } else { "are no settings and are" };
    (!names.is_empty())
        .then(|| format!("{} {is} ignored; `mainstay config` shows the settings in force", names.join(", ")))
}
