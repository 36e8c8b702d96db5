//! The settings of a session.

use crate::session::bytes_of;
use mainstay_engine::{Choice, Config, Error, PoolHeld, Stage, Start, Value, device::Allocate, space::Per};
use std::{ffi::c_char, mem::offset_of};

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
}

/// What the struct measured in each version of the header: it only grows, at its end.
const SIZES: [usize; 6] = [
    offset_of!(Options, pool_held),
    offset_of!(Options, per),
    offset_of!(Options, shard_bytes),
    offset_of!(Options, aggregators),
    offset_of!(Options, start),
    size_of::<Options>(),
];

impl Options {
    /// The settings in force where the program passed `options`.
    ///
    /// # Safety
    /// `options` is null, or points to as many bytes as its `size` says if that is one of `SIZES`; its `hints` are null or end with
    /// a zero byte.
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
        // SAFETY: numbers, and a pointer that may be null: zero in all of them is none given.
        let mut options: Options = unsafe { std::mem::zeroed() };
        // SAFETY: so many bytes are there, and no more than `options` has; any bytes are valid in its fields.
        unsafe { (&raw mut options).cast::<u8>().copy_from_nonoverlapping(theirs.cast::<u8>(), size) };
        Ok(options)
    }

    /// # Safety
    /// `hints` is null or ends with a zero byte.
    #[allow(unsafe_code)]
    unsafe fn choice(&self) -> Result<Choice, Error> {
        let mut choice = Choice {
            stage: self.stage()?,
            pool_held: self.pool_held()?,
            per: self.per()?,
            allocate: self.allocate()?,
            start: self.start()?,
            stripe_count: set(self.stripe_count),
            stripe_bytes: set(self.stripe_bytes),
            keep: set(self.keep),
            pool_bytes: set(self.pool_bytes).map(Some),
            chunk_bytes: set(self.chunk_bytes).map(Some),
            io_threads: set(self.io_threads),
            aggregators: set(self.aggregators),
            portion_bytes: set(self.portion_bytes),
            every_steps: set(self.every_steps),
            small_bytes: set(self.small_bytes),
            threshold_bytes: set(self.threshold_bytes).map(Some),
            buffer_bytes: set(self.buffer_bytes),
            shard_bytes: set(self.shard_bytes),
            ..Choice::default()
        };
        let times = [
            ("every_seconds", self.every_seconds),
            ("mtbf_seconds", self.mtbf_seconds),
            ("flush_seconds", self.flush_seconds),
        ];
        for (key, seconds) in times {
            if let Some(seconds) = set(seconds) {
                choice.set(key, Value::Float(seconds))?;
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

    fn stage(&self) -> Result<Option<Stage>, Error> {
        let takes = "MAINSTAY_STAGE_POOL, MAINSTAY_STAGE_NODE, MAINSTAY_STAGE_RANK or MAINSTAY_STAGE_DIRECT";
        one_of("stage", self.stage, &[Stage::Pool, Stage::Direct, Stage::Node, Stage::Rank], takes)
    }

    fn pool_held(&self) -> Result<Option<PoolHeld>, Error> {
        let takes = "MAINSTAY_POOL_HELD_ALWAYS or MAINSTAY_POOL_HELD_CHECKPOINT";
        one_of("pool_held", self.pool_held, &[PoolHeld::Always, PoolHeld::Checkpoint], takes)
    }

    fn per(&self) -> Result<Option<Per>, Error> {
        let takes = "MAINSTAY_PER_APP, MAINSTAY_PER_NODE or MAINSTAY_PER_RANK";
        one_of("per", self.per, &[Per::App, Per::Node, Per::Rank], takes)
    }

    fn start(&self) -> Result<Option<Start>, Error> {
        let takes = "MAINSTAY_START_RESTORED or MAINSTAY_START_FRESH";
        one_of("start", u32::try_from(self.start).unwrap_or(u32::MAX), &[Start::Restored, Start::Fresh], takes)
    }

    fn allocate(&self) -> Result<Option<Allocate>, Error> {
        let takes = "MAINSTAY_ALLOCATE_SPARSE, MAINSTAY_ALLOCATE_BLOCKS or MAINSTAY_ALLOCATE_ZERO";
        one_of("allocate", self.allocate, &[Allocate::Sparse, Allocate::Blocks, Allocate::Zero], takes)
    }
}

/// What `code` stands for, counted from 1; 0 is not given.
fn one_of<T: Copy>(key: &str, code: u32, all: &[T], takes: &str) -> Result<Option<T>, Error> {
    let Some(index) = (code as usize).checked_sub(1) else { return Ok(None) };
    let found = all.get(index).copied();
    let found = found.ok_or_else(|| Error::argument(key, format!("{code} is none of its values, it takes {takes}")));
    found.map(Some)
}

fn set<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}
