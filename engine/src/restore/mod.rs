//! Selects the newest revision that all ranks have, verifies it and hands it back.
//!
//! Owns the choice. Invariant: every block is verified before its bytes are used; all ranks go on with the same
//! revision; ranks skip damaged revisions together and report them.

mod base;
mod blocks;
mod find;
mod hash_rows;
mod hidden;
#[cfg(test)]
mod in_memory;
mod pour;
mod redistribute;
mod regions;
mod scatter;
mod shard_set;
mod stored;

pub(crate) use base::{base_of, joined_rows};
pub(crate) use blocks::BlockReader;
pub(crate) use find::{DamagedShard, Found, Seen, Sight, find, hex};
pub(crate) use hash_rows::{HashRows, rows_of};
pub(crate) use hidden::Hidden;
pub(crate) use pour::{pour, pour_blocks};
pub(crate) use redistribute::{
    Redistribution, SavedShard, Sharing, WantedItem, blocks_wanted, box_of, counts_as_same, share_of, stored_blocks,
};
pub(crate) use regions::{Targets, has_moved, match_regions, match_some};
pub(crate) use scatter::Scatter;
pub(crate) use shard_set::{ShardSet, one};
pub(crate) use stored::Stored;
