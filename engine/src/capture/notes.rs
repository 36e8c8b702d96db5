//! The program's notes about its revisions: its step, its version, the simulated time.

use crate::{
    error::{Error, Result},
    space::format::Note,
};
use std::collections::BTreeMap;

const NAME_BYTES_MAX: usize = 200;
const VALUE_BYTES_MAX: usize = 64 << 10;
const NOTES_MAX: usize = 1000;
/// Number of characters of a name shown in a message.
const NAME_SHOWN: usize = 60;

/// The notes that the next revisions carry, by name.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    texts: BTreeMap<String, String>,
}

impl Notes {
    /// Sets or replaces one.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        let refused = |why| Err(Error::argument(format!("note {shown:?}"), why));
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return refused(format!("its name has {} bytes, the limit is 1 to {NAME_BYTES_MAX}", name.len()));
        }
        if value.len() > VALUE_BYTES_MAX {
            return refused(format!("{} bytes, the limit is {VALUE_BYTES_MAX}; protect larger data", value.len()));
        }
        if name.contains('\0') || value.contains('\0') {
            return refused("its text has a zero byte, which ends a string in C".to_owned());
        }
        if self.texts.len() >= NOTES_MAX && !self.texts.contains_key(name) {
            return refused(format!("there are {NOTES_MAX} already; change one of them, or protect the data"));
        }
        self.texts.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.texts.remove(name);
    }

    pub(crate) fn all(&self) -> Vec<Note> {
        let note = |(name, value): (&String, &String)| Note { name: name.clone(), value: value.clone() };
        self.texts.iter().map(note).collect()
    }
}
