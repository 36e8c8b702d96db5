//! The settings of a session.

use crate::argument::bytes_of;
use mainstay_engine::{Choice, Config, Error, Value};
use std::{
    ffi::{OsStr, c_char},
    mem::offset_of,
    os::unix::ffi::OsStrExt,
};

/// Path of bytes out of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum StageCode {
    /// Set by mainstay.toml or the environment; default: the pool.
    Default = 0,
    /// Into a pool of chunks, which I/O threads write.
    Pool,
    /// The calling thread writes, without a buffer: the baseline.
    Direct,
    /// Each rank gathers small pieces; medium ones go to a buffer of the node; large ones are written directly.
    Node,
    /// Each rank gathers pieces in its own buffer, which the calling thread writes; large pieces are written
    /// directly.
    Rank,
}

/// How long the pool keeps its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum PoolHeldCode {
    /// Set by mainstay.toml or the environment; default: always.
    Default = 0,
    /// From its creation to the end of the session.
    Always,
    /// From the request of each checkpoint until it is durable.
    Checkpoint,
}

/// Which ranks share a file of a new space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum PerCode {
    /// Set by mainstay.toml or the environment; default: the ranks of a node on CephFS, and all elsewhere.
    Default = 0,
    /// All ranks of the job.
    App,
    /// The ranks of a node.
    Node,
    /// Each rank has its own file.
    Rank,
}

/// How a new space reserves its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum AllocateCode {
    /// Set by mainstay.toml or the environment; default: blocks.
    Default = 0,
    /// Not at all.
    Sparse,
    /// Allocates its blocks, if the file system can.
    Blocks,
    /// Writes it with zeros.
    Zero,
}

/// Whether a job may replace revisions of earlier jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum StartCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_START_RESTORED.
    Default = 0,
    /// Only after it has restored one, or read something from it.
    Restored,
    /// Yes. A restore still finds them.
    Fresh,
}

/// What happens to the memory of the nodes when a job ends normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum MemoryAfterCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_MEMORY_AFTER_REMOVED.
    Default = 0,
    /// The newest revision goes to the next level that takes any, and the memory is freed.
    Removed,
    /// The revisions stay for the next job on these nodes.
    Kept,
}

/// Action of a start that cannot reach a disk level, if that level had a newer revision than all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum DiskLostCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_DISK_LOST_REFUSED.
    Default = 0,
    /// Fails: the disk may come back.
    Refused,
    /// Goes on from the revisions that are left.
    Accepted,
}

/// When Mainstay makes the copies on other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum ExchangeCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_EXCHANGE_BACKGROUND.
    Default = 0,
    /// While the program goes on.
    Background,
    /// Before a checkpoint returns.
    Blocking,
}

/// Action of a running job when ranks fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum RecoveryCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_RECOVERY_OFF.
    #[expect(dead_code, reason = "for the header only")]
    Default = 0,
    /// None: the job must be restarted.
    Off,
    /// Other processes take their places and numbers: spares, or newly started processes.
    Replace,
    /// The job goes on with fewer ranks.
    Shrink,
}

/// Bytes of the protected regions that a revision writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum CaptureCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_CAPTURE_WHOLE.
    Default = 0,
    /// All of them.
    Whole,
    /// The bytes that changed since the revision before, with which it shares the rest.
    Incremental,
    /// All of them, copied while the program goes on.
    Snapshot,
    /// The bytes that changed since the revision before, copied while the program goes on.
    IncrementalSnapshot,
}

/// Compression of revisions on a disk or a parallel file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum CompressCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_COMPRESS_OFF.
    Default = 0,
    /// None.
    Off,
    /// LZ4, which is fast.
    Lz4,
    /// Zstandard, which compresses better.
    Zstd,
}

/// How Mainstay finds changed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum TrackCode {
    /// Set by mainstay.toml or the environment; default: MAINSTAY_TRACK_AUTO.
    Default = 0,
    /// By written pages, if the system can report them and no device is open that could write past them; otherwise by
    /// hashes.
    Auto,
    /// By written pages, even with such a device open. You guarantee that it does not write to a tracked region.
    Pages,
    /// By hashes of all protected bytes.
    Hashes,
}

