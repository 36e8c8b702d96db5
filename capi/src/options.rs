//! The settings of a session.

use mainstay_engine::{Config, Error, Stage};

/// Which way bytes leave the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "for the header only")]
#[repr(C)]
pub enum StageCode {
    /// Into a pool of chunks, which I/O threads write.
    Pool = 0,
    /// Written by the calling thread, without a buffer: the baseline.
    Direct,
}

/// Settings; 0 stands for the default.
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
}

impl Options {
    pub(crate) fn config(&self) -> Result<Config, Error> {
        if self.size != size_of::<Options>() {
            let why =
                format!("size {} instead of {}; begin with MAINSTAY_OPTIONS_INIT", self.size, size_of::<Options>());
            return Err(Error::InvalidArgument { what: "options".to_owned(), why });
        }
        let stage = match self.stage {
            0 => Stage::Pool,
            1 => Stage::Direct,
            other => {
                let why = format!("{other} is no stage, it takes MAINSTAY_STAGE_POOL or MAINSTAY_STAGE_DIRECT");
                return Err(Error::InvalidArgument { what: "stage".to_owned(), why });
            }
        };
        let mut config = Config { stage, ..Config::default() };
        let set = |value: u64, field: &mut u64| {
            if value != 0 {
                *field = value;
            }
        };
        set(self.pool_bytes, &mut config.pool_bytes);
        set(self.chunk_bytes, &mut config.chunk_bytes);
        set(self.portion_bytes, &mut config.portion_bytes);
        if self.keep != 0 {
            config.keep = self.keep;
        }
        if self.io_threads != 0 {
            config.io_threads = self.io_threads;
        }
        Ok(config)
    }
}
