//! The table of all settings. Files, the environment, `mainstay config`, messages and the guide
//! (`docs/guide/src/settings.md`, compared in the tests) go by it.

use super::{Choice, Config, Shown, Value, shown, value};
use crate::space::format::BLOCK_BYTES;
use std::{ops::RangeInclusive, os::unix::ffi::OsStrExt, path::Path, time::Duration};

const KEEP_MAX: u32 = 1000;
const CHUNK_BYTES_MAX: u64 = 1 << 30;
const SMALL_BYTES_MAX: u64 = 64 << 10;
const THRESHOLD_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 30;
const BUFFER_BYTES_MAX: u64 = 1 << 30;
const FLUSH_MAX: Duration = Duration::from_secs(60);
const IO_THREADS_MAX: u32 = 64;
/// The smallest portion that holds the slots and anything at all.
const PORTION_BYTES_MIN: u64 = 1 << 20;
const STRIPE_COUNT_MAX: u32 = 1 << 16;
/// What CephFS and Lustre take multiples of.
const STRIPE_UNIT: u64 = 64 << 10;
const STRIPE_BYTES_MAX: u64 = 1 << 30;
const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Room for keep+2 of these can still be reckoned with.
const SHARD_BYTES_MAX: u64 = 1 << 50;
/// Shorter times are mistakes of unit.
const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_secs(1_000_000_000);
const AGREE_MAX: Duration = Duration::from_secs(3600);

/// One setting.
pub struct Key {
    /// As in the file; the variable of the environment is MAINSTAY_ and this in capitals.
    pub name: &'static str,
    pub meaning: &'static str,
    /// "1 to 1000": completes "it takes".
    pub takes: &'static str,
    /// All ranks of a job must have the same value.
    pub alike: bool,
    /// Sets it in a choice.
    pub(super) read: fn(&mut Choice, &Value) -> value::Read<()>,
    /// Puts a value that was chosen into force; whether there is one.
    pub(super) take: fn(&Choice, &mut Config) -> bool,
    pub(super) show: fn(&Config) -> Shown,
    in_range: fn(&Config) -> bool,
}

macro_rules! keys {
    ($($field:ident {
        name: $name:literal, meaning: $meaning:literal, takes: $takes:literal, alike: $alike:literal,
        read: $read:expr, show: $show:expr, in_range: $in_range:expr,
    })*) => {
        /// All settings, in the order in which they are listed.
        pub const KEYS: &[Key] = &[$(Key {
            name: $name,
            meaning: $meaning,
            takes: $takes,
            alike: $alike,
            read: |choice, value| $read(value).map(|read| choice.$field = Some(read)),
            take: |choice, config| choice.$field.clone().map(|chosen| config.$field = chosen).is_some(),
            show: |config| $show(&config.$field),
            in_range: |config| $in_range(&config.$field),
        }),*];
    };
}

