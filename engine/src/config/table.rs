//! The one table of all settings, a row each: `Config`, its default, `Choice` and `KEYS` are made from it.
//!
//! Files, the environment, `mainstay config` and messages use this table. The tests compare it with the hand-written
//! lists: the guide's table (`docs/guide/src/settings.md`), the fields of C's `mainstay_options` and those of Fortran,
//! and the keywords of Python's `open`.

use super::{
    Capture, Compress, DiskLost, Exchange, Interval, LevelPlace, MemoryAfter, PoolHeld, Predictor, Recovery, Shown,
    Signal, Stage, Stagger, Start, Track, Value, WhenBusy,
    range::{any, is_path, is_path_or_none, is_place, multiples, or_auto, or_zero, within},
    shown, value,
};
use crate::{
    device::Allocate,
    space::{Per, format::BLOCK_BYTES},
};
use std::{path::PathBuf, time::Duration};

/// The smallest portion that holds the slots and any data.
const PORTION_BYTES_MIN: u64 = 1 << 20;
/// On CephFS and Lustre, stripe sizes are multiples of this.
const STRIPE_UNIT: u64 = 64 << 10;
/// A user that needs more has a parallel file system.
const COPIES_MAX: u32 = 4;
const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// The shortest valid time: shorter ones are mistakes of unit.
const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_secs(1_000_000_000);

/// One setting.
pub struct Key {
    /// The key's name in the file; the environment variable is MAINSTAY_ and this name in capitals.
    pub name: &'static str,
    pub meaning: &'static str,
    /// The valid values, in words that complete "it takes": "1 to 1000".
    pub takes: &'static str,
    /// Whether all ranks of a job must have the same value.
    pub alike: bool,
    /// Sets the key in a choice.
    pub(super) read: fn(&mut Choice, &Value) -> value::Read<()>,
    /// Puts the chosen value into force; returns whether there is one.
    pub(super) take: fn(&Choice, &mut Config) -> bool,
    pub(super) show: fn(&Config) -> Shown,
    pub(super) in_range: fn(&Config) -> bool,
}

