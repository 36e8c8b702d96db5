//! The hashes of a shard's blocks, and behind them its manifest: written last, in one stretch.

use super::lock;
use crate::{pool::Record, space::Aligned};
use std::sync::{Arc, Mutex};

/// Where they are gathered.
#[derive(Debug)]
pub(crate) enum Meta {
    /// In memory of this process.
    Own(Mutex<Aligned>),
    /// In the shard's record, where they outlive it.
    Recorded(Arc<Record>),
}

impl Meta {
    /// Puts `bytes` at `at`. Different threads put different bytes.
    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        match self {
            Meta::Own(buffer) => lock(buffer)[at as usize..][..bytes.len()].copy_from_slice(bytes),
            Meta::Recorded(record) => record.write_meta(at, bytes),
        }
    }

    /// All of it. While nobody puts anything.
    pub(super) fn with<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Meta::Own(buffer) => read(&lock(buffer)),
            Meta::Recorded(record) => read(record.meta_bytes()),
        }
    }
}
