//! One shard, where it is read: in a portion on a device, or in memory to which another node sent it.

use crate::{
    capture::Region,
    error::Result,
    restore::{BlockReader, HashRows, Redistribution, Scatter, Stored, match_some, pour},
    space::{
        Portion,
        format::{Entry, Item, Manifest},
    },
};
use std::sync::OnceLock;

pub(super) struct ShardPlace {
    portion: Portion,
    pub(super) entry: Entry,
    manifest: OnceLock<Manifest>,
    /// The hashes of its blocks, once boxes were read from it.
    rows: Option<HashRows>,
}

/// A shard that is being read, and its blocks that were read last.
pub(super) struct ShardBlocks {
    pub(super) shard: u32,
    pub(super) blocks: BlockReader,
    /// The item that was read last.
    pub(super) item: Option<(String, Stored)>,
}

impl ShardPlace {
    /// Its manifest is read when it is needed.
    pub(super) fn new(portion: Portion, entry: Entry) -> ShardPlace {
        ShardPlace { portion, entry, manifest: OnceLock::new(), rows: None }
    }

    pub(super) fn with(portion: &Portion, entry: &Entry, manifest: Manifest) -> ShardPlace {
        ShardPlace { manifest: manifest.into(), ..ShardPlace::new(portion.clone(), entry.clone()) }
    }

    pub(super) fn manifest(&self) -> Result<&Manifest> {
        match self.manifest.get() {
            Some(manifest) => Ok(manifest),
            None => {
                let manifest = self.portion.read_manifest(&self.entry)?;
                Ok(self.manifest.get_or_init(|| manifest))
            }
        }
    }

    pub(super) fn blocks(&self, shard: u32) -> Result<ShardBlocks> {
        Ok(ShardBlocks { shard, blocks: BlockReader::new(self.portion.clone(), self.manifest()?), item: None })
    }

    /// Fills the box that needs these bytes of the shard.
    pub(super) fn fill(&mut self, shard: u32, wanted: &Redistribution<'_>) -> Result<()> {
        let mut rows = self.rows.take();
        let manifest = self.manifest()?;
        let hashes = rows.get_or_insert_with(|| HashRows::new(manifest.runs.len()));
        let filled = wanted.pour(&self.portion, shard, manifest, hashes);
        self.rows = rows;
        filled
    }

    /// Fills `regions` from the items of their names.
    pub(super) fn fill_regions(&self, regions: &[Region]) -> Result<()> {
        let manifest = self.manifest()?;
        let targets = match_some(manifest, regions, self.entry.number)?;
        targets.fill_zeros();
        pour(&self.portion, manifest, &|at, bytes| targets.fill(at, bytes))
    }

    /// Calls `sink` with all bytes of `items`, which are of its manifest.
    pub(super) fn read_all(&self, items: &[&Item], sink: &(dyn Fn(usize, u64, &[u8]) + Sync)) -> Result<()> {
        let scatter = Scatter::new(items.iter().copied().zip(0..));
        scatter.fill_zeros(sink);
        pour(&self.portion, self.manifest()?, &|at, bytes| scatter.fill(at, bytes, sink))
    }
}