/// Settings of the program. 0 leaves a setting to the environment or mainstay.toml, and otherwise to the default
/// given here.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    /// sizeof(mainstay_options); MAINSTAY_OPTIONS_INIT sets it.
    pub size: usize,
    /// Complete revisions to keep, at least. A space has room for two more than the number it was made for. Default:
    /// 1.
    pub keep: u32,
    /// A mainstay_stage. Default: MAINSTAY_STAGE_POOL.
    pub stage: u32,
    /// Bytes of the pool that the ranks of a node share. With room for their shards and one chunk more for each, a
    /// checkpoint costs the program one copy. Default: the size of the shards, up to a quarter of the free memory and
    /// half of pool_directory.
    pub pool_bytes: u64,
    /// Bytes of one write, a multiple of 4096. Default: 4 MiB, or less if the pool has fewer than two such chunks for
    /// each rank of the node, or if the pool sizes itself and no shard has two.
    pub chunk_bytes: u64,
    /// Threads of this rank that write, and as many that hash; also the limit of concurrent writes on the node.
    /// Default: 2, or 1 if the ranks of the node use all its processors.
    pub io_threads: u32,
    /// Bytes of this rank's portion of a new space. Default: room for keep+2 of the first checkpoint's shards.
    pub portion_bytes: u64,
    /// A checkpoint is due after this number of steps. Default: not by steps.
    pub every_steps: u64,
    /// A checkpoint is due after this number of seconds. Default: not by time.
    pub every_seconds: f64,
    /// Mean time between failures of the job, in seconds, from which Daly's formula gives the interval. Default:
    /// unknown.
    pub mtbf_seconds: f64,
    /// A mainstay_pool_held. Default: MAINSTAY_POOL_HELD_ALWAYS.
    pub pool_held: u32,
    /// Stage node: each rank first gathers pieces of fewer bytes. 1: it gathers none. Default: 512.
    pub small_bytes: u64,
    /// Stages node and rank: the calling thread writes pieces of this size and more directly. Default: measured on
    /// this machine.
    pub threshold_bytes: u64,
    /// Bytes of this rank's own buffer in stage rank, and of the one for small pieces in stage node, a multiple of
    /// 4096. Default: 4 MiB.
    pub buffer_bytes: u64,
    /// Stage node: seconds between two flushes of its buffer. Default: 0.1.
    pub flush_seconds: f64,
    /// A mainstay_per: which ranks share a file of a new space. Default: the ranks of a node on CephFS, and all
    /// elsewhere.
    pub per: u32,
    /// A mainstay_allocate: how a new space reserves its room. Default: MAINSTAY_ALLOCATE_BLOCKS.
    pub allocate: u32,
    /// On CephFS and Lustre: number of servers over which a file of a new space is striped. Default: the file
    /// system's.
    pub stripe_count: u32,
    /// On CephFS and Lustre: bytes of a stripe of a new space, a multiple of 64 KiB. Default: the file system's.
    pub stripe_bytes: u64,
    /// Bytes of the largest shard that this rank is going to save: a portion has room for keep+2 of this size.
    /// Default: the size of the first checkpoint's shard.
    pub shard_bytes: u64,
    /// Hints, a line `name=value` each: striping_factor, striping_unit and cb_nodes as in MPI-IO, and mainstay_
    /// before the name of any setting. Mainstay ignores other hints. Hints go before the fields of this struct.
    /// Default: none. Read during the opening call.
    pub hints: *const c_char,
    /// A mainstay_start: whether the job may replace earlier jobs' revisions. Default: MAINSTAY_START_RESTORED.
    pub start: u64,
    /// The memory of the nodes as a level before all others, which gets every revision: "auto", or a directory in
    /// memory. Default: "off". Read during the opening call, like `disk`.
    pub memory: *const c_char,
    /// The disks of the nodes as a level before the space that you open: a directory. Default: "off".
    pub disk: *const c_char,
    /// Complete revisions to keep in the memory of the nodes. Default: 1.
    pub memory_keep: u32,
    /// A mainstay_memory_after: whether they outlive a job that ends normally. Default:
    /// MAINSTAY_MEMORY_AFTER_REMOVED.
    pub memory_after: u32,
    /// Every how many revisions one goes to the disks of the nodes. Default: 1.
    pub disk_every: u32,
    /// Complete revisions to keep on the disks of the nodes. Default: 1.
    pub disk_keep: u32,
    /// Every how many revisions one goes to the space that you open, if there are levels before it. Default: 1. With
    /// the hint mainstay_pfs_every=0 none does.
    pub pfs_every: u32,
    /// A mainstay_exchange: when Mainstay sends copies to other nodes. Default: MAINSTAY_EXCHANGE_BACKGROUND.
    pub exchange: u64,
    /// Copies of each shard in the memory of nodes: one on its own node, the others on other nodes. Default: 2.
    pub memory_copies: u32,
    /// Copies of each shard on disks of nodes: one on its own node, the others on other nodes. Default: 1.
    pub disk_copies: u32,
    /// A mainstay_recovery: action of the running job when ranks fail. Default: MAINSTAY_RECOVERY_OFF.
    pub recovery: u32,
    /// With recovery: number of spares. The last ranks sleep in the opening until they replace a failed rank.
    /// Default: none.
    pub spares: u32,
    /// A mainstay_capture: which bytes of the protected regions a revision writes. Default: MAINSTAY_CAPTURE_WHOLE.
    pub capture: u64,
    /// With incremental capture, a mainstay_track: how Mainstay finds changed bytes. Default: MAINSTAY_TRACK_AUTO.
    pub track: u32,
    /// With incremental capture by pages: every how many revisions Mainstay hashes the pages reported as unchanged.
    /// Default: never.
    pub audit: u32,
    /// With snapshots: the number of bytes to copy from which Mainstay takes a snapshot instead of a plain copy. 1:
    /// always. Default: whichever keeps the program waiting for less time.
    pub snapshot_bytes: u64,
    /// A mainstay_compress: compression of revisions on a disk or a parallel file system. Default:
    /// MAINSTAY_COMPRESS_OFF.
    pub compress: u64,
    /// A mainstay_disk_lost: action of a start that cannot reach a disk level, if that level had a newer revision
    /// than all others. Default: MAINSTAY_DISK_LOST_REFUSED.
    pub disk_lost: u64,
}