keys! {
    keep {
        name: "keep",
        meaning: "complete revisions that are kept; a space has room for two more",
        takes: "1 to 1000",
        alike: true,
        read: value::count,
        show: shown::count,
        in_range: |keep| (1..=KEEP_MAX).contains(keep),
    }
    stage {
        name: "stage",
        meaning: "which way bytes leave the program: through a pool, a buffer of the node or of the rank, or none",
        takes: "pool, node, rank or direct",
        alike: true,
        read: value::word,
        show: shown::word,
        in_range: any,
    }
    pool_bytes {
        name: "pool_bytes",
        meaning: "size of the pool that the ranks of a node share; auto: what they save, within a quarter of the memory that \
                  is free and half of pool_directory; with room for their shards and a chunk more for each, a checkpoint \
                  costs them one copy",
        takes: "auto, or two chunks or more: bytes, or a text such as \"64 MiB\"",
        alike: true,
        read: value::bytes_or_auto,
        show: shown::bytes_or_auto,
        in_range: |size: &Option<u64>| size.is_none_or(|size| (2 * BLOCK_BYTES..=FILE_BYTES_MAX).contains(&size)),
    }
    chunk_bytes {
        name: "chunk_bytes",
        meaning: "size of one chunk of the pool: what is written at once; auto: 4 MiB, or less where the pool has not two \
                  such for each rank of the node, or with pool_bytes = auto no shard has two",
        takes: "auto, or multiples of 4 KiB up to 1 GiB",
        alike: true,
        read: value::bytes_or_auto,
        show: shown::bytes_or_auto,
        in_range: |size: &Option<u64>| size.is_none_or(|size| is_blocks(&size, CHUNK_BYTES_MAX)),
    }
    pool_held {
        name: "pool_held",
        meaning: "whether the pool's memory is held always, or only from a checkpoint's request until it is durable",
        takes: "always or checkpoint",
        alike: true,
        read: value::word,
        show: shown::word,
        in_range: any,
    }
    small_bytes {
        name: "small_bytes",
        meaning: "stage node: pieces below it are gathered by each rank first",
        takes: "0 to 64 KiB",
        alike: true,
        read: value::bytes,
        show: shown::bytes,
        in_range: |size: &u64| *size <= SMALL_BYTES_MAX,
    }
    threshold_bytes {
        name: "threshold_bytes",
        meaning: "stages node and rank: pieces of this size and more go straight through, written by the program's own \
                  thread; auto: found on this machine",
        takes: "auto, or 4 KiB to 1 GiB",
        alike: true,
        read: value::bytes_or_auto,
        show: shown::bytes_or_auto,
        in_range: |size: &Option<u64>| size.is_none_or(|size| THRESHOLD_BYTES.contains(&size)),
    }
    buffer_bytes {
        name: "buffer_bytes",
        meaning: "stage rank: size of each rank's own buffer; stage node: of that for its small pieces",
        takes: "multiples of 4 KiB up to 1 GiB",
        alike: true,
        read: value::bytes,
        show: shown::bytes,
        in_range: |size: &u64| is_blocks(size, BUFFER_BYTES_MAX),
    }
    flush_every {
        name: "flush_seconds",
        meaning: "stage node: how often its buffer is flushed",
        takes: "0.001 to 60: seconds, or a text such as \"100 ms\"",
        alike: true,
        read: value::seconds,
        show: shown::seconds,
        in_range: |time: &Duration| (TIME_MIN..=FLUSH_MAX).contains(time),
    }
    io_threads {
        name: "io_threads",
        meaning: "threads of each rank that write, and as many that hash; also the most writes under way at once on a \
                  node; 0: 2, or 1 where ranks use all processors, and 4 writes",
        takes: "0 to 64",
        alike: false,
        read: value::count,
        show: shown::count,
        in_range: |threads: &u32| *threads <= IO_THREADS_MAX,
    }
    aggregators {
        name: "aggregators",
        meaning: "so many ranks write for all, for file systems that like few writers; 0, or as many as there are ranks: \
                  each writes for itself",
        takes: "0 or more",
        alike: true,
        read: value::count,
        show: shown::count,
        in_range: any,
    }
    portion_bytes {
        name: "portion_bytes",
        meaning: "size of each rank's portion of a new space; 0: room for keep+2 of the first checkpoint's shards",
        takes: "0, or 1 MiB and more",
        alike: false,
        read: value::bytes,
        show: shown::bytes,
        in_range: |size: &u64| *size == 0 || (PORTION_BYTES_MIN..=FILE_BYTES_MAX).contains(size),
    }
    shard_bytes {
        name: "shard_bytes",
        meaning: "the most that a rank is going to save at once: a portion has room for keep+2 such shards; 0: for those of \
                  the first checkpoint",
        takes: "0 to 1 PiB: bytes, or a text such as \"20 MiB\"",
        alike: false,
        read: value::bytes,
        show: shown::bytes,
        in_range: |size: &u64| *size <= SHARD_BYTES_MAX,
    }
    per {
        name: "per",
        meaning: "which ranks share a file of a new space: all of the job, those of a node, or none; auto: node on CephFS, \
                  else app",
        takes: "auto, app, node or rank",
        alike: true,
        read: value::word,
        show: shown::word,
        in_range: any,
    }
    allocate {
        name: "allocate",
        meaning: "how hard room is promised to a new space: not at all, by blocks that are set aside, or by zeros that \
                  are written",
        takes: "sparse, blocks or zero",
        alike: true,
        read: value::word,
        show: shown::word,
        in_range: any,
    }
    stripe_count {
        name: "stripe_count",
        meaning: "CephFS and Lustre: over how many servers a file of a new space is striped; 0: as the file system does it",
        takes: "0 to 65536",
        alike: true,
        read: value::count,
        show: shown::count,
        in_range: |count: &u32| *count <= STRIPE_COUNT_MAX,
    }
    stripe_bytes {
        name: "stripe_bytes",
        meaning: "CephFS and Lustre: size of a stripe of a new space, on which portions and slots begin; 0: as the file \
                  system does it",
        takes: "0, or multiples of 64 KiB up to 1 GiB",
        alike: true,
        read: value::bytes,
        show: shown::bytes,
        in_range: |size: &u64| *size <= STRIPE_BYTES_MAX && size.is_multiple_of(STRIPE_UNIT),
    }
    pool_directory {
        name: "pool_directory",
        meaning: "where the pool is made",
        takes: "a directory",
        alike: false,
        read: value::path,
        show: shown::path,
        in_range: |path: &Path| !path.as_os_str().is_empty() && !path.as_os_str().as_bytes().contains(&0),
    }
    start {
        name: "start",
        meaning: "restored: a job that has not restored what earlier ones saved is refused to push it out; fresh: it may",
        takes: "restored or fresh",
        alike: true,
        read: value::word,
        show: shown::word,
        in_range: any,
    }
    every_steps {
        name: "every_steps",
        meaning: "a checkpoint is due every so many steps; 0: not by steps",
        takes: "0 or more",
        alike: true,
        read: value::count,
        show: shown::count,
        in_range: any,
    }
    every {
        name: "every_seconds",
        meaning: "a checkpoint is due after so much time; 0: not by time",
        takes: "0, or 0.001 to 1000000000: seconds, or a text such as \"10 min\"",
        alike: true,
        read: value::seconds,
        show: shown::seconds,
        in_range: is_time,
    }
    mtbf {
        name: "mtbf_seconds",
        meaning: "mean time between failures of the job, from which and the cost comes the interval; 0: not given",
        takes: "0, or 0.001 to 1000000000: seconds, or a text such as \"24 h\"",
        alike: true,
        read: value::seconds,
        show: shown::seconds,
        in_range: is_time,
    }
    interval {
        name: "interval",
        meaning: "whose formula gives the interval between checkpoints from mtbf_seconds",
        takes: "daly or young",
        alike: true,
        read: value::word,
        show: shown::word,
        in_range: any,
    }
    agree_every {
        name: "agree_seconds",
        meaning: "how often the ranks look together whether a checkpoint is due; 0: at every step",
        takes: "0 to 3600: seconds, or a text such as \"500 ms\"",
        alike: true,
        read: value::seconds,
        show: shown::seconds,
        in_range: |time: &Duration| *time <= AGREE_MAX,
    }
    checkpoint_signal {
        name: "checkpoint_signal",
        meaning: "a signal that asks the program for a checkpoint; empty: none",
        takes: "the name of a signal that a program can do without, such as USR1",
        alike: false,
        read: value::signal,
        show: shown::signal,
        in_range: any,
    }
}

