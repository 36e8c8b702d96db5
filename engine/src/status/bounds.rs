//! What can be in a file that tells of a job: anything beyond is refused, whoever wrote it.

pub(super) const RANKS_MAX: u32 = 1 << 24;
/// Of all revisions on all levels and copies: where each of them lies is looked at.
pub(super) const SHARDS_MAX: u64 = 1 << 26;
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;
/// Of lineages and revisions.
pub(super) const NUMBER_MAX: u64 = 1 << 62;