/// Sizes of the struct in all versions of the header: it only grows, at its end.
const SIZES: [usize; 12] = [
    offset_of!(Options, pool_held),
    offset_of!(Options, per),
    offset_of!(Options, shard_bytes),
    offset_of!(Options, start),
    offset_of!(Options, memory),
    offset_of!(Options, exchange),
    offset_of!(Options, recovery),
    offset_of!(Options, capture),
    offset_of!(Options, snapshot_bytes),
    offset_of!(Options, compress),
    offset_of!(Options, disk_lost),
    size_of::<Options>(),
];

impl Options {
    /// The settings in force if the program passed `options`.
    ///
    /// # Safety
    /// `options` is null, or points to as many bytes as its `size` says if that is one of `SIZES`; its `hints`,
    /// `memory` and `disk` are null or end with a zero byte.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn config(options: *const Options) -> Result<Config, Error> {
        let choice = if options.is_null() {
            Choice::default()
        } else {
            // SAFETY: as the caller promised.
            unsafe { Options::read(options)?.choice()? }
        };
        Ok(Config::resolve(&choice)?.config)
    }

    /// The options of a program that may have been compiled with an older header. Fields that this header lacks are
    /// 0.
    ///
    /// # Safety
    /// As for `config`, and not null.
    #[allow(unsafe_code)]
    unsafe fn read(theirs: *const Options) -> Result<Options, Error> {
        // SAFETY: every version begins with its size.
        let size = unsafe { (&raw const (*theirs).size).read() };
        if !SIZES.contains(&size) {
            let why = format!(
                "size {size} is that of no version up to this library's; begin with MAINSTAY_OPTIONS_INIT, and \
                 compile with this library's mainstay.h"
            );
            return Err(Error::argument("options", why));
        }
        // SAFETY: numbers, and pointers that may be null: zero is valid for all of them and means none.
        let mut options: Options = unsafe { std::mem::zeroed() };
        // SAFETY: the caller has this many bytes, and `options` has no fewer; any bytes are valid in its fields.
        unsafe { (&raw mut options).cast::<u8>().copy_from_nonoverlapping(theirs.cast::<u8>(), size) };
        Ok(options)
    }

    /// # Safety
    /// `hints`, `memory` and `disk` are null or end with a zero byte.
    #[allow(unsafe_code)]
    unsafe fn choice(&self) -> Result<Choice, Error> {
        let mut choice = Choice::default();
        for (key, given) in self.given() {
            if let Some(value) = given.value(key)? {
                choice.set(key, value)?;
            }
        }
        for (key, place) in [("memory", self.memory), ("disk", self.disk)] {
            if !place.is_null() {
                // SAFETY: as the caller promised.
                let place = OsStr::from_bytes(unsafe { bytes_of(place, key) }?);
                choice.set(key, Value::Word(place))?;
            }
        }
        if !self.hints.is_null() {
            // SAFETY: as the caller promised.
            let hints = String::from_utf8_lossy(unsafe { bytes_of(self.hints, "hints") }?);
            for (name, value) in hints.lines().filter_map(|line| line.split_once('=')) {
                choice.hint(name, value)?;
            }
        }
        Ok(choice)
    }

    /// The key of each field, and its value. A field missing here is a compile error.
    fn given(&self) -> [(&'static str, Given); 36] {
        let Options {
            size: _,
            hints: _,
            memory: _,
            disk: _,
            keep,
            stage,
            pool_bytes,
            chunk_bytes,
            io_threads,
            portion_bytes,
            every_steps,
            every_seconds,
            mtbf_seconds,
            pool_held,
            small_bytes,
            threshold_bytes,
            buffer_bytes,
            flush_seconds,
            per,
            allocate,
            stripe_count,
            stripe_bytes,
            shard_bytes,
            start,
            memory_keep,
            memory_after,
            disk_every,
            disk_keep,
            pfs_every,
            exchange,
            memory_copies,
            disk_copies,
            recovery,
            spares,
            capture,
            track,
            audit,
            snapshot_bytes,
            compress,
            disk_lost,
        } = *self;
        [
            ("keep", Given::signed(keep.cast_signed())),
            ("stage", Given::Code(stage.into(), &["pool", "direct", "node", "rank"])),
            ("pool_bytes", Given::signed(pool_bytes.cast_signed())),
            ("chunk_bytes", Given::signed(chunk_bytes.cast_signed())),
            ("io_threads", Given::signed(io_threads.cast_signed())),
            ("portion_bytes", Given::signed(portion_bytes.cast_signed())),
            ("every_steps", Given::signed(every_steps.cast_signed())),
            ("every_seconds", Given::Seconds(every_seconds)),
            ("mtbf_seconds", Given::Seconds(mtbf_seconds)),
            ("pool_held", Given::Code(pool_held.into(), &["always", "checkpoint"])),
            ("small_bytes", Given::signed(small_bytes.cast_signed())),
            ("threshold_bytes", Given::signed(threshold_bytes.cast_signed())),
            ("buffer_bytes", Given::signed(buffer_bytes.cast_signed())),
            ("flush_seconds", Given::Seconds(flush_seconds)),
            ("per", Given::Code(per.into(), &["app", "node", "rank"])),
            ("allocate", Given::Code(allocate.into(), &["sparse", "blocks", "zero"])),
            ("stripe_count", Given::signed(stripe_count.cast_signed())),
            ("stripe_bytes", Given::signed(stripe_bytes.cast_signed())),
            ("shard_bytes", Given::signed(shard_bytes.cast_signed())),
            ("start", Given::Code(start, &["restored", "fresh"])),
            ("memory_keep", Given::signed(memory_keep.cast_signed())),
            ("memory_after", Given::Code(memory_after.into(), &["removed", "kept"])),
            ("disk_every", Given::signed(disk_every.cast_signed())),
            ("disk_keep", Given::signed(disk_keep.cast_signed())),
            ("pfs_every", Given::signed(pfs_every.cast_signed())),
            ("exchange", Given::Code(exchange, &["background", "blocking"])),
            ("memory_copies", Given::signed(memory_copies.cast_signed())),
            ("disk_copies", Given::signed(disk_copies.cast_signed())),
            ("recovery", Given::Code(recovery.into(), &["off", "replace", "shrink"])),
            ("spares", Given::signed(spares.cast_signed())),
            ("capture", Given::Code(capture, &["whole", "incremental", "snapshot", "incremental-snapshot"])),
            ("track", Given::Code(track.into(), &["auto", "pages", "hashes"])),
            ("audit", Given::signed(audit.cast_signed())),
            ("snapshot_bytes", Given::signed(snapshot_bytes.cast_signed())),
            ("compress", Given::Code(compress, &["off", "lz4", "zstd"])),
            ("disk_lost", Given::Code(disk_lost, &["refused", "accepted"])),
        ]
    }
}