fn any<T>(_: &T) -> bool {
    true
}

fn is_blocks(size: &u64, max: u64) -> bool {
    (BLOCK_BYTES..=max).contains(size) && size.is_multiple_of(BLOCK_BYTES)
}

fn is_time(time: &Duration) -> bool {
    time.is_zero() || (TIME_MIN..=TIME_MAX).contains(time)
}

impl Key {
    pub fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The variable of the environment.
    pub fn variable(&self) -> String {
        format!("MAINSTAY_{}", self.name.to_uppercase())
    }

    /// The value that is in force where none is given.
    pub fn default(&self) -> Shown {
        (self.show)(&Config::default())
    }

    /// The name of the key that `name` was most likely meant to be.
    pub fn nearest(name: &str) -> Option<&'static str> {
        const LIKENESS_MIN: f64 = 0.75;
        let likeness = |key: &&Key| likeness(name, key.name);
        let nearest = KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
        (likeness(&nearest) >= LIKENESS_MIN).then_some(nearest.name)
    }

    /// What to say where no key has this name.
    pub(super) fn unknown(name: &str) -> String {
        match Self::nearest(name) {
            Some(nearest) => format!("there is no such setting; did you mean {nearest}?"),
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
        Err(self.refusal(&format!("{} is out of range", (self.show)(config))))
    }
}

/// 0 to 1: the same but for case and dashes.
fn likeness(name: &str, other: &str) -> f64 {
    let name = value::shortened(name).to_lowercase().replace('-', "_");
    strsim::jaro_winkler(&name, &other.to_lowercase())
}

/// Whether `name` is so much like `other` that nothing else can be meant: above what a module system or another
/// program calls its own (root, prefix, install, share, port), below what slips of the pen make of settings.
pub(super) fn is_meant(name: &str, other: &str) -> bool {
    likeness(name, other) >= 0.865
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        Config::default().check().unwrap();
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        let others = "7, direct, 1 MiB, 8 KiB, checkpoint, 1 KiB, 64 KiB, 1 MiB, 0.5, 3, 2, 2 GiB, 20 MiB, rank, zero, 4, 1 MiB, \
                      /tmp, fresh, 100, 600, 86400, young, 0.25, USR1";
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
        ];
        for (wrong, meant) in near {
            assert_eq!(Key::nearest(wrong), Some(meant));
        }
        assert_eq!(Key::nearest("zzz"), None);
        assert_eq!(Key::nearest(""), None);
    }

    #[test]
    fn texts_of_the_table_are_one_line() {
        for key in KEYS {
            assert!(!key.meaning.is_empty() && !key.takes.is_empty());
            assert!(!format!("{}{}", key.meaning, key.takes).contains(['|', '\n']), "{}", key.name);
        }
    }
}
