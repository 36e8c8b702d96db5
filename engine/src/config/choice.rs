//! The settings from one place (a file, the environment, a program).

use super::{Choice, Config, Key, Value, value::shortened};
use crate::error::{Error, Result};

impl Choice {
    /// Sets the key called `name`. An error names the key and its valid values.
    pub fn set(&mut self, name: &str, value: Value) -> Result<()> {
        let key = Key::named(name).ok_or_else(|| Error::argument(shortened(name), Key::unknown(name)))?;
        self.read(key, value).map_err(|why| Error::argument(key.name, why))
    }

    /// Sets `key`, or returns why the value is invalid.
    pub(super) fn read(&mut self, key: &Key, value: Value) -> std::result::Result<(), String> {
        (key.read)(self, &value).map_err(|wrong| key.refusal(&wrong))?;
        let mut alone = Config::default();
        (key.take)(self, &mut alone);
        key.check(&alone)
    }
}
