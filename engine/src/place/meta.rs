//! The metadata of a shard under way: the rows of hashes, and behind them the manifest.

use super::{Plan, lock};
use crate::{pool::ShardRecord, space::Aligned};
use std::sync::Mutex;

/// Where it is kept until it is written.
#[derive(Debug)]
pub(crate) enum Meta {
    /// In this process: nothing is left to be done after t2.
    Own(Mutex<Aligned>),
    /// Beside the pool: another process can complete the shard.
    Recorded(ShardRecord),
}

impl Meta {
    /// Room for the metadata of `plan`, if there is memory.
    pub(crate) fn own(plan: &Plan) -> Option<Meta> {
        Aligned::zeroed(plan.meta_bytes()).map(|meta| Meta::Own(meta.into()))
    }

    /// Puts `bytes` at `at`, a multiple of 8.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        match self {
            Meta::Own(meta) => lock(meta)[at as usize..at as usize + bytes.len()].copy_from_slice(bytes),
            Meta::Recorded(record) => record.write_meta(at, bytes),
        }
    }

    /// The first `bytes` bytes, which change no more.
    pub(super) fn read<T>(&self, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Meta::Own(meta) => read(&lock(meta)[..bytes as usize]),
            Meta::Recorded(record) => read(record.meta_bytes(bytes)),
        }
    }

    pub(super) fn record(&self) -> Option<&ShardRecord> {
        match self {
            Meta::Own(_) => None,
            Meta::Recorded(record) => Some(record),
        }
    }
}
