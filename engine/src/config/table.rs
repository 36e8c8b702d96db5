//! The one table of all settings, a row each: `Config`, its default, `Choice` and `KEYS` are made from it.
//!
//! Files, the environment, `mainstay config` and messages use this table. The tests compare it with the hand-written
//! lists: the guide's table (`docs/guide/src/settings.md`) and the keywords of Python's `open`.

use super::{
    Capture, Compress, DiskLost, Exchange, LevelPlace, MemoryAfter, PoolHeld, Predictor, Recovery, Shown, Signal,
    Stage, Stagger, Start, Track, Value, WhenBusy,
    generator::settings,
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

settings! {
    /// number of complete revisions to keep; a space has room for two more, and for three more with a predictor
    keep: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 1000",
        in_range: within(1..=1000),
        alike: true,
    }
    /// which bytes of the protected regions a revision writes: whole: all; incremental: the bytes that changed
    /// since the revision before, with which it shares the rest; snapshot: all, copied while the program goes
    /// on
    capture: Capture {
        default: Capture::default(),
        given_as: word,
        takes: "whole, incremental, snapshot or incremental-snapshot",
        in_range: any,
        alike: true,
    }
    /// compression of revisions on disks and parallel file systems, done by the ranks that write them: lz4 is
    /// fast, zstd compresses better; copies in memory stay uncompressed
    compress: Compress {
        default: Compress::default(),
        given_as: word,
        takes: "off, lz4 or zstd",
        in_range: any,
        alike: true,
    }
    /// with incremental capture: how Mainstay finds changed bytes, by written pages or by hashes of all
    /// regions; auto: by pages if the system can report them and the program has no device open that could
    /// write past them; pages: by pages even with such a device
    track: Track {
        default: Track::default(),
        given_as: word,
        takes: "auto, pages or hashes",
        in_range: any,
        alike: false,
    }
    /// with incremental capture by pages: every how many revisions Mainstay hashes the pages reported as
    /// unchanged, and fails the revision if one changed; 0: never
    audit: u32 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// with incremental capture by pages: predicts which pages the program does not write again before its next
    /// checkpoint, to save them early; told: by calls of the program alone; oracle: from a recorded run; off:
    /// saves nothing early
    predictor: Predictor {
        default: Predictor::default(),
        given_as: word,
        takes: "off, auto, infrequent, idle, phase, count, told or oracle",
        in_range: any,
        alike: true,
    }
    /// with predictor = infrequent or auto: a page also counts as settled if the program did not write it for
    /// so many seconds of processor time, across intervals; 0: only intervals count
    infrequent_after: Duration {
        key: "infrequent_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0 to 3600: seconds, or a text such as \"10 ms\"",
        in_range: within(Duration::ZERO..=Duration::from_secs(3600)),
        alike: true,
    }
    /// with a predictor: whether the ranks take turns at saving early, to spare the server a rush of all ranks
    stagger: Stagger {
        default: Stagger::default(),
        given_as: word,
        takes: "on or off",
        in_range: any,
        alike: true,
    }
    /// with predictor = oracle: the directory in which trace recorded a run like this one; off: none
    oracle: Option<PathBuf> {
        default: None,
        given_as: path_or_off,
        takes: "off or a directory",
        in_range: is_path_or_none,
        alike: false,
    }
    /// with snapshots: the number of bytes to copy from which Mainstay takes a snapshot instead of a plain
    /// copy; auto: whichever keeps the program waiting for less time
    snapshot_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or bytes: 0 or more, or a text such as \"64 MiB\"",
        in_range: any,
        alike: false,
    }
    /// path of bytes out of the program: through a pool, a buffer of the node or of the rank, or none
    stage: Stage {
        default: Stage::default(),
        given_as: word,
        takes: "pool, node, rank or direct",
        in_range: any,
        alike: true,
    }
    /// size of the pool that the ranks of a node share; auto: the size of their shards, up to a quarter of the
    /// free memory and half of pool_directory; with room for their shards and one chunk more for each rank, a
    /// checkpoint costs them one copy
    pool_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or two chunks or more: bytes, or a text such as \"64 MiB\"",
        in_range: or_auto(within(2 * BLOCK_BYTES..=FILE_BYTES_MAX)),
        alike: true,
    }
    /// size of one chunk of the pool, which is written at once; auto: 4 MiB, or less if the pool has fewer than
    /// two such chunks for each rank of the node, or if pool_bytes = auto and no shard has two
    chunk_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or multiples of 4 KiB up to 1 GiB",
        in_range: or_auto(multiples(BLOCK_BYTES, 1 << 30)),
        alike: true,
    }
    /// whether the pool keeps its memory always, or only from a checkpoint's request until it is durable
    pool_held: PoolHeld {
        default: PoolHeld::default(),
        given_as: word,
        takes: "always or checkpoint",
        in_range: any,
        alike: true,
    }
    /// stage node: each rank first gathers pieces below this size
    small_bytes: u64 {
        default: 512,
        given_as: bytes,
        takes: "0 to 64 KiB",
        in_range: within(0..=64 << 10),
        alike: true,
    }
    /// stages node and rank: the program's own thread writes pieces of this size and more directly; auto:
    /// measured on this machine
    threshold_bytes: Option<u64> {
        default: None,
        given_as: bytes_or_auto,
        takes: "auto, or 4 KiB to 1 GiB",
        in_range: or_auto(within(4 << 10..=1 << 30)),
        alike: true,
    }
    /// stage rank: size of each rank's own buffer; stage node: size of its buffer for small pieces
    buffer_bytes: u64 {
        default: 4 << 20,
        given_as: bytes,
        takes: "multiples of 4 KiB up to 1 GiB",
        in_range: multiples(BLOCK_BYTES, 1 << 30),
        alike: true,
    }
    /// stage node: how often it flushes its buffer
    flush_every: Duration {
        key: "flush_seconds",
        default: Duration::from_millis(100),
        given_as: seconds,
        takes: "0.001 to 60: seconds, or a text such as \"100 ms\"",
        in_range: within(TIME_MIN..=Duration::from_secs(60)),
        alike: true,
    }
    /// threads of each rank that write, and as many that hash; also the limit of concurrent writes on a node;
    /// 0: 2 threads, or 1 if ranks use all processors, and 4 writes
    io_threads: u32 {
        default: 0,
        given_as: count,
        takes: "0 to 64",
        in_range: within(0..=64),
        alike: false,
    }
    /// size of each rank's portion of a new space; 0: room for keep+2 of the first checkpoint's shards
    portion_bytes: u64 {
        default: 0,
        given_as: bytes,
        takes: "0, or 1 MiB and more",
        in_range: or_zero(within(PORTION_BYTES_MIN..=FILE_BYTES_MAX)),
        alike: false,
    }
    /// largest shard that a rank is going to save: a portion has room for keep+2 of this size; 0: the size of
    /// the first checkpoint's shard
    shard_bytes: u64 {
        default: 0,
        given_as: bytes,
        takes: "0 to 1 PiB: bytes, or a text such as \"20 MiB\"",
        in_range: within(0..=1 << 50),
        alike: false,
    }
    /// which ranks share a file of a new space: app: all of the job; node: the ranks of a node; rank: none;
    /// auto: node on CephFS, else app
    per: Per {
        default: Per::default(),
        given_as: word,
        takes: "auto, app, node or rank",
        in_range: any,
        alike: true,
    }
    /// how a new space reserves its room: sparse: not at all; blocks: by allocated blocks; zero: by written
    /// zeros
    allocate: Allocate {
        default: Allocate::default(),
        given_as: word,
        takes: "sparse, blocks or zero",
        in_range: any,
        alike: true,
    }
    /// CephFS and Lustre: number of servers over which a file of a new space is striped; 0: the file system's
    /// default
    stripe_count: u32 {
        default: 0,
        given_as: count,
        takes: "0 to 65536",
        in_range: within(0..=1 << 16),
        alike: true,
    }
    /// CephFS and Lustre: stripe size of a new space, to which portions and slots are aligned; 0: the file
    /// system's default
    stripe_bytes: u64 {
        default: 0,
        given_as: bytes,
        takes: "0, or multiples of 64 KiB up to 1 GiB",
        in_range: or_zero(multiples(STRIPE_UNIT, 1 << 30)),
        alike: true,
    }
    /// directory of the pool
    pool_directory: PathBuf {
        default: PathBuf::from("/dev/shm"),
        given_as: path,
        takes: "a directory",
        in_range: is_path,
        alike: false,
    }
    /// the memory of the nodes as a level of its own, before all others, which gets every revision: a directory
    /// in memory; auto: one in pool_directory; off: none
    memory: LevelPlace {
        default: LevelPlace::Off,
        given_as: place,
        takes: "off, auto or a full path, as /local/run",
        in_range: is_place,
        alike: false,
    }
    /// number of complete revisions to keep in the memory of the nodes
    memory_keep: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 1000",
        in_range: within(1..=1000),
        alike: true,
    }
    /// number of copies of each shard in the memory of nodes: one on its own node, the others on other nodes
    memory_copies: u32 {
        default: 2,
        given_as: count,
        takes: "1 to 4",
        in_range: within(1..=COPIES_MAX),
        alike: true,
    }
    /// whether the memory of the nodes keeps its revisions after a job that ends normally: kept: yes; removed:
    /// the newest goes to the next level that takes any, and the memory is freed
    memory_after: MemoryAfter {
        default: MemoryAfter::default(),
        given_as: word,
        takes: "removed or kept",
        in_range: any,
        alike: true,
    }
    /// the disks of the nodes as a level of its own, before the space that you open: a directory; off: none
    disk: LevelPlace {
        default: LevelPlace::Off,
        given_as: place,
        takes: "off or a full path, as /local/run",
        in_range: |place: &LevelPlace| *place != LevelPlace::Auto && is_place(place),
        alike: false,
    }
    /// every how many revisions one goes to the disks of the nodes; if the disks are the nearest level, all do
    disk_every: u32 {
        default: 1,
        given_as: count,
        takes: "1 or more",
        in_range: within(1..=u32::MAX),
        alike: true,
    }
    /// number of complete revisions to keep on the disks of the nodes
    disk_keep: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 1000",
        in_range: within(1..=1000),
        alike: true,
    }
    /// number of copies of each shard on disks of nodes: one on its own node, the others on other nodes
    disk_copies: u32 {
        default: 1,
        given_as: count,
        takes: "1 to 4",
        in_range: within(1..=COPIES_MAX),
        alike: true,
    }
    /// what a start does if an unreachable disk level is recorded to have a newer revision than all others;
    /// refused: it fails; accepted: it goes on from the revisions that are left, and the end of a job takes the newest
    /// revision from the disks to the space
    disk_lost: DiskLost {
        default: DiskLost::default(),
        given_as: word,
        takes: "refused or accepted",
        in_range: any,
        alike: true,
    }
    /// when Mainstay sends copies to other nodes: background: while the program goes on; blocking: before the
    /// checkpoint returns
    exchange: Exchange {
        default: Exchange::default(),
        given_as: word,
        takes: "background or blocking",
        in_range: any,
        alike: true,
    }
    /// every how many revisions one goes to the space that you open, if there are levels before it; 0: none
    /// does
    pfs_every: u32 {
        default: 1,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// whether a job may replace earlier jobs' revisions that it has not restored: restored: no, its checkpoint
    /// fails; fresh: yes
    start: Start {
        default: Start::default(),
        given_as: word,
        takes: "restored or fresh",
        in_range: any,
        alike: true,
    }
    /// what a running job does when ranks fail: replace: it replaces them; shrink: it goes on with fewer; off:
    /// nothing, it must be restarted
    recovery: Recovery {
        default: Recovery::default(),
        given_as: word,
        takes: "off, replace or shrink",
        in_range: any,
        alike: true,
    }
    /// with recovery: number of spares; the last ranks sleep in open until they replace a failed rank
    spares: u32 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// a checkpoint is due after this number of steps; 0: not by steps
    every_steps: u64 {
        default: 0,
        given_as: count,
        takes: "0 or more",
        in_range: any,
        alike: true,
    }
    /// a checkpoint is due after this time; 0: not by time
    every: Duration {
        key: "every_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0, or 0.001 to 1000000000: seconds, or a text such as \"10 min\"",
        in_range: or_zero(within(TIME_MIN..=TIME_MAX)),
        alike: true,
    }
    /// mean time between failures of the job, which with the cost of a checkpoint gives the interval; 0:
    /// unknown
    mtbf: Duration {
        key: "mtbf_seconds",
        default: Duration::ZERO,
        given_as: seconds,
        takes: "0, or 0.001 to 1000000000: seconds, or a text such as \"24 h\"",
        in_range: or_zero(within(TIME_MIN..=TIME_MAX)),
        alike: true,
    }
    /// how often the ranks agree whether a checkpoint is due; 0: at every step
    agree_every: Duration {
        key: "agree_seconds",
        default: Duration::from_secs(1),
        given_as: seconds,
        takes: "0 to 3600: seconds, or a text such as \"500 ms\"",
        in_range: within(Duration::ZERO..=Duration::from_secs(3600)),
        alike: true,
    }
    /// if a checkpoint falls due by steps or time while the last one is not durable on the nearest level:
    /// later: it waits until then; now: it starts, and the program waits for the last one
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
    /// directory in which each rank records the protected pages that it writes, in a file rank-N.trace, for
    /// `mainstay oracle`; off: none
    trace: Option<PathBuf> {
        default: None,
        given_as: path_or_off,
        takes: "off or a directory",
        in_range: is_path_or_none,
        alike: false,
    }
    /// with trace or a predictor: how often Mainstay looks for written pages, besides the program's calls of
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
