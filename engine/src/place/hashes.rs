//! The hashes of a shard in progress: rows, with one hash for each block of the log. A manifest follows them in the
//! end.

use super::ShardSpec;
use crate::{
    error::Result,
    ground::lock,
    pool::{RankRecord, ShardRecord},
    space::Aligned,
};
use std::sync::Mutex;

/// The place of the rows until they are written.
#[derive(Debug)]
pub(super) enum Hashes {
    /// In this process: they are lost with it.
    Own(Mutex<Aligned>),
    /// Beside the pool: another process can complete the shard.
    Recorded(ShardRecord),
}

impl Hashes {
    /// Makes room for the rows of `intent`; `None` if memory is short. `record`: their place, and the length of a
    /// segment. `cuts`: number of further places at which segments may end.
    pub(super) fn new(
        intent: &ShardSpec,
        record: Option<(&mut RankRecord, u64)>,
        cuts: usize,
    ) -> Result<Option<Hashes>> {
        let (size, bytes) = (&intent.size, intent.size.hash_bytes());
        let Some((record, segment_bytes)) = record else {
            return Ok(Aligned::lasting(bytes).map(|rows| Hashes::Own(rows.into())));
        };
        let segments = segments_at_most(size.bytes(), segment_bytes).saturating_add(cuts as u32);
        let begun = record.begin(bytes, segments, intent.tag());
        begun.map(|record| Some(Hashes::Recorded(record)))
    }

    /// Writes `bytes` at `at`, a multiple of 8.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        match self {
            Hashes::Own(rows) => lock(rows)[at as usize..at as usize + bytes.len()].copy_from_slice(bytes),
            Hashes::Recorded(record) => record.write_rows(at, bytes),
        }
    }

    /// Reads the first `bytes` bytes, which must not change any more.
    pub(super) fn read<T>(&self, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Hashes::Own(rows) => read(&lock(rows)[..bytes as usize]),
            Hashes::Recorded(record) => read(record.rows_bytes(bytes)),
        }
    }

    pub(super) fn record(&self) -> Option<&ShardRecord> {
        match self {
            Hashes::Own(_) => None,
            Hashes::Recorded(record) => Some(record),
        }
    }
}

/// Maximum number of segments of a log of `bytes` bytes in chunks of `chunk_bytes`. Three chunks may leave before they
/// are full: at the last piece, at the last gap, and when parts are staged that the shard had referred to. Each of
/// those adds one more.
pub(crate) fn segments_at_most(bytes: u64, chunk_bytes: u64) -> u32 {
    u32::try_from(bytes / chunk_bytes + 6).unwrap_or(u32::MAX)
}
