//! Values as given in files, in the environment and by programs, parsed for a key.

use super::{
    Capture, Compress, DiskLost, Exchange, LevelPlace, MemoryAfter, PoolHeld, Predictor, Recovery, Signal, Stage,
    Stagger, Start, Track, WhenBusy,
};
use crate::{device::Allocate, space::Per};
use bytesize::ByteSize;
use std::{ffi::OsStr, fmt, path::PathBuf, time::Duration};

/// The word for a size that is found at run time.
pub(super) const AUTO: &str = "auto";

/// The word for a level that does not exist.
pub(super) const OFF: &str = "off";

/// A value as it was given for some key.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    Integer(i128),
    Float(f64),
    Text(&'a str),
    /// A text from a place where numbers are texts too, such as the environment.
    Word(&'a OsStr),
    /// A value that no key accepts, by name: "a table".
    Other(&'a str),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Integer(number) => number.fmt(f),
            Value::Float(number) => write!(f, "{number:?}"),
            Value::Text(text) => write!(f, "{:?}", shortened(text)),
            Value::Word(word) => write!(f, "{:?}", shortened(&word.to_string_lossy())),
            Value::Other(name) => name.fmt(f),
        }
    }
}

/// The beginning of a text of any length.
pub(super) fn shortened(text: &str) -> String {
    const LENGTH_MAX: usize = 80;
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl<'a> Value<'a> {
    fn text(&self) -> Option<&'a str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Word(word) => word.to_str().map(str::trim),
            _ => None,
        }
    }
}

/// A parsed value, or a description of the damage.
pub(super) type Read<T> = Result<T, String>;

pub(super) fn count<T: TryFrom<i128>>(value: &Value) -> Read<T> {
    let number = match value {
        Value::Integer(number) => Some(*number),
        Value::Word(_) => value.text().and_then(|text| text.parse().ok()),
        _ => None,
    };
    let number = number.ok_or_else(|| format!("{value} is no whole number"))?;
    number.try_into().map_err(|_| out_of_range(number))
}

pub(super) fn bytes(value: &Value) -> Read<u64> {
    if let (Value::Integer(_), _) | (_, Some(Ok(_))) = (value, value.text().map(str::parse::<i128>)) {
        let plain = value.text().map_or(*value, |text| Value::Word(OsStr::new(text)));
        return count(&plain);
    }
    let size = value.text().and_then(|text| text.parse::<ByteSize>().ok());
    size.map(|size| size.as_u64()).ok_or_else(|| format!("{value} is no size"))
}

/// Reads a size; `None` is "auto".
pub(super) fn bytes_or_auto(value: &Value) -> Read<Option<u64>> {
    match value.text() {
        Some(AUTO) => Ok(None),
        _ => bytes(value).map(Some),
    }
}

pub(super) fn seconds(value: &Value) -> Read<Duration> {
    let plain = match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => value.text().and_then(|text| text.parse::<f64>().ok()),
    };
    match plain {
        Some(seconds) => {
            // A time that rounds to zero is none: zero turns many settings off.
            let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero() || seconds == 0.0);
            time.ok_or_else(|| out_of_range(seconds))
        }
        None => {
            let time = value.text().and_then(|text| humantime::parse_duration(text).ok());
            time.ok_or_else(|| format!("{value} is no time"))
        }
    }
}

pub(super) fn word<T: Word>(value: &Value) -> Read<T> {
    let found = value.text().and_then(|text| T::ALL.iter().find(|(name, _)| *name == text));
    found.map(|(_, word)| *word).ok_or_else(|| format!("{value} is none of its values"))
}

pub(super) fn path(value: &Value) -> Read<PathBuf> {
    match value {
        Value::Text(text) => Ok(text.into()),
        Value::Word(word) => Ok(word.into()),
        _ => Err(format!("{value} is no path")),
    }
}

/// Reads a path; `None` is "off".
pub(super) fn path_or_off(value: &Value) -> Read<Option<PathBuf>> {
    match value.text() {
        Some(OFF) => Ok(None),
        _ => path(value).map(Some),
    }
}

