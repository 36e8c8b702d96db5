//! The hints of MPI-IO, from an MPI_Info, read as settings.

use super::{Choice, Key, Value};
use crate::error::{Error, Result};
use std::ffi::OsStr;

/// Hints that MPI reserves (chapter "I/O", "File Info"): the layout of a new file, and the number of ranks that write
/// for all.
const OF_MPI: [(&str, &str); 3] =
    [("striping_factor", "stripe_count"), ("striping_unit", "stripe_bytes"), ("cb_nodes", "aggregators")];
/// The prefix of the hints that are Mainstay's settings: `mainstay_keep`.
const OWN: &str = "mainstay_";

impl Choice {
    /// Sets a hint. Ignores other hints, as MPI requires. Fails, naming the hint, if it has Mainstay's prefix and is no
    /// setting, or if its value is invalid.
    pub fn hint(&mut self, name: &str, value: &str) -> Result<()> {
        let of_mpi = OF_MPI.iter().find(|(hint, _)| *hint == name).map(|(_, key)| *key);
        let Some(setting) = of_mpi.or(name.strip_prefix(OWN)) else { return Ok(()) };
        let unknown = || Error::argument(format!("hint {name}"), Key::unknown(setting));
        let key = Key::named(setting).ok_or_else(unknown)?;
        // All values are texts here.
        let read = self.read(key, Value::Word(OsStr::new(value)));
        read.map_err(|why| Error::argument(format!("hint {name}"), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_settings_and_unknown_ones_are_nothing() {
        let mut choice = Choice::default();
        let hints = [("mainstay_keep", " 3"), ("mainstay_shard_bytes", "20 MiB"), ("striping_factor", "4")];
        for (name, value) in hints.into_iter().chain([("striping_unit", "65536"), ("cb_nodes", "2")]) {
            choice.hint(name, value).unwrap();
        }
        let (keep, shard_bytes) = (Some(3), Some(20 << 20));
        let (stripe_count, stripe_bytes, aggregators) = (Some(4), Some(65536), Some(2));
        let expected = Choice { keep, shard_bytes, stripe_count, stripe_bytes, aggregators, ..Choice::default() };
        assert_eq!(choice, expected);
        for name in ["keep", "cb_buffer_size", "", "Striping_factor", "other_keep"] {
            choice.hint(name, "x").unwrap();
        }
        assert_eq!(choice, expected);
        let error = choice.hint("mainstay_kep", "1").unwrap_err().to_string();
        assert!(error.starts_with("hint mainstay_kep: ") && error.contains("did you mean keep?"), "{error}");
        let error = choice.hint("striping_unit", "1000").unwrap_err().to_string();
        assert!(error.starts_with("hint striping_unit: ") && error.contains("64 KiB"), "{error}");
        let error = choice.hint("mainstay_keep", "0").unwrap_err().to_string();
        assert!(error.starts_with("hint mainstay_keep: ") && error.contains("it takes 1 to 1000"), "{error}");
    }
}
