//! The settings of a session.

use mainstay_engine::{Choice, Config, Error, Stage, Value};

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
    /// Bytes of this rank's pool; 64 MiB. With more than the shard a checkpoint costs the program one copy.
    pub pool_bytes: u64,
    /// Bytes that are written at once, a multiple of 4096; 4 MiB.
    pub chunk_bytes: u64,
    /// Threads of this rank that write, and as many that hash; 2, and 1 where the ranks of the node use
    /// all its processors.
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
}

impl Options {
    /// The settings in force where the program passed `options`.
    pub(crate) fn config(options: Option<&Options>) -> Result<Config, Error> {
        let choice = options.map_or_else(|| Ok(Choice::default()), Options::choice)?;
        Ok(Config::resolve(&choice)?.config)
    }

    fn choice(&self) -> Result<Choice, Error> {
        if self.size != size_of::<Options>() {
            let why =
                format!("size {} instead of {}; begin with MAINSTAY_OPTIONS_INIT", self.size, size_of::<Options>());
            return Err(Error::argument("options", why));
        }
        let stage = match self.stage {
            0 => None,
            1 => Some(Stage::Pool),
            2 => Some(Stage::Direct),
            other => {
                let why = format!("{other} is no stage, it takes MAINSTAY_STAGE_POOL or MAINSTAY_STAGE_DIRECT");
                return Err(Error::argument("stage", why));
            }
        };
        let mut choice = Choice {
            stage,
            keep: set(self.keep),
            pool_bytes: set(self.pool_bytes),
            chunk_bytes: set(self.chunk_bytes),
            io_threads: set(self.io_threads),
            portion_bytes: set(self.portion_bytes),
            every_steps: set(self.every_steps),
            ..Choice::default()
        };
        for (key, seconds) in [("every_seconds", self.every_seconds), ("mtbf_seconds", self.mtbf_seconds)] {
            if let Some(seconds) = set(seconds) {
                choice.set(key, Value::Float(seconds))?;
            }
        }
        Ok(choice)
    }
}

fn set<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}
