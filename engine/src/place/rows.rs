//! The hashes of a shard under way: rows, behind which its manifest goes in the end.

use super::{Plan, lock};
use crate::{pool::ShardRecord, space::Aligned};
use std::sync::Mutex;

/// Where it is kept until it is written.
#[derive(Debug)]
pub(crate) enum Rows {
    /// In this process: nothing is left to be done after t2.
    Own(Mutex<Aligned>),
    /// Beside the pool: another process can complete the shard.
    Recorded(ShardRecord),
}

impl Rows {
    /// Room for the hashes of `plan`, if there is memory.
    pub(crate) fn own(plan: &Plan) -> Option<Rows> {
        Aligned::zeroed(plan.manifest_in_meta()).map(|rows| Rows::Own(rows.into()))
    }

    /// Puts `bytes` at `at`, a multiple of 8.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        match self {
            Rows::Own(rows) => lock(rows)[at as usize..at as usize + bytes.len()].copy_from_slice(bytes),
            Rows::Recorded(record) => record.write_rows(at, bytes),
        }
    }

    /// The first `bytes` bytes, which change no more.
    pub(super) fn read<T>(&self, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Rows::Own(rows) => read(&lock(rows)[..bytes as usize]),
            Rows::Recorded(record) => read(record.rows_bytes(bytes)),
        }
    }

    pub(super) fn record(&self) -> Option<&ShardRecord> {
        match self {
            Rows::Own(_) => None,
            Rows::Recorded(record) => Some(record),
        }
    }
}
