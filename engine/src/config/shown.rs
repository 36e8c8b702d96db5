//! Values in force, for people and programs to read.

use super::{
    LevelPlace, Signal,
    value::{AUTO, OFF, Word},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A value that is in force. Its text can be given for its key again.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Count(u64),
    Bytes(u64),
    Seconds(f64),
    Text(String),
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match self {
            Shown::Count(number) => number.fmt(f),
            Shown::Bytes(bytes) => {
                match UNITS.iter().find(|(unit, _)| *bytes >= *unit && bytes.is_multiple_of(*unit)) {
                    Some((unit, name)) => write!(f, "{} {name}", bytes / unit),
                    None => bytes.fmt(f),
                }
            }
            Shown::Seconds(seconds) => seconds.fmt(f),
            Shown::Text(text) => text.fmt(f),
        }
    }
}

pub(super) fn count<T: Copy + Into<u64>>(number: &T) -> Shown {
    Shown::Count((*number).into())
}

pub(super) fn bytes(bytes: &u64) -> Shown {
    Shown::Bytes(*bytes)
}

pub(super) fn bytes_or_auto(bytes: &Option<u64>) -> Shown {
    bytes.map_or_else(|| Shown::Text(AUTO.to_owned()), Shown::Bytes)
}

pub(super) fn seconds(time: &Duration) -> Shown {
    Shown::Seconds(time.as_secs_f64())
}

pub(super) fn word<T: Word>(word: &T) -> Shown {
    Shown::Text(word.name().to_owned())
}

pub(super) fn path(path: &Path) -> Shown {
    Shown::Text(path.display().to_string())
}

pub(super) fn path_or_off(place: &Option<PathBuf>) -> Shown {
    place.as_deref().map_or_else(|| Shown::Text(OFF.to_owned()), path)
}

pub(super) fn place(place: &LevelPlace) -> Shown {
    match place {
        LevelPlace::Off => Shown::Text(OFF.to_owned()),
        LevelPlace::Auto => Shown::Text(AUTO.to_owned()),
        LevelPlace::At(at) => path(at),
    }
}

pub(super) fn signal(signal: &Option<Signal>) -> Shown {
    Shown::Text(signal.map_or("", Signal::name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Value, value};
    use std::ffi::OsStr;

    #[test]
    fn what_is_shown_can_be_given_again() {
        let sizes = [0, 1, 1023, 1024, 1536, 64 << 20, 3 << 40, i64::MAX as u64];
        for size in sizes {
            assert_eq!(value::bytes(&Value::Word(OsStr::new(&Shown::Bytes(size).to_string()))), Ok(size));
        }
        assert_eq!(sizes.map(|size| Shown::Bytes(size).to_string())[3..6], ["1 KiB", "1536", "64 MiB"]);
        for time in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(86_400)] {
            assert_eq!(value::seconds(&Value::Text(&seconds(&time).to_string())), Ok(time));
        }
    }
}
