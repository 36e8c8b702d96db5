//! The table of a delegated space (paper 001, section IV.A): each rank's portion, the place of its next checkpoint, and
//! its last checkpoint.

use crate::{
    commit::{Ledger, Need, RevisionKey},
    space::format::{BLOCK_BYTES, Hash, Lineage},
};

/// A row of the table. Offsets are from the beginning of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortionSurvey {
    pub file: String,
    /// The id of the layout.
    pub layout: [u8; 16],
    pub rank: u32,
    /// The lineage under which the portion's newest root was written.
    pub lineage: Lineage,
    /// Whether the last job of the portion closed it in order.
    pub clean: bool,
    pub offset_start: u64,
    pub offset_end: u64,
    /// The place of the data of a next shard as large as the last one; `None` if there is no room for it.
    pub offset_next: Option<u64>,
    /// The newest shard of the newest root, if any.
    pub newest: Option<NewestShard>,
}

/// The newest shard of a portion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestShard {
    pub key: RevisionKey,
    pub bytes: u64,
    /// Hash of the manifest. The manifest holds the hashes of all rows of block hashes.
    pub checksum: Hash,
}

impl PortionSurvey {
    pub(super) fn of(file: &str, ledger: &Ledger) -> PortionSurvey {
        let portion = ledger.portion();
        let place = portion.place();
        let newest = ledger.kept().last();
        PortionSurvey {
            file: file.to_owned(),
            layout: portion.layout_id(),
            rank: place.rank,
            lineage: ledger.position().1,
            clean: ledger.is_clean(),
            offset_start: place.at,
            offset_end: place.at + place.bytes,
            offset_next: next(ledger).map(|at| place.at + at),
            newest: newest.map(|kept| NewestShard {
                key: kept.key(),
                bytes: kept.entry.bytes,
                checksum: kept.entry.manifest_hash,
            }),
        }
    }
}

/// The place of a shard as large as the newest, if the oldest shard without a hold is removed for it, as a job does.
fn next(ledger: &Ledger) -> Option<u64> {
    let kept = ledger.kept();
    let newest = kept.last();
    let meta = newest.map_or(0, |kept| kept.entry.meta_bytes / BLOCK_BYTES);
    let data = newest.map_or(1, |kept| kept.count().saturating_sub(meta).max(1));
    let from = kept.len().saturating_sub(1).min(1);
    let retained: Vec<RevisionKey> = kept[from..].iter().map(|kept| kept.key()).collect();
    let allocation = ledger.allocate(Need { data, meta, packing: None }, &retained).ok()?;
    allocation.data.first().map(|blocks| blocks.first * BLOCK_BYTES)
}