/// A row is a field with its type, and:
/// - its meaning: the comment above it, which `mainstay config` and the guide show too;
/// - `key`: its name outside of Rust, if different; a number's name ends with its unit;
/// - `default`: the value in force if none is given;
/// - `given_as`: how it is parsed and shown (`value`, `shown`), including the unit of a number;
/// - `takes`: completes "it takes", in words, and `in_range`, in code;
/// - `alike`: all ranks of a job must have the same value.
macro_rules! settings {
    ($(
        $(#[doc = $meaning:literal])+
        $field:ident: $type:ty {
            $(key: $key:literal,)?
            default: $default:expr,
            given_as: $form:ident,
            takes: $takes:literal,
            in_range: $in_range:expr,
            alike: $alike:literal,
        }
    )*) => {
        /// The settings in force. An optional size that is `None` is found at run time: "auto".
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $(
                $(#[doc = $meaning])+
                #[doc = concat!("\n\nTakes ", $takes, ".")]
                pub $field: $type,
            )*
        }

        impl Default for Config {
            fn default() -> Self {
                Config { $($field: $default,)* }
            }
        }

        /// The settings from one place: a file, the environment, or a program; the fields are those of `Config`.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Choice {
            $(
                $(#[doc = $meaning])+
                pub $field: Option<$type>,
            )*
        }

        /// All settings, in the order in which they are listed.
        pub const KEYS: &[Key] = &[$(Key {
            name: settings!(@key $field $($key)?),
            meaning: concat!($($meaning),+).trim_ascii_start(),
            takes: $takes,
            alike: $alike,
            read: |choice, value| value::$form(value).map(|read| choice.$field = Some(read)),
            take: |choice, config| choice.$field.clone().map(|chosen| config.$field = chosen).is_some(),
            show: |config| shown::$form(&config.$field),
            in_range: |config| $in_range(&config.$field),
        }),*];
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

settings! {
    /// complete revisions that are kept; a space has room for two more, and with a predictor for three
    keep: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 1000",
        in_range: within(1..=1000),
        alike: true,
    }
    /// what of the protected regions a revision writes: all, or what changed since the revision before, with which it then
    /// shares the rest; as a snapshot it is copied while the program goes on
    capture: Capture {
        default: Capture::default(),
        given_as: word,
        takes: "whole, incremental, snapshot or incremental-snapshot",
        in_range: any,
        alike: true,
    }
    /// how what goes to a disk or a parallel file system is compressed, by those who write it there: lz4 is fast, zstd makes
    /// it shorter; memory has it as it is
    compress: Compress {
        default: Compress::default(),
        given_as: word,
        takes: "off, lz4 or zstd",
        in_range: any,
        alike: true,
    }
    /// with incremental capture: how it is found out what changed, by the pages that were written or by hashes of all that
    /// is protected; auto: by pages where the system can tell them, and no device is open that could write past them; pages: also
    /// where one is
    track: Track {
        default: Track::default(),
        given_as: word,
        takes: "auto, pages or hashes",
        in_range: any,
        alike: false,
    }
    /// with incremental capture, and pages: every so many revisions what the pages call unchanged is hashed, and the
    /// revision fails if it was changed; 0: never
    audit: u32 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// with incremental capture, and pages: what predicts which pages the program does not write again before its next
    /// checkpoint, so that they are saved meanwhile; told: by the program alone; oracle: by a recorded run; off: none are
    predictor: Predictor {
        default: Predictor::default(),
        given_as: word,
        takes: "off, auto, infrequent, idle, phase, count, told or oracle",
        in_range: any,
        alike: true,
    }
    /// with predictor = infrequent or auto: a page is taken for settled as it is written also if it was not written for so much
    /// of the program's processor time, in whichever interval; 0: intervals alone count
    infrequent_after: Duration {
        key: "infrequent_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0 to 3600: seconds, or a text such as \"10 ms\"",
        in_range: within(Duration::ZERO..=Duration::from_secs(3600)),
        alike: true,
    }
    /// with a predictor: whether the ranks take turns at saving early, so that they do not all meet at the server
    stagger: Stagger {
        default: Stagger::default(),
        given_as: word,
        takes: "on or off",
        in_range: any,
        alike: true,
    }
    /// with predictor = oracle: the directory in which a run like this one was recorded by trace; off: nowhere
    oracle: Option<PathBuf> {
        default: None,
        given_as: path_or_off,
        takes: "off or a directory",
        in_range: is_path_or_none,
        alike: false,
    }
    /// with snapshots: from how many bytes on that are to be copied a snapshot is taken, and not a plain copy; auto:
    /// where the program waits for less time
    snapshot_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or bytes: 0 or more, or a text such as \"64 MiB\"",
        in_range: any,
        alike: false,
    }
    /// which way bytes leave the program: through a pool, a buffer of the node or of the rank, or none
    stage: Stage {
        default: Stage::default(),
        given_as: word,
        takes: "pool, node, rank or direct",
        in_range: any,
        alike: true,
    }
    /// size of the pool that the ranks of a node share; auto: what they save, within a quarter of the memory that is
    /// free and half of pool_directory; with room for their shards and a chunk more for each, a checkpoint costs them
    /// one copy
    pool_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or two chunks or more: bytes, or a text such as \"64 MiB\"",
        in_range: or_auto(within(2 * BLOCK_BYTES..=FILE_BYTES_MAX)),
        alike: true,
    }
    /// size of one chunk of the pool: what is written at once; auto: 4 MiB, or less where the pool has not two such for
    /// each rank of the node, or with pool_bytes = auto no shard has two
    chunk_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or multiples of 4 KiB up to 1 GiB",
        in_range: or_auto(multiples(BLOCK_BYTES, 1 << 30)),
        alike: true,
    }
    /// whether the pool's memory is held always, or only from a checkpoint's request until it is durable
    pool_held: PoolHeld {
        default: PoolHeld::default(),
        given_as: word,
        takes: "always or checkpoint",
        in_range: any,
        alike: true,
    }
    /// stage node: pieces below it are gathered by each rank first
    small_bytes: u64 {
        default: 512,
        given_as: bytes,
        takes: "0 to 64 KiB",
        in_range: within(0..=64 << 10),
        alike: true,
    }
    /// stages node and rank: pieces of this size and more go straight through, written by the program's own thread;
    /// auto: found on this machine
    threshold_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or 4 KiB to 1 GiB",
        in_range: or_auto(within(4 << 10..=1 << 30)),
        alike: true,
    }
    /// stage rank: size of each rank's own buffer; stage node: of that for its small pieces
    buffer_bytes: u64 {
        default: 4 << 20,
        given_as: bytes,
        takes: "multiples of 4 KiB up to 1 GiB",
        in_range: multiples(BLOCK_BYTES, 1 << 30),
        alike: true,
    }
    /// stage node: how often its buffer is flushed
    flush_every: Duration {
        key: "flush_seconds",
        default: Duration::from_millis(100),
        given_as: seconds,
        takes: "0.001 to 60: seconds, or a text such as \"100 ms\"",
        in_range: within(TIME_MIN..=Duration::from_secs(60)),
        alike: true,
    }
    /// threads of each rank that write, and as many that hash; also the most writes under way at once on a node; 0: 2,
    /// or 1 where ranks use all processors, and 4 writes
    io_threads: u32 {
        default: 0,
        given_as: count,
        takes: "0 to 64",
        in_range: within(0..=64),
        alike: false,
    }
    /// so many ranks write for all, for file systems that like few writers; 0, or as many as there are ranks: each
    /// writes for itself
    aggregators: u32 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// size of each rank's portion of a new space; 0: room for keep+2 of the first checkpoint's shards
    portion_bytes: u64 {
        default: 0,
        given_as: bytes,
        takes: "0, or 1 MiB and more",
        in_range: or_zero(within(PORTION_BYTES_MIN..=FILE_BYTES_MAX)),
        alike: false,
    }
    /// the most that a rank is going to save at once: a portion has room for keep+2 such shards; 0: for those of the
    /// first checkpoint
    shard_bytes: u64 {
        default: 0,
        given_as: bytes,
        takes: "0 to 1 PiB: bytes, or a text such as \"20 MiB\"",
        in_range: within(0..=1 << 50),
        alike: false,
    }
    /// which ranks share a file of a new space: all of the job, those of a node, or none; auto: node on CephFS, else
    /// app
    per: Per {
        default: Per::default(),
        given_as: word,
        takes: "auto, app, node or rank",
        in_range: any,
        alike: true,
    }
    /// how hard room is promised to a new space: not at all, by blocks that are set aside, or by zeros that are written
    allocate: Allocate {
        default: Allocate::default(),
        given_as: word,
        takes: "sparse, blocks or zero",
        in_range: any,
        alike: true,
    }
    /// CephFS and Lustre: over how many servers a file of a new space is striped; 0: as the file system does it
    stripe_count: u32 {
        default: 0,
        given_as: count,
        takes: "0 to 65536",
        in_range: within(0..=1 << 16),
        alike: true,
    }
    /// CephFS and Lustre: size of a stripe of a new space, on which portions and slots begin; 0: as the file system
    /// does it
    stripe_bytes: u64 {
        default: 0,
        given_as: bytes,
        takes: "0, or multiples of 64 KiB up to 1 GiB",
        in_range: or_zero(multiples(STRIPE_UNIT, 1 << 30)),
        alike: true,
    }
    /// where the pool is made
    pool_directory: PathBuf {
        default: PathBuf::from("/dev/shm"),
        given_as: path,
        takes: "a directory",
        in_range: is_path,
        alike: false,
    }
    /// the memory of the nodes as a level of its own, before all others, which gets every revision: a directory in memory,
    /// or auto: one in pool_directory; off: none
    memory: LevelPlace {
        default: LevelPlace::Off,
        given_as: place,
        takes: "off, auto or a full path, as /local/run",
        in_range: is_place,
        alike: false,
    }
    /// complete revisions that are kept in the memory of the nodes
    memory_keep: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 1000",
        in_range: within(1..=1000),
        alike: true,
    }
    /// how many of each shard lie in the memory of nodes: one on its own, the others on other nodes
    memory_copies: u32 {
        default: 2,
        given_as: count,
        takes: "1 to 4",
        in_range: within(1..=COPIES_MAX),
        alike: true,
    }
    /// whether the memory of the nodes keeps its revisions when a job ends in order; else the newest goes to the next level
    /// that takes any, and they are removed
    memory_after: MemoryAfter {
        default: MemoryAfter::default(),
        given_as: word,
        takes: "removed or kept",
        in_range: any,
        alike: true,
    }
    /// the disks of the nodes as a level of its own, before the space that is opened: a directory; off: none
    disk: LevelPlace {
        default: LevelPlace::Off,
        given_as: place,
        takes: "off or a full path, as /local/run",
        in_range: |place: &LevelPlace| *place != LevelPlace::Auto && is_place(place),
        alike: false,
    }
    /// every how many revisions one goes to the disks of the nodes; all where that is the nearest level
    disk_every: u32 {
        default: 1,
        given_as: count,
        takes: "1 or more",
        in_range: within(1..=u32::MAX),
        alike: true,
    }
    /// complete revisions that are kept on the disks of the nodes
    disk_keep: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 1000",
        in_range: within(1..=1000),
        alike: true,
    }
    /// how many of each shard lie on disks of nodes: one on its own, the others on other nodes
    disk_copies: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 4",
        in_range: within(1..=COPIES_MAX),
        alike: true,
    }
    /// what a start does where a disk level is out of reach of which it was told that it had something newer than all that is
    /// left: refused: it is refused; accepted: it goes on from what is left
    disk_lost: DiskLost {
        default: DiskLost::default(),
        given_as: word,
        takes: "refused or accepted",
        in_range: any,
        alike: true,
    }
    /// when copies go to other nodes: in the background while the program goes on, or blocking, before a checkpoint returns
    exchange: Exchange {
        default: Exchange::default(),
        given_as: word,
        takes: "background or blocking",
        in_range: any,
        alike: true,
    }
    /// every how many revisions one goes to the space that is opened, where there are levels before it; 0: none does
    pfs_every: u32 {
        default: 1,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// restored: a job that has not restored what earlier ones saved is refused to push it out; fresh: it may
    start: Start {
        default: Start::default(),
        given_as: word,
        takes: "restored or fresh",
        in_range: any,
        alike: true,
    }
    /// what a job does while it runs when ranks fail: nothing, replaces them, or goes on with fewer; off: it is started again
    recovery: Recovery {
        default: Recovery::default(),
        given_as: word,
        takes: "off, replace or shrink",
        in_range: any,
        alike: true,
    }
    /// with recovery: so many of the last ranks wait, asleep, until one that fails is to be replaced
    spares: u32 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// a checkpoint is due every so many steps; 0: not by steps
    every_steps: u64 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// a checkpoint is due after so much time; 0: not by time
    every: Duration {
        key: "every_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0, or 0.001 to 1000000000: seconds, or a text such as \"10 min\"",
        in_range: or_zero(within(TIME_MIN..=TIME_MAX)),
        alike: true,
    }
    /// mean time between failures of the job; with the cost of a checkpoint it gives the interval; 0: not given
    mtbf: Duration {
        key: "mtbf_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0, or 0.001 to 1000000000: seconds, or a text such as \"24 h\"",
        in_range: or_zero(within(TIME_MIN..=TIME_MAX)),
        alike: true,
    }
    /// whose formula gives the interval between checkpoints from mtbf_seconds
    interval: Interval {
        default: Interval::default(),
        given_as: word,
        takes: "daly or young",
        in_range: any,
        alike: true,
    }
    /// how often the ranks look together whether a checkpoint is due; 0: at every step
    agree_every: Duration {
        key: "agree_seconds",
        default: Duration::from_secs(1),
        given_as: seconds,
        takes: "0 to 3600: seconds, or a text such as \"500 ms\"",
        in_range: within(Duration::ZERO..=Duration::from_secs(3600)),
        alike: true,
    }
    /// whether a checkpoint that is due by steps or time while the last one is not durable on the nearest level is due once it
    /// is, or now, and waits for it
    when_busy: WhenBusy {
        default: WhenBusy::default(),
        given_as: word,
        takes: "later or now",
        in_range: any,
        alike: true,
    }
    /// a signal that asks the program for a checkpoint; empty: none
    checkpoint_signal: Option<Signal> {
        default: None,
        given_as: signal,
        takes: "the name of a signal that a program can do without, such as USR1",
        in_range: any,
        alike: false,
    }
    /// where each rank records which pages of what is protected it writes, for `mainstay oracle`: a file rank-N.trace in this
    /// directory; off: nowhere
    trace: Option<PathBuf> {
        default: None,
        given_as: path_or_off,
        takes: "off or a directory",
        in_range: is_path_or_none,
        alike: false,
    }
    /// with trace or a predictor: how often Mainstay looks for what the program has written, besides where it calls
    /// mainstay_tick; 0: never
    tick_every: Duration {
        key: "tick_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0 to 3600: seconds, or a text such as \"10 ms\"",
        in_range: within(Duration::ZERO..=Duration::from_secs(3600)),
        alike: false,
    }
}
