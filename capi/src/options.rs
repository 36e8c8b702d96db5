//! The settings of a session.

use crate::argument::bytes_of;
use mainstay_engine::{Choice, Config, Error, Value};
use std::{
    ffi::{OsStr, c_char},
    mem::offset_of,
    os::unix::ffi::OsStrExt,
};

/// Which way bytes leave the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum StageCode {
    /// What mainstay.toml or the environment say; else the pool.
    Default = 0,
    /// Into a pool of chunks, which I/O threads write.
    Pool,
    /// Written by the calling thread, without a buffer: the baseline.
    Direct,
    /// Small pieces gathered by each rank, the others in a buffer of the node; large ones straight through.
    Node,
    /// Gathered in a buffer of each rank, which the calling thread writes; large pieces straight through.
    Rank,
}

/// How long the memory of the pool is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum PoolHeldCode {
    /// What mainstay.toml or the environment say; else always.
    Default = 0,
    /// From when it is made to the end of the session.
    Always,
    /// From the request of each checkpoint until it is durable.
    Checkpoint,
}

/// Which ranks share a file of a new space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum PerCode {
    /// What mainstay.toml or the environment say; else those of a node on CephFS, and all elsewhere.
    Default = 0,
    /// All of the job.
    App,
    /// Those of a node.
    Node,
    /// Each has its own.
    Rank,
}

/// How hard room is promised to a new space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum AllocateCode {
    /// What mainstay.toml or the environment say; else blocks.
    Default = 0,
    /// Not at all.
    Sparse,
    /// Its blocks are set aside, where the file system can.
    Blocks,
    /// It is written with zeros.
    Zero,
}

/// What a job makes of the revisions that earlier ones have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum StartCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_START_RESTORED.
    Default = 0,
    /// It is refused to push them out before it has restored one, or got something of it.
    Restored,
    /// It may. A restore finds them all the same.
    Fresh,
}

/// What becomes of the memory of the nodes when a job ends in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum MemoryAfterCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_MEMORY_AFTER_REMOVED.
    Default = 0,
    /// Its newest revision goes to the next level that takes any, and it is removed.
    Removed,
    /// It stays for the next job on these nodes.
    Kept,
}

/// What a start does where a disk level is out of reach that had something newer than all that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum DiskLostCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_DISK_LOST_REFUSED.
    Default = 0,
    /// It is refused: the disk may come back.
    Refused,
    /// It goes on from what is left.
    Accepted,
}

/// When the copies that lie on other nodes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum ExchangeCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_EXCHANGE_BACKGROUND.
    Default = 0,
    /// While the program goes on.
    Background,
    /// Before a checkpoint returns.
    Blocking,
}

/// What a job does, while it runs, about ranks that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum RecoveryCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_RECOVERY_OFF.
    #[expect(dead_code, reason = "for the header only")]
    Default = 0,
    /// Nothing: it is started again.
    Off,
    /// Others take their places and numbers: spares, or processes that are started for it.
    Replace,
    /// It goes on with fewer ranks.
    Shrink,
}

/// What of the protected regions a revision writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum CaptureCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_CAPTURE_WHOLE.
    Default = 0,
    /// All of it.
    Whole,
    /// What changed since the revision before, with which it shares the rest.
    Incremental,
    /// All of it, copied while the program goes on.
    Snapshot,
    /// What changed since the revision before, copied while the program goes on.
    IncrementalSnapshot,
}

/// How what goes to a disk or a parallel file system is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum CompressCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_COMPRESS_OFF.
    Default = 0,
    /// Not at all.
    Off,
    /// By LZ4, which is fast.
    Lz4,
    /// By Zstandard, which makes it shorter.
    Zstd,
}

/// How it is found out what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum TrackCode {
    /// What mainstay.toml or the environment say; else as MAINSTAY_TRACK_AUTO.
    Default = 0,
    /// By pages where the system can tell which were written and no device is open that could write past them, else by hashes.
    Auto,
    /// By the pages that were written, also where such a device is open: the user says that it writes to none that is tracked.
    Pages,
    /// By hashes of all that is protected.
    Hashes,
}