pub(super) fn place(value: &Value) -> Read<LevelPlace> {
    match value.text() {
        Some(OFF) => Ok(LevelPlace::Off),
        Some(AUTO) => Ok(LevelPlace::Auto),
        _ => path(value).map(LevelPlace::At),
    }
}

pub(super) fn signal(value: &Value) -> Read<Option<Signal>> {
    match value.text() {
        Some("") => Ok(None),
        Some(name) => Signal::named(&shortened(name)).map(Some),
        None => Err(format!("{value} is no signal")),
    }
}

fn out_of_range(value: impl fmt::Display) -> String {
    format!("{value} is out of range")
}

/// A setting with a few named values.
pub(super) trait Word: Copy + PartialEq + 'static {
    const ALL: &'static [(&'static str, Self)];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, word)| *word == self).map_or("", |(name, _)| name)
    }
}

impl Word for Stage {
    const ALL: &'static [(&'static str, Self)] =
        &[("pool", Stage::Pool), ("node", Stage::Node), ("rank", Stage::Rank), ("direct", Stage::Direct)];
}

impl Word for PoolHeld {
    const ALL: &'static [(&'static str, Self)] = &[("always", PoolHeld::Always), ("checkpoint", PoolHeld::Checkpoint)];
}

impl Word for MemoryAfter {
    const ALL: &'static [(&'static str, Self)] = &[("removed", MemoryAfter::Removed), ("kept", MemoryAfter::Kept)];
}

impl Word for DiskLost {
    const ALL: &'static [(&'static str, Self)] = &[("refused", DiskLost::Refused), ("accepted", DiskLost::Accepted)];
}

impl Word for Exchange {
    const ALL: &'static [(&'static str, Self)] =
        &[("background", Exchange::Background), ("blocking", Exchange::Blocking)];
}

impl Word for Capture {
    const ALL: &'static [(&'static str, Self)] = &[
        ("whole", Capture::Whole),
        ("incremental", Capture::Incremental),
        ("snapshot", Capture::Snapshot),
        ("incremental-snapshot", Capture::IncrementalSnapshot),
    ];
}

impl Word for Compress {
    const ALL: &'static [(&'static str, Self)] =
        &[("off", Compress::Off), ("lz4", Compress::Lz4), ("zstd", Compress::Zstd)];
}

impl Word for Track {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Track::Auto), ("pages", Track::Pages), ("hashes", Track::Hashes)];
}

impl Word for Predictor {
    const ALL: &'static [(&'static str, Self)] = &[
        ("off", Predictor::Off),
        ("auto", Predictor::Auto),
        ("infrequent", Predictor::Infrequent),
        ("idle", Predictor::Idle),
        ("phase", Predictor::Phase),
        ("count", Predictor::Count),
        ("told", Predictor::Told),
        ("oracle", Predictor::Oracle),
    ];
}

impl Word for WhenBusy {
    const ALL: &'static [(&'static str, Self)] = &[("later", WhenBusy::Later), ("now", WhenBusy::Now)];
}

impl Word for Stagger {
    const ALL: &'static [(&'static str, Self)] = &[("on", Stagger::On), ("off", Stagger::Off)];
}

impl Word for Recovery {
    const ALL: &'static [(&'static str, Self)] =
        &[("off", Recovery::Off), ("replace", Recovery::Replace), ("shrink", Recovery::Shrink)];
}

impl Word for Per {
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Per::Auto), ("app", Per::App), ("node", Per::Node), ("rank", Per::Rank)];
}

impl Word for Allocate {
    const ALL: &'static [(&'static str, Self)] =
        &[("sparse", Allocate::Sparse), ("blocks", Allocate::Blocks), ("zero", Allocate::Zero)];
}

