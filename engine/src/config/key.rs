//! One setting: its name and value in files, in the environment and in messages.

use super::{Config, KEYS, Key, Shown, value};

impl Key {
    pub fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The name of the key's variable in the environment.
    pub fn variable(&self) -> String {
        format!("MAINSTAY_{}", self.name.to_uppercase())
    }

    /// The value in force if none is given.
    pub fn default(&self) -> Shown {
        (self.show)(&Config::default())
    }

    /// The key that `name` was most likely meant to be.
    pub fn nearest(name: &str) -> Option<&'static str> {
        const LIKENESS_MIN: f64 = 0.75;
        if let Some(key) = KEYS.iter().find(|key| key.name == plain(name)) {
            return Some(key.name);
        }
        // `pool` is no misspelling of `poll`: it lacks a unit. `signal` lacks its purpose.
        let plain = plain(name);
        let given = |key: &&Key| {
            GIVEN_BY_WORD.contains(&key.name) && key.takes.split([' ', ',']).any(|word| plain == self::plain(word))
        };
        if let Some(key) = KEYS.iter().find(given).filter(|_| !plain.is_empty() && !matches!(&*plain, "off" | "or")) {
            return Some(key.name);
        }
        let with_unit = |unit| KEYS.iter().find(|key| key.name.strip_suffix(unit) == Some(&*plain));
        let ends_so = |key: &&Key| key.name.strip_suffix(&*plain).is_some_and(|more| more.ends_with('_'));
        let with_more = || KEYS.iter().find(ends_so).filter(|_| !matches!(&*plain, "bytes" | "seconds"));
        if let Some(key) = ["_bytes", "_seconds"].into_iter().find_map(with_unit).or_else(with_more) {
            return Some(key.name);
        }
        let likeness = |key: &&Key| likeness(name, key.name);
        let nearest = KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
        (likeness(&nearest) >= LIKENESS_MIN).then_some(nearest.name)
    }

    /// The likely meaning of `name`, with each key as `shown`: the nearest key, or all keys that match it except for
    /// unit or owner.
    pub(super) fn meant(name: &str, shown: impl Fn(&'static str) -> String) -> Option<String> {
        let short = short_of(name);
        let meant = if short.len() > 1 { short } else { Self::nearest(name).into_iter().collect() };
        let (last, first) = meant.split_last()?;
        let last = shown(last);
        if first.is_empty() {
            return Some(last);
        }
        let first: Vec<String> = first.iter().map(|key| shown(key)).collect();
        Some(format!("{} or {last}", first.join(", ")))
    }

    /// The message for an unknown key.
    pub(super) fn unknown(name: &str) -> String {
        match Self::meant(name, str::to_owned) {
            Some(meant) => format!("there is no such setting; did you mean {meant}?"),
            None => "there is no such setting; `mainstay config` lists all".to_owned(),
        }
    }

    pub(super) fn refusal(&self, wrong: &str) -> String {
        format!("{wrong}, it takes {}", self.takes)
    }

    pub(super) fn check(&self, config: &Config) -> Result<(), String> {
        if (self.in_range)(config) {
            return Ok(());
        }
        let shown = match value::shortened(&(self.show)(config).to_string()) {
            empty if empty.is_empty() => "\"\"".to_owned(),
            shown => shown,
        };
        Err(self.refusal(&format!("{shown} is out of range")))
    }
}

/// The settings that `name` could be short for, because it lacks the unit or the owner: `every` is a number of steps, a
/// time, or a setting of a level. Empty if it is a setting, apart from case and dashes.
fn short_of(name: &str) -> Vec<&'static str> {
    const UNITS: [&str; 4] = ["_steps", "_seconds", "_bytes", "_count"];
    let plain = plain(name);
    let all = KEYS.iter().map(|key| key.name);
    if plain.is_empty() || all.clone().any(|key| key == plain || UNITS.iter().any(|unit| unit[1..] == plain)) {
        return Vec::new();
    }
    let lacks_unit = |key: &&str| UNITS.iter().any(|unit| key.strip_suffix(unit) == Some(&*plain));
    let lacks_owner = |key: &&str| key.strip_suffix(&*plain).is_some_and(|owner| owner.ends_with('_'));
    all.clone().filter(lacks_unit).chain(all.filter(lacks_owner)).collect()
}

/// Settings with a value that is often mistaken for the name: `incremental = true`.
const GIVEN_BY_WORD: [&str; 2] = ["capture", "compress"];

