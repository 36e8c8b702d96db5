//! Limits on the files in which a job reports its state: anything beyond is refused.

pub(super) const RANKS_MAX: u32 = 1 << 24;
/// Sum over all revisions on all levels and copies: each location is examined.
pub(super) const SHARDS_MAX: u64 = 1 << 26;
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;
/// For lineages and revisions.
pub(super) const NUMBER_MAX: u64 = 1 << 62;
