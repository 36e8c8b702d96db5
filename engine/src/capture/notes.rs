//! What a program has to say about its revisions: its step, its version, the time that it simulates.

use crate::{
    error::{Error, Result},
    space::format::Note,
};
use std::collections::BTreeMap;

const NAME_BYTES_MAX: usize = 200;
const VALUE_BYTES_MAX: usize = 64 << 10;
const NOTES_MAX: usize = 1000;
/// Characters of a name in a message.
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
            return refused(format!("its name has {} bytes, 1 to {NAME_BYTES_MAX} can be", name.len()));
        }
        if value.len() > VALUE_BYTES_MAX {
            return refused(format!("{} bytes, {VALUE_BYTES_MAX} are the most; protect larger things", value.len()));
        }
        if name.contains('\0') || value.contains('\0') {
            return refused("a zero byte, which C could not tell from its end".to_owned());
        }
        if self.texts.len() >= NOTES_MAX && !self.texts.contains_key(name) {
            return refused(format!("there are {NOTES_MAX} already; set one of them anew, or protect what is many"));
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