/// Similarity of two names, 0 to 1; 1 if they differ only in case and dashes.
pub(super) fn likeness(name: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&plain(name), &other.to_lowercase())
}

/// A name in normal form, without differences that do not count: `MAINSTAY_KEEP` and `mainstay_keep` are `keep`.
fn plain(name: &str) -> String {
    let plain = value::shortened(name).to_lowercase().replace('-', "_");
    plain.strip_prefix("mainstay_").map(str::to_owned).unwrap_or(plain)
}

/// Whether `name` is so similar to `other` that nothing else can be meant. The limit is above names used by module
/// systems and other programs (root, prefix, install, share, port), and below typical misspellings of settings.
pub(super) fn is_meant(name: &str, other: &str) -> bool {
    !name.eq_ignore_ascii_case(OTHERS_OWN) && likeness(name, other) >= 0.865
}

/// Module systems use this name for the compiler that built a package. It is as similar to `compress` as a misspelling.
const OTHERS_OWN: &str = "compiler";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Choice, Value};

    #[test]
    fn defaults_are_in_range() {
        Config::default().check().unwrap();
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        let others = "7, incremental-snapshot, zstd, hashes, 5, count, 0.02, off, /traced, 16 MiB, direct, 1 MiB, 8 KiB, checkpoint, 1 KiB, 64 KiB, 1 MiB, 0.5, 3, 2 GiB, 20 MiB, rank, zero, 4, 1 MiB, \
                      /tmp, auto, 2, 3, kept, /scratch, 3, 4, 2, accepted, blocking, 0, fresh, shrink, 2, 100, 600, 86400, 0.25, now, USR1, /traces, 0.01";
        let others: Vec<_> = others.split(", ").collect();
        let (mut choice, mut config) = (Choice::default(), Config::default());
        for (key, other) in KEYS.iter().zip(others.iter().copied()) {
            assert!(!(key.take)(&choice, &mut config), "{} was not chosen", key.name);
            choice.set(key.name, Value::Word(other.as_ref())).unwrap();
            assert!((key.take)(&choice, &mut config), "{}", key.name);
            assert_eq!((key.show)(&config).to_string(), other, "{}", key.name);
            assert_ne!(key.default().to_string(), other, "{}", key.name);
        }
        assert_eq!(others.len(), KEYS.len());
    }

    #[test]
    fn the_nearest_key_is_named() {
        let near = [
            ("kep", "keep"),
            ("pool-bytes", "pool_bytes"),
            ("Stage", "stage"),
            ("every_second", "every_seconds"),
            ("mtbf", "mtbf_seconds"),
            ("io_thread", "io_threads"),
            ("POOL", "pool_bytes"),
            ("EVERY", "every_seconds"),
            ("signal", "checkpoint_signal"),
            ("directory", "pool_directory"),
            ("copies", "memory_copies"),
            ("incremental", "capture"),
            ("snapshot", "capture"),
            ("incremental_snapshot", "capture"),
            ("zstd", "compress"),
            ("KEEP", "keep"),
            ("MAINSTAY_KEEP", "keep"),
            ("mainstay_every_second", "every_seconds"),
        ];
        for (wrong, meant) in near {
            assert_eq!(Key::nearest(wrong), Some(meant));
        }
        let several = [
            ("every", "every_steps, every_seconds, disk_every or pfs_every"),
            ("Copies", "memory_copies or disk_copies"),
            ("stripe", "stripe_count or stripe_bytes"),
            ("pool", "pool_bytes"),
        ];
        for (wrong, meant) in several {
            let message = Key::unknown(wrong);
            assert!(message.ends_with(&format!("did you mean {meant}?")), "{message}");
        }
        assert_eq!(Key::nearest("zzz"), None);
        assert_eq!(Key::nearest(""), None);
    }

    /// An empty path left a gap in the message, and a long one filled it.
    #[test]
    fn paths_out_of_range_are_shown_in_a_message() {
        let refused = |path: &str| Choice::default().set("disk", Value::Word(path.as_ref())).unwrap_err().to_string();
        assert!(refused("").starts_with("disk: \"\" is out of range"), "{}", refused(""));
        assert!(refused(&"x".repeat(1 << 20)).len() < 300);
    }

    #[test]
    fn texts_of_the_table_are_one_line() {
        for key in KEYS {
            assert!(!key.meaning.is_empty() && !key.takes.is_empty());
            assert!(!format!("{}{}", key.meaning, key.takes).contains(['|', '\n']), "{}", key.name);
        }
    }
}
