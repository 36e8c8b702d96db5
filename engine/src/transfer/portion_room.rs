//! The room needed in the other space, for each portion.

use crate::{
    commit::{Need, RUNS},
    error::Result,
    feed::size_of,
    reader::Reader,
    space::format::{BLOCK_BYTES, Catalogue, Run, blocks_for},
};
use std::collections::BTreeSet;

/// The needs of the revisions still to be copied.
pub(super) struct Rooms {
    /// Blocks of each portion, by rank: at least as many as in the first space, so a job can go on there.
    pub(super) portions: Vec<u64>,
    /// Approximate number of bytes to be written.
    pub(super) bytes: u64,
}

/// The needs of a portion for several revisions, one after the other.
#[derive(Default)]
struct Growing {
    /// Runs of the first space that were counted, with their portions.
    counted: BTreeSet<([u8; 16], u32, u64, u64)>,
    data: u64,
    meta: u64,
    most: u64,
    as_before: u64,
}

impl Rooms {
    /// For the revision of `next`, and those of `later` with the same number of shards.
    pub(super) fn of(next: &Reader, later: &[&Reader]) -> Result<Rooms> {
        let shards = next.shard_count();
        let mut alike = vec![next];
        alike.extend(later.iter().filter(|reader| reader.shard_count() == shards));
        let of_shard = |shard| {
            let mut growing = Growing::default();
            alike.iter().try_for_each(|reader| growing.add(reader, shard)).map(|()| growing)
        };
        let growing = (0..shards).map(of_shard).collect::<Result<Vec<Growing>>>()?;
        // Each root has a catalogue of its own: two in the slots, two in progress.
        let catalogues = 4 * blocks_for(Catalogue::bytes_for(alike.len() + 1));
        let written = |growing: &Growing| growing.data.saturating_add(growing.meta).saturating_add(catalogues);
        let bytes = growing.iter().map(written).fold(0, u64::saturating_add).saturating_mul(BLOCK_BYTES);
        let portion = |growing: Growing| {
            growing.most.saturating_add(growing.meta).saturating_add(catalogues).max(growing.as_before)
        };
        Ok(Rooms { portions: growing.into_iter().map(portion).collect(), bytes })
    }
}

impl Growing {
    /// A whole shard must fit first, even if it then shares blocks with an earlier one.
    fn add(&mut self, reader: &Reader, shard: u32) -> Result<()> {
        let (survey, manifest) = (reader.survey(shard)?, reader.shard(shard)?);
        let (portion, need) = (survey.portion(), Need::of(&size_of(manifest.clone()), RUNS));
        self.most = self.most.max(self.data.saturating_add(need.data));
        self.meta = self.meta.saturating_add(need.meta);
        let (layout, rank) = (portion.layout_id(), portion.rank());
        let is_new = |run: &&Run| self.counted.insert((layout, rank, run.first_block, run.blocks));
        self.data += manifest.runs.iter().filter(is_new).map(|run| run.blocks).sum::<u64>();
        let parts = reader.revision().into_iter().flat_map(|revision| &revision.parts).flat_map(|part| &part.shards);
        let everywhere = parts.filter(|other| other.shard == shard).chain([survey]);
        self.as_before = everywhere.map(|survey| survey.portion_blocks()).fold(self.as_before, u64::max);
        Ok(())
    }
}