impl Word for Start {
    const ALL: &'static [(&'static str, Self)] = &[("restored", Start::Restored), ("fresh", Start::Fresh)];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_file(text: &str) -> Value<'_> {
        Value::Text(text)
    }

    fn in_environment(text: &str) -> Value<'_> {
        Value::Word(OsStr::new(text))
    }

    #[test]
    fn counts_are_whole_numbers() {
        assert_eq!(count(&Value::Integer(3)), Ok(3_u32));
        assert_eq!(count(&in_environment(" 3 ")), Ok(3_u32));
        for ill in
            [in_file("3"), Value::Float(3.0), in_environment("3.0"), in_environment("3x"), Value::Other("a table")]
        {
            assert!(count::<u32>(&ill).unwrap_err().contains("no whole number"), "{ill:?}");
        }
        for far in [Value::Integer(-1), Value::Integer(1 << 32), in_environment("-1"), in_environment("4294967296")] {
            assert!(count::<u32>(&far).unwrap_err().contains("out of range"), "{far:?}");
        }
    }

    #[test]
    fn sizes_may_have_units() {
        for read in [in_file, in_environment] {
            assert_eq!(bytes(&read("64 MiB")), Ok(64 << 20));
            assert_eq!(bytes(&read("1.5KiB")), Ok(1536));
            assert_eq!(bytes(&read("2 GB")), Ok(2_000_000_000));
            assert_eq!(bytes(&read("4096")), Ok(4096));
            assert!(bytes(&read("-4096")).unwrap_err().contains("out of range"));
            for ill in ["", "MiB", "64 MeB", "-1 MiB", "1e3", "64 MiB MiB", "0x10", "ten"] {
                assert!(bytes(&read(ill)).unwrap_err().contains("no size"), "{ill:?}");
            }
        }
        assert_eq!(bytes(&Value::Integer(4096)), Ok(4096));
        assert!(bytes(&Value::Integer(1 << 64)).unwrap_err().contains("out of range"));
        assert!(bytes(&Value::Float(4096.0)).unwrap_err().contains("no size"));
    }

    #[test]
    fn a_size_may_be_left_to_be_found() {
        for read in [in_file, in_environment] {
            assert_eq!(bytes_or_auto(&read("auto")), Ok(None));
            assert_eq!(bytes_or_auto(&read("64 KiB")), Ok(Some(64 << 10)));
            for ill in ["", "Auto", "auto 4096", "64 MeB"] {
                assert!(bytes_or_auto(&read(ill)).unwrap_err().contains("no size"), "{ill:?}");
            }
        }
        assert_eq!(bytes_or_auto(&Value::Integer(4096)), Ok(Some(4096)));
        assert!(bytes_or_auto(&Value::Integer(-1)).unwrap_err().contains("out of range"));
    }

    #[test]
    fn times_may_have_units() {
        let half = Duration::from_millis(500);
        for read in [in_file, in_environment] {
            assert_eq!(seconds(&read("0.5")), Ok(half));
            assert_eq!(seconds(&read("500 ms")), Ok(half));
            assert_eq!(seconds(&read("10 min")), Ok(Duration::from_secs(600)));
            assert_eq!(seconds(&read("1h 30m")), Ok(Duration::from_secs(5400)));
            for far in ["-1", "inf", "NaN", "1e300", "1e-10"] {
                assert!(seconds(&read(far)).unwrap_err().contains("out of range"), "{far:?}");
            }
            for ill in ["", "min", "10 fortnights", "-1 s", "99999999999999999999 years", "1:30"] {
                assert!(seconds(&read(ill)).unwrap_err().contains("no time"), "{ill:?}");
            }
        }
        assert_eq!(seconds(&Value::Integer(7)), Ok(Duration::from_secs(7)));
        assert_eq!(seconds(&Value::Float(0.5)), Ok(half));
        let (nan, infinite, tiny) = (Value::Float(f64::NAN), Value::Float(f64::INFINITY), Value::Float(1e-300));
        for far in [Value::Integer(-1), Value::Integer(i128::MAX), nan, infinite, tiny] {
            assert!(seconds(&far).unwrap_err().contains("out of range"), "{far:?}");
        }
        assert!(seconds(&Value::Other("a table")).unwrap_err().contains("a table is no time"));
    }

    #[test]
    fn long_values_are_shortened_in_messages() {
        let long = "ä".repeat(1 << 20);
        assert!(word::<Stage>(&in_file(&long)).unwrap_err().len() < 300);
        assert!(signal(&in_environment(&long)).unwrap_err().len() < 300);
    }
}