/// What the program sets; 0: what the environment or mainstay.toml say, or else the default, which is
/// given here.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    /// sizeof(mainstay_options); MAINSTAY_OPTIONS_INIT sets it.
    pub size: usize,
    /// Complete revisions that are kept at least; 1. A space has room for two more than it was made for.
    pub keep: u32,
    /// A mainstay_stage; MAINSTAY_STAGE_POOL.
    pub stage: u32,
    /// Bytes of the node's pool, which its ranks share; what they save, within a quarter of the memory that is free
    /// and half of pool_directory. With room for their shards and a chunk more for each a checkpoint costs the program
    /// one copy.
    pub pool_bytes: u64,
    /// Bytes that are written at once, a multiple of 4096; 4 MiB, or less where the pool has not two such for each
    /// rank of the node, or with a pool that sizes itself no shard has two.
    pub chunk_bytes: u64,
    /// Threads of this rank that write, and as many that hash; also the most writes under way at once on the
    /// node. 2, and 1 where the ranks of the node use all its processors.
    pub io_threads: u32,
    /// Bytes of this rank's portion of a new space; room for keep+2 of the first checkpoint's shards.
    pub portion_bytes: u64,
    /// A checkpoint is due every so many steps; not by steps.
    pub every_steps: u64,
    /// A checkpoint is due after so many seconds; not by time.
    pub every_seconds: f64,
    /// Mean time between failures of the job, in seconds, from which Daly's formula tells when a
    /// checkpoint is due; not given.
    pub mtbf_seconds: f64,
    /// A mainstay_pool_held; MAINSTAY_POOL_HELD_ALWAYS.
    pub pool_held: u32,
    /// Stage node: pieces of fewer bytes are gathered by each rank first; 512. 1: none are.
    pub small_bytes: u64,
    /// Stages node and rank: pieces of so many bytes and more go straight through, written by the calling
    /// thread; found on this machine.
    pub threshold_bytes: u64,
    /// Bytes of this rank's own buffer in stage rank, and in stage node for small pieces, a multiple of 4096;
    /// 4 MiB.
    pub buffer_bytes: u64,
    /// Stage node: its buffer is flushed every so many seconds; 0.1.
    pub flush_seconds: f64,
    /// A mainstay_per: which ranks share a file of a new space.
    pub per: u32,
    /// A mainstay_allocate: how hard room is promised to a new space; MAINSTAY_ALLOCATE_BLOCKS.
    pub allocate: u32,
    /// On CephFS and Lustre: over how many servers a file of a new space is striped; as the file system does it.
    pub stripe_count: u32,
    /// On CephFS and Lustre: bytes of a stripe of a new space, a multiple of 64 KiB; as the file system does it.
    pub stripe_bytes: u64,
    /// The most bytes that this rank is going to save at once: a portion has room for keep+2 such shards; for
    /// those of the first checkpoint.
    pub shard_bytes: u64,
    /// Hints, a line `name=value` each: striping_factor, striping_unit and cb_nodes as MPI-IO has them, and mainstay_
    /// before the name of any setting. Those of others are ignored, these go before what is set here; none. Read
    /// during the call that opens.
    pub hints: *const c_char,
    /// So many ranks write for all; each writes for itself.
    pub aggregators: u32,
    /// A mainstay_start: what the job makes of revisions that are there; MAINSTAY_START_RESTORED.
    pub start: u64,
    /// The memory of the nodes as a level before all others, which gets every revision: "auto", or a directory in
    /// memory; "off". Read during the call that opens, as is `disk`.
    pub memory: *const c_char,
    /// The disks of the nodes as a level before the space that is opened: a directory; "off".
    pub disk: *const c_char,
    /// Complete revisions that are kept there; 1.
    pub memory_keep: u32,
    /// A mainstay_memory_after: whether they outlive a job that ends in order; MAINSTAY_MEMORY_AFTER_REMOVED.
    pub memory_after: u32,
    /// Every how many revisions one goes to the disks of the nodes; 1.
    pub disk_every: u32,
    /// Complete revisions that are kept there; 1.
    pub disk_keep: u32,
    /// Every how many revisions one goes to the space that is opened, where there are levels before it; 1. None with
    /// the hint mainstay_pfs_every=0.
    pub pfs_every: u32,
    /// A mainstay_exchange: when copies go to other nodes; MAINSTAY_EXCHANGE_BACKGROUND.
    pub exchange: u64,
    /// How many of each shard lie in the memory of nodes: one on its own, the others on other nodes; 2.
    pub memory_copies: u32,
    /// How many of each shard lie on disks of nodes, likewise; 1.
    pub disk_copies: u32,
    /// A mainstay_recovery: what the job does, while it runs, when ranks fail; MAINSTAY_RECOVERY_OFF.
    pub recovery: u32,
    /// With recovery: so many of the last ranks wait inside the opening, asleep, until one that fails is to be
    /// replaced; none.
    pub spares: u32,
    /// A mainstay_capture: what of the protected regions a revision writes; MAINSTAY_CAPTURE_WHOLE.
    pub capture: u64,
    /// With an incremental capture, a mainstay_track: how it is found out what changed; MAINSTAY_TRACK_AUTO.
    pub track: u32,
    /// With that and pages: every so many revisions what the pages call unchanged is hashed; never.
    pub audit: u32,
    /// With snapshots: from how many bytes on that are to be copied one is taken, and not a plain copy; where the program
    /// then waits for less time. 1: always.
    pub snapshot_bytes: u64,
    /// A mainstay_compress: how what goes to a disk or a parallel file system is compressed; MAINSTAY_COMPRESS_OFF.
    pub compress: u64,
    /// A mainstay_disk_lost: what a start does where a disk level is out of reach that had something newer than all that is
    /// left; MAINSTAY_DISK_LOST_REFUSED.
    pub disk_lost: u64,
}

/// What the struct measured in each version of the header: it only grows, at its end.
const SIZES: [usize; 13] = [
    offset_of!(Options, pool_held),
    offset_of!(Options, per),
    offset_of!(Options, shard_bytes),
    offset_of!(Options, aggregators),
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
    /// The settings in force where the program passed `options`.
    ///
    /// # Safety
    /// `options` is null, or points to as many bytes as its `size` says if that is one of `SIZES`; its `hints`, `memory` and `disk`
    /// are null or end with a zero byte.
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

    /// The options of a program that may have been compiled with an older header; what that does not have is 0.
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
        // SAFETY: numbers, and pointers that may be null: zero in all of them is none given.
        let mut options: Options = unsafe { std::mem::zeroed() };
        // SAFETY: so many bytes are there, and no more than `options` has; any bytes are valid in its fields.
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

    /// The key of each field, and what the program has put there. A field that is left out here does not compile.
    fn given(&self) -> [(&'static str, Given); 37] {
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
            aggregators,
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
            ("aggregators", Given::signed(aggregators.cast_signed())),
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

/// What stands in a field: zero is nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Given {
    Number(i64),
    Seconds(f64),
    /// A number that stands for a word, the first for 1.
    Code(u64, &'static [&'static str]),
}

impl Given {
    /// A number that a program wrote into an unsigned field, where it may have been below zero: no setting takes as much as that
    /// looks like.
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

    /// What a program can set by a hint, the environment and the file alone.
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
        let said = format!("{} and {last} have no other field", rest.join(", "));
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
