//! Publishing a shard whose data has been written: by the rank that saved it, or by whoever salvages it.

use super::{Allocation, Kept, Ledger, RevisionKey};
use crate::{
    error::{Error, Result},
    space::{
        Aligned,
        format::{BLOCK_BYTES, Entry, Manifest, PhaseRecord, blocks_for, hash},
    },
};

/// A shard with all of its data in the portion.
pub(crate) struct Publication<'a> {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    /// With the hashes of its rows.
    pub(crate) manifest: Manifest,
    /// Where in the metadata it belongs, behind the rows of hashes.
    pub(crate) manifest_in_meta: u64,
    pub(crate) allocation: &'a Allocation,
    pub(crate) retained: &'a [RevisionKey],
    pub(crate) phases: PhaseRecord,
}

impl Publication<'_> {
    /// The manifest's bytes, if there is room for them.
    pub(crate) fn manifest_bytes(&self) -> Result<Vec<u8>> {
        let bytes = self.manifest.build();
        if self.manifest_in_meta + bytes.len() as u64 > self.allocation.meta.count * BLOCK_BYTES {
            return Err(Error::Internal { what: "a manifest is longer than what was set aside for it".to_owned() });
        }
        Ok(bytes)
    }

    /// So many bytes of the metadata are written, in whole blocks: what was set aside may be more.
    fn meta_bytes(&self, manifest: &[u8]) -> u64 {
        blocks_for(self.manifest_in_meta + manifest.len() as u64) * BLOCK_BYTES
    }

    /// The metadata: the rows of hashes, and behind them the manifest. `None` where memory is short.
    pub(crate) fn meta(&self, rows: &[u8], manifest: &[u8]) -> Option<Aligned> {
        let mut meta = Aligned::zeroed(self.meta_bytes(manifest))?;
        meta[..rows.len()].copy_from_slice(rows);
        meta[self.manifest_in_meta as usize..][..manifest.len()].copy_from_slice(manifest);
        Some(meta)
    }

    /// Publishes it, once `meta` (the rows of hashes, and behind them `manifest`) has been written in
    /// `writes` writes; returns the phases with all that was written.
    pub(crate) fn publish(self, ledger: &mut Ledger, manifest: &[u8], writes: u64) -> Result<PhaseRecord> {
        let (meta, mut phases) = (self.allocation.meta, self.phases);
        let roots = self.allocation.roots();
        let metadata = self.meta_bytes(manifest) / BLOCK_BYTES + roots * self.allocation.root_blocks();
        phases.writes += writes + 2 * roots;
        phases.written_bytes += metadata * BLOCK_BYTES;
        let entry = Entry {
            lineage: self.key.lineage,
            number: self.key.number,
            shards: self.shards,
            shard: ledger.portion().rank(),
            bytes: self.manifest.items.iter().map(|item| item.bytes).sum(),
            manifest_at: meta.first * BLOCK_BYTES + self.manifest_in_meta,
            manifest_bytes: manifest.len() as u64,
            manifest_hash: hash(manifest),
            meta_at: meta.first * BLOCK_BYTES,
            meta_bytes: meta.count * BLOCK_BYTES,
            phases,
        };
        ledger.publish(Kept::of(entry, &self.manifest), self.allocation, self.retained)?;
        Ok(phases)
    }
}
