//! The required size of a portion.

use crate::{
    capture::Size,
    commit::{Need, RUNS},
    space::format::{Catalogue, Codec, blocks_for},
};

/// Room in each manifest for notes and output files that come after the first checkpoint.
const ANNEX_BLOCKS: u64 = 1;

/// Number of blocks that a portion needs, in addition to its slots, to hold so many `shards` of `size` at once,
/// compressed with `codec` if given.
pub(crate) fn portion_blocks(size: &Size, codec: Option<Codec>, shards: u32) -> u64 {
    let (need, revisions) = (Need::of(size, RUNS).packed(codec), u64::from(shards));
    // Each root has a catalogue of its own: two in the slots, two being written.
    let catalogues = 4 * blocks_for(Catalogue::bytes_for(shards as usize));
    let shard = need.data.saturating_add(need.meta).saturating_add(ANNEX_BLOCKS);
    revisions.saturating_mul(shard).saturating_add(catalogues)
}
