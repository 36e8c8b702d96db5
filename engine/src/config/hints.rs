//! The hints of MPI-IO, from an MPI_Info, read as settings.

use super::{Choice, Key, Value, value::shortened};
use crate::{
    error::{Error, Result},
    space::Per,
};
use std::ffi::OsStr;

/// Hints that MPI reserves for the stripes of a new file (chapter "I/O", "File Info").
const OF_MPI: [(&str, &str); 2] = [("striping_factor", "stripe_count"), ("striping_unit", "stripe_bytes")];
/// The hint that MPI reserves for the number of nodes that write. Whatever the number, the ranks of a node share one file.
const WRITERS: &str = "cb_nodes";
/// The prefix of the hints that are Mainstay's settings: `mainstay_keep`.
const OWN: &str = "mainstay_";

impl Choice {
    /// Sets a hint. Ignores other hints, as MPI requires. Fails, naming the hint, if it has Mainstay's prefix and is no
    /// setting, or if its value is invalid.
    pub fn hint(&mut self, name: &str, value: &str) -> Result<()> {
        if name == WRITERS {
            return match value.trim().parse::<u32>() {
                Ok(1..) => {
                    self.per = Some(Per::Node);
                    Ok(())
                }
                _ => Err(Error::argument(format!("hint {name}"), format!("\"{value}\"; it takes 1 or more"))),
            };
        }
        let of_mpi = OF_MPI.iter().find(|(hint, _)| *hint == name).map(|(_, key)| *key);
        let Some(setting) = of_mpi.or(name.strip_prefix(OWN)) else { return Ok(()) };
        let unknown = || Error::argument(format!("hint {}", shortened(name)), Key::unknown(setting));
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
        let (stripe_count, stripe_bytes, per) = (Some(4), Some(65536), Some(Per::Node));
        let expected = Choice { keep, shard_bytes, stripe_count, stripe_bytes, per, ..Choice::default() };
        assert_eq!(choice, expected);
        for name in ["keep", "cb_buffer_size", "", "Striping_factor", "other_keep"] {
            choice.hint(name, "x").unwrap();
        }
        assert_eq!(choice, expected);
        let error = choice.hint("mainstay_kep", "1").unwrap_err().to_string();
        assert!(error.starts_with("hint mainstay_kep: ") && error.contains("did you mean keep?"), "{error}");
        let long = choice.hint(&format!("mainstay_{}", "x".repeat(1 << 20)), "1").unwrap_err().to_string();
        assert!(long.len() < 300, "{} bytes", long.len());
        let error = choice.hint("striping_unit", "1000").unwrap_err().to_string();
        assert!(error.starts_with("hint striping_unit: ") && error.contains("64 KiB"), "{error}");
        let error = choice.hint("cb_nodes", "none").unwrap_err().to_string();
        assert!(error.starts_with("hint cb_nodes: ") && error.contains("it takes 1 or more"), "{error}");
        let error = choice.hint("mainstay_keep", "0").unwrap_err().to_string();
        assert!(error.starts_with("hint mainstay_keep: ") && error.contains("it takes 1 to 1000"), "{error}");
    }
}
