//! What one place sets: a file, the environment, or a program.

use super::{Config, Interval, Key, PoolHeld, Signal, Stage, Start, Value, value::shortened};
use crate::{
    device::Allocate,
    error::{Error, Result},
    space::Per,
};
use std::{path::PathBuf, time::Duration};

/// Settings of which some are given; the fields are those of `Config`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub keep: Option<u32>,
    pub stage: Option<Stage>,
    pub pool_bytes: Option<Option<u64>>,
    pub chunk_bytes: Option<Option<u64>>,
    pub pool_held: Option<PoolHeld>,
    pub small_bytes: Option<u64>,
    pub threshold_bytes: Option<Option<u64>>,
    pub buffer_bytes: Option<u64>,
    pub flush_every: Option<Duration>,
    pub io_threads: Option<u32>,
    pub aggregators: Option<u32>,
    pub portion_bytes: Option<u64>,
    pub shard_bytes: Option<u64>,
    pub per: Option<Per>,
    pub allocate: Option<Allocate>,
    pub start: Option<Start>,
    pub stripe_count: Option<u32>,
    pub stripe_bytes: Option<u64>,
    pub pool_directory: Option<PathBuf>,
    pub every_steps: Option<u64>,
    pub every: Option<Duration>,
    pub mtbf: Option<Duration>,
    pub interval: Option<Interval>,
    pub agree_every: Option<Duration>,
    pub checkpoint_signal: Option<Option<Signal>>,
}

impl Choice {
    /// Sets the key of this name. An error names the key, and what it takes.
    pub fn set(&mut self, name: &str, value: Value) -> Result<()> {
        let key = Key::named(name).ok_or_else(|| Error::argument(shortened(name), Key::unknown(name)))?;
        self.read(key, value).map_err(|why| Error::argument(key.name, why))
    }

    /// Sets `key`, or says why it does not take the value.
    pub(super) fn read(&mut self, key: &Key, value: Value) -> std::result::Result<(), String> {
        (key.read)(self, &value).map_err(|wrong| key.refusal(&wrong))?;
        let mut alone = Config::default();
        (key.take)(self, &mut alone);
        key.check(&alone)
    }
}
