//! What was staged of a shard, known at t2. Its items have their extents in the log; where the log lies in a portion is
//! the business of each target.

use super::pieces;
use crate::space::{
    format::{Annex, BLOCK_BYTES, Extent, HASH_BYTES, Item, Manifest, Run},
    free::Blocks,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    /// With extents in the log.
    pub(crate) items: Vec<Item>,
    /// Blocks of the log.
    pub(crate) blocks: u64,
    pub(crate) annex: Annex,
}

impl Contents {
    /// Bytes of all items.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.items.iter().map(|item| item.bytes).sum()
    }

    /// The items as the manifest of a portion lists them in which the log lies in `runs`.
    pub(crate) fn laid(&self, runs: &[Blocks]) -> Vec<Item> {
        let laid = |item: &Item| {
            let mut extents = Vec::with_capacity(item.extents.len());
            for Extent { at, bytes } in &item.extents {
                pieces(runs, *at, *bytes).for_each(|piece| extend(&mut extents, piece.at, piece.bytes));
            }
            Item { extents, ..item.clone() }
        };
        self.items.iter().map(laid).collect()
    }

    /// As other processes are told of it: a manifest whose one run is the log.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let log = Run { first_block: 0, blocks: self.blocks, hashes_at: 0, hashes_hash: [0; HASH_BYTES] };
        let runs = if self.blocks > 0 { vec![log] } else { Vec::new() };
        Manifest { runs, items: self.items.clone(), annex: self.annex.clone() }.build()
    }

    /// `None` if `told` contradicts itself, or is of a log of more than `blocks_max` blocks.
    pub(crate) fn decode(told: &[u8], blocks_max: u64) -> Option<Contents> {
        let Manifest { runs, items, annex } = Manifest::parse(told, blocks_max.saturating_mul(BLOCK_BYTES)).ok()?;
        let blocks = match runs[..] {
            [] => 0,
            [Run { first_block: 0, blocks, .. }] => blocks,
            _ => return None,
        };
        Some(Contents { items, blocks, annex })
    }
}

/// Adds `bytes` bytes that lie at `at`.
pub(super) fn extend(extents: &mut Vec<Extent>, at: u64, bytes: u64) {
    match extents.last_mut() {
        Some(last) if last.at + last.bytes == at => last.bytes += bytes,
        _ => extents.push(Extent { at, bytes }),
    }
}
