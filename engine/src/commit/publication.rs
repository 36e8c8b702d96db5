//! Publishing a shard after its data has been written, by the rank that saved it or by a salvager.

use super::{Allocation, Kept, Ledger, RevisionKey};
use crate::{
    error::{Error, Result},
    space::{
        Aligned, Portion,
        format::{BLOCK_BYTES, Entry, Hash, Manifest, PhaseRecord, blocks_for, hash},
        pack_manifest,
    },
};

/// A shard ready to be published: all its data is in the portion.
pub(crate) struct Publication<'a> {
    pub(crate) key: RevisionKey,
    pub(crate) shards: u32,
    /// The manifest, with the hashes of its rows.
    pub(crate) manifest: Manifest,
    pub(crate) allocation: &'a Allocation,
    pub(crate) retained: &'a [RevisionKey],
    pub(crate) phases: PhaseRecord,
}

/// A publication with its metadata: the rows of hashes, followed by the manifest.
pub(crate) struct Described<'a> {
    publication: Publication<'a>,
    /// The metadata, in whole blocks; more blocks may be reserved for it.
    meta: Aligned,
    manifest_in_meta: u64,
    manifest_bytes: u64,
    manifest_hash: Hash,
}

impl<'a> Publication<'a> {
    /// Adds the metadata, with these `rows` of hashes, in whole blocks. Fails if memory is short.
    pub(crate) fn describe(self, rows: &[u8], portion: &Portion) -> Result<Described<'a>> {
        let manifest = pack_manifest(self.manifest.build());
        let bytes = blocks_for((rows.len() + manifest.len()) as u64) * BLOCK_BYTES;
        if bytes > self.allocation.meta.count * BLOCK_BYTES {
            return Err(Error::Internal { what: "a manifest is longer than what was set aside for it".to_owned() });
        }
        let mut meta = Aligned::lasting(bytes).ok_or_else(|| portion.out_of_memory(bytes))?;
        meta[..rows.len()].copy_from_slice(rows);
        meta[rows.len()..][..manifest.len()].copy_from_slice(&manifest);
        let (manifest_in_meta, manifest_bytes) = (rows.len() as u64, manifest.len() as u64);
        Ok(Described { publication: self, meta, manifest_in_meta, manifest_bytes, manifest_hash: hash(&manifest) })
    }
}

impl Described<'_> {
    /// Writes the metadata to `portion`: `publish` comes next.
    pub(crate) fn write(&mut self, portion: &Portion) -> Result<()> {
        let writes = portion.write(self.publication.allocation.meta.first * BLOCK_BYTES, &self.meta)?;
        let (allocation, phases) = (self.publication.allocation, &mut self.publication.phases);
        let roots = allocation.roots();
        phases.writes += writes + 2 * roots;
        phases.written_bytes += self.meta.len() as u64 + roots * allocation.root_blocks() * BLOCK_BYTES;
        Ok(())
    }

    /// Sets the shard's times.
    pub(crate) fn keep_times(&mut self, phases: PhaseRecord) {
        self.publication.phases = phases;
    }

    /// Reads the manifest back from `portion`; fails if it differs.
    pub(crate) fn read_back(&self, portion: &Portion) -> Result<Manifest> {
        let at = self.publication.allocation.meta.first * BLOCK_BYTES + self.manifest_in_meta;
        let of = format!("manifest of revision {} at {at}, as it was written", self.publication.key.number);
        let bytes = portion.read_checked(at, self.manifest_bytes, &self.manifest_hash, &of)?;
        portion.parse_manifest(&bytes, &of)
    }

    /// Publishes the shard; returns its times, with all writes counted.
    pub(crate) fn publish(self, ledger: &mut Ledger) -> Result<PhaseRecord> {
        let Publication { key, shards, manifest, allocation, retained, phases } = self.publication;
        let meta = allocation.meta;
        let entry = Entry {
            lineage: key.lineage,
            number: key.number,
            shards,
            shard: ledger.portion().rank(),
            bytes: manifest.items.iter().map(|item| item.bytes).sum(),
            manifest_at: meta.first * BLOCK_BYTES + self.manifest_in_meta,
            manifest_bytes: self.manifest_bytes,
            manifest_hash: self.manifest_hash,
            meta_at: meta.first * BLOCK_BYTES,
            meta_bytes: meta.count * BLOCK_BYTES,
            phases,
        };
        ledger.publish(Kept::of(entry, &manifest), allocation, retained)?;
        Ok(phases)
    }
}