/// The value of a field: zero means none.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Given {
    Number(i64),
    Seconds(f64),
    /// A number that stands for a word, the first for 1.
    Code(u64, &'static [&'static str]),
}

impl Given {
    /// A number in an unsigned field that a program may have set below zero: no setting takes a number as large as
    /// that looks.
    fn signed(number: impl Into<i64>) -> Given {
        Given::Number(number.into())
    }

    fn value(self, key: &str) -> Result<Option<Value<'static>>, Error> {
        let value = match self {
            Given::Number(0) | Given::Code(0, _) | Given::Seconds(0.0) => return Ok(None),
            Given::Number(number) => Value::Integer(number.into()),
            Given::Seconds(seconds) => Value::Float(seconds),
            Given::Code(code, words) => {
                let word = usize::try_from(code - 1).ok().and_then(|index| words.get(index));
                Value::Text(word.ok_or_else(|| unknown(key, code, words))?)
            }
        };
        Ok(Some(value))
    }
}

fn unknown(key: &str, code: u64, words: &[&str]) -> Error {
    let names: Vec<_> =
        words.iter().map(|word| format!("MAINSTAY_{key}_{word}").replace('-', "_").to_uppercase()).collect();
    let [others @ .., last] = &*names else { unreachable!("no key takes no word") };
    Error::argument(key, format!("{code} is none of its values, it takes {} or {last}", others.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::KEYS;

    /// Settings without a field: a program can set them only by a hint, the environment or the file.
    const WITHOUT_FIELD: [&str; 11] = [
        "pool_directory",
        "interval",
        "agree_seconds",
        "when_busy",
        "checkpoint_signal",
        "trace",
        "tick_seconds",
        "predictor",
        "infrequent_seconds",
        "stagger",
        "oracle",
    ];

    fn nothing_given() -> Options {
        // SAFETY: numbers, and a pointer that may be null.
        #[allow(unsafe_code)]
        unsafe {
            std::mem::zeroed()
        }
    }

    #[test]
    fn each_setting_has_a_field_but_for_eleven() {
        let given = nothing_given().given();
        let mut found: Vec<_> =
            given.iter().map(|(key, _)| *key).chain(["memory", "disk"]).chain(WITHOUT_FIELD).collect();
        let mut expected: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "mainstay_options and the table of settings are not the same");
        let guide = include_str!("../../docs/guide/src/settings.md");
        let [rest @ .., last] = WITHOUT_FIELD.map(|key| format!("`{key}`"));
        let said = format!("only `hints` can set {} and {last}", rest.join(", "));
        assert!(guide.split_whitespace().collect::<Vec<_>>().join(" ").contains(&said), "settings.md: {said}");
    }

    #[test]
    fn codes_stand_for_the_words_of_their_setting_and_are_those_of_the_header() {
        let header = include_str!("../include/mainstay.h");
        let words_of = nothing_given().given();
        for (key, words) in words_of.iter().filter_map(|(key, given)| match given {
            Given::Code(_, words) => Some((*key, *words)),
            _ => None,
        }) {
            let taken = KEYS.iter().find(|known| known.name == key).unwrap().takes.replace(" or ", ", ");
            let mut expected: Vec<_> =
                taken.split(", ").filter(|word| *word != "auto" || words.contains(word)).collect();
            let mut found = words.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{key}");

            let (body, _) = header.split_once(&format!("}} mainstay_{key};")).unwrap();
            let (_, body) = body.rsplit_once("typedef enum {").unwrap();
            let constants = body.lines().map(str::trim).filter(|line| line.starts_with("MAINSTAY_"));
            let expected = ["default"]
                .iter()
                .chain(words)
                .map(|word| format!("MAINSTAY_{key}_{word}").replace('-', "_").to_uppercase());
            assert!(constants.map(|line| line.split([' ', ',']).next().unwrap_or(line)).eq(expected), "{key}: {body}");
        }
    }

    #[test]
    fn a_number_below_zero_is_refused_as_what_it_is() {
        let negative = [
            Options { keep: (-1_i32).cast_unsigned(), ..nothing_given() },
            Options { every_steps: (-1_i64).cast_unsigned(), ..nothing_given() },
        ];
        for (given, key) in negative.into_iter().zip(["keep", "every_steps"]) {
            // SAFETY: there are no hints.
            #[allow(unsafe_code)]
            let error = unsafe { given.choice() }.unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}: ")) && error.contains("-1"), "{error}");
        }
    }

    #[test]
    fn what_is_given_is_what_the_engine_takes() {
        let given = Options { pool_bytes: 1 << 20, stage: 2, flush_seconds: 0.5, ..nothing_given() };
        // SAFETY: there are no hints.
        #[allow(unsafe_code)]
        let choice = unsafe { given.choice() }.unwrap();
        let mut expected = Choice::default();
        let values = [
            ("pool_bytes", Value::Integer(1 << 20)),
            ("stage", Value::Text("direct")),
            ("flush_seconds", Value::Float(0.5)),
        ];
        for (key, value) in values {
            expected.set(key, value).unwrap();
        }
        assert_eq!(choice, expected);
        let message = Given::Code(9, &["pool", "direct"]).value("stage").unwrap_err().to_string();
        assert_eq!(message, "stage: 9 is none of its values, it takes MAINSTAY_STAGE_POOL or MAINSTAY_STAGE_DIRECT");
        let message = Given::Code(9, &["snapshot", "incremental-snapshot"]).value("capture").unwrap_err().to_string();
        assert!(message.ends_with("MAINSTAY_CAPTURE_SNAPSHOT or MAINSTAY_CAPTURE_INCREMENTAL_SNAPSHOT"), "{message}");
    }
}
