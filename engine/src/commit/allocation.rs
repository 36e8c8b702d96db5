//! The place of a new revision, and the number of roots that must drop old ones first.

use super::{Kept, free_maps::FreeMaps};
use crate::{
    capture::{Contents, LogRuns, Piece, Size, first_blocks},
    error::Result,
    ground::Instant,
    mutant::{self, Mutant},
    space::{
        Aligned, BlockSet, Portion,
        format::{
            BLOCK_BYTES, Catalogue, Codec, Entry, FRAME_BLOCKS, Frame, HASH_BYTES, Hash, Lineage, Manifest,
            PhaseRecord, Run, blocks_for, list_bytes,
        },
        free::{Blocks, FreeMap},
    },
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc, time::Duration};

/// Blocks that a shard needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) data: u64,
    /// Blocks for hashes and manifest, in one stretch.
    pub(crate) meta: u64,
    /// `None`: everything is stored plain.
    pub(crate) packing: Option<Packing>,
}

/// How a shard is compressed, and the number of frames that fit in its manifest; further data is stored plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packing {
    pub(crate) codec: Codec,
    pub(crate) frames_max: u64,
}

impl Packing {
    /// Room for frames of half the maximum length, and for a few more: parts of the log may end anywhere.
    fn of(codec: Codec, blocks: u64) -> Packing {
        Packing { codec, frames_max: 2 * blocks.div_ceil(FRAME_BLOCKS) + FRAMES_FEW }
    }

    fn list_bytes(&self) -> u64 {
        list_bytes(self.frames_max)
    }
}

const FRAMES_FEW: u64 = 16;

/// Number of stretches of a shard's data before its manifest needs more room.
pub(crate) const RUNS: usize = 64;

impl Need {
    /// The need of a root alone.
    pub(crate) const ROOT: Need = Need { data: 0, meta: 0, packing: None };

    /// The need of a shard of this `size` for data in at most `runs` runs.
    pub(crate) fn of(size: &Size, runs: usize) -> Need {
        let meta = size.hash_blocks() + blocks_for(size.manifest_bytes_at_most(runs));
        Need { data: size.blocks(), meta, packing: None }
    }

    /// The same for a shard compressed with `codec`, if given.
    pub(crate) fn packed(self, codec: Option<Codec>) -> Need {
        let Some(packing) = codec.map(|codec| Packing::of(codec, self.data)) else { return self };
        let meta = self.meta.saturating_add(blocks_for(packing.list_bytes()));
        Need { meta, packing: Some(packing), ..self }
    }

    /// Turns this need, for data in at most `RUNS` runs, into the need for data in `runs` runs.
    pub(super) fn in_runs(self, runs: usize) -> Need {
        // Each run splits an extent.
        let more = runs.saturating_sub(RUNS) as u64 * (Manifest::RUN_EXTENTS + 1) * Manifest::EXTENT_BYTES;
        Need { meta: self.meta.saturating_add(blocks_for(more)), ..self }
    }

    /// The same for a shard that refers to so many frames of older ones.
    pub(super) fn leading_to(self, frames: usize) -> Need {
        let more = if frames > 0 { blocks_for(list_bytes(frames as u64)) } else { 0 };
        Need { meta: self.meta + more, ..self }
    }

    /// The need of a shard like `kept`.
    pub(super) fn again(kept: &Kept) -> Need {
        // The rows of a shard that shares blocks with others are in separate places.
        let (meta, rows) = (kept.entry.meta_bytes / BLOCK_BYTES, blocks_for(kept.data * HASH_BYTES as u64));
        Need { data: kept.data, meta: meta.max(rows + blocks_for(kept.entry.manifest_bytes)), packing: None }
    }

    pub(crate) fn blocks(self) -> u64 {
        self.data.saturating_add(self.meta)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocation {
    /// Places of the catalogues of freeing roots: roots without the revisions to be freed, written before the first
    /// block.
    pub(crate) freeing: Vec<Blocks>,
    /// Place of the catalogue of the publishing root.
    pub(crate) catalogue: Blocks,
    pub(crate) meta: Blocks,
    pub(crate) data: LogRuns,
    /// Further runs of the revision, ascending, from older revisions or saved early: they are not written any more.
    /// They follow `data` in the log.
    #[serde(with = "in_a_row")]
    pub(crate) shared: Vec<Run>,
    /// The blocks of the runs that were saved early, with their rows of hashes: no root refers to them yet.
    pub(crate) early: Vec<Blocks>,
    /// Whether the revision is staged as an outline: everything that it does not stage comes from the newest kept
    /// revision; the runs are found out later.
    pub(crate) is_outline: bool,
    /// Frames with blocks of `shared`, ascending.
    pub(crate) frames: Vec<Frame>,
    /// How written data is compressed; `None`: not at all.
    pub(crate) packing: Option<Packing>,
}

/// Runs as plain bytes, one after the other: there may be many, and the program waits while they are sent to other
/// ranks of the same node.
mod in_a_row {
    use super::Run;
    use serde::{Deserializer, Serializer, de::Error};
    use zerocopy::{FromBytes, IntoBytes};

    pub(super) fn serialize<S: Serializer>(runs: &[Run], serializer: S) -> Result<S::Ok, S::Error> {
        serde_bytes::serialize(runs.as_bytes(), serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Vec<Run>, D::Error> {
        let bytes: &[u8] = serde_bytes::deserialize(deserializer)?;
        let runs: Result<Vec<Run>, _> = bytes.chunks(size_of::<Run>()).map(Run::read_from_bytes).collect();
        runs.map_err(|_| D::Error::custom("a run is cut short"))
    }
}

impl Allocation {
    /// The same for a revision that shares these runs with older ones, except those in `early`; `frames`: those with
    /// blocks of the runs.
    pub(crate) fn sharing(self, shared: &[Run], early: &[Blocks], frames: Vec<Frame>) -> Allocation {
        Allocation { shared: shared.to_vec(), early: early.to_vec(), frames, ..self }
    }

    /// The part of it that a shard with `contents` takes if it refers to these runs, with blocks in `frames`; `None` if
    /// its metadata does not fit.
    pub(crate) fn delta_allocation(
        &self,
        contents: &Contents,
        shared: &[Run],
        frames: Vec<Frame>,
    ) -> Option<Allocation> {
        let data = first_blocks(&self.data, contents.blocks).into();
        let packing = self.packing.map(|packing| Packing::of(packing.codec, contents.blocks));
        let whole = Allocation { data, packing, ..self.clone() }.sharing(shared, &[], frames);
        let manifest = whole.manifest(contents, |_| [0; HASH_BYTES]).build().len() as u64;
        let rows = blocks_for(contents.blocks * HASH_BYTES as u64);
        // Use the end, so that the rest is adjacent to the free blocks before it.
        let count = rows + blocks_for(manifest + packing.map_or(0, |packing| packing.list_bytes()));
        let first = self.meta.end().checked_sub(count).filter(|first| *first >= self.meta.first)?;
        whole.fits(contents).then_some(Allocation { meta: Blocks { first, count }, ..whole })
    }

    /// The same for a shard with `contents`, partly written already, that refers to these runs as well, with blocks in
    /// `frames`; `None` if its metadata does not fit.
    pub(crate) fn delta_late(&self, contents: &Contents, shared: &[Run], frames: Vec<Frame>) -> Option<Allocation> {
        let data = first_blocks(&self.data, contents.blocks).into();
        let delta_allocation = Allocation { data, is_outline: false, ..self.clone() }.sharing(shared, &[], frames);
        // An outline has room for the largest possible number of parts.
        let has_room = self.is_outline || self.has_room_for(&delta_allocation, contents);
        (delta_allocation.fits(contents) && has_room).then_some(delta_allocation)
    }

    /// Whether the metadata has room for the manifest of a shard with these references.
    fn has_room_for(&self, delta_allocation: &Allocation, contents: &Contents) -> bool {
        let list = self.packing.map_or(0, |packing| packing.list_bytes());
        let manifest = delta_allocation.manifest(contents, |_| [0; HASH_BYTES]).build().len() as u64 + list;
        // A salvager has rows for everything that could be staged.
        let rows = blocks_for(self.own_blocks() * HASH_BYTES as u64);
        rows + blocks_for(manifest) <= self.meta.count
    }

    /// Whether a shard of this `size` that refers to these runs fits here.
    pub(crate) fn is_for(&self, size: &Size, shared: &[Run]) -> bool {
        let need = Need::of(size, self.data.len());
        self.shared == shared && need.data <= self.own_blocks() && need.meta <= self.meta.count
    }

    /// A shard that would be here, newer than all existing ones. Its blocks are not merged.
    pub(super) fn imagined(&self, number: u64) -> Kept {
        let shared = self.shared.iter().flat_map(|run| [run.stretch(), run.row_blocks()]);
        let shared = shared.chain(self.frames.iter().map(Frame::room));
        let blocks = self.data.iter().copied().chain([self.meta]).chain(shared).collect();
        Kept::new(imagined_entry(number), blocks, self.log_blocks(), Vec::new())
    }

    /// The same for a shard that shares all blocks of `base` except those that are `gone`, in a portion with the blocks
    /// in `range`.
    pub(super) fn imagined_with(&self, base: &Kept, gone: &[Blocks], (from, to): (u64, u64)) -> Kept {
        let mut set = BlockSet::within(from..to);
        base.add_to(&mut set, from..to);
        // A frame is needed as a whole as long as one block of it is.
        if base.frames.is_empty() {
            gone.iter().for_each(|blocks| set.remove(*blocks));
        }
        for blocks in self.data.iter().chain([&self.meta]) {
            set.add(*blocks);
        }
        Kept::as_set(imagined_entry(0), set, from..to)
    }

    /// Maximum number of blocks of the log, including those of older revisions.
    pub(crate) fn log_blocks(&self) -> u64 {
        self.shared.iter().fold(self.own_blocks(), |sum, run| sum.saturating_add(run.blocks))
    }

    /// Maximum number of blocks of the log that are written.
    fn own_blocks(&self) -> u64 {
        self.data.iter().fold(0, |sum, blocks| sum.saturating_add(blocks.count))
    }

    /// Whether all data of `contents`, staged and shared, fits here.
    pub(crate) fn fits(&self, contents: &Contents) -> bool {
        let own = self.own_blocks();
        contents.blocks <= own && (contents.shared.is_empty() || contents.shared == (own..self.log_blocks()))
    }

    /// Number of roots that this revision writes, each a catalogue and a slot: those that free blocks, and the one that
    /// publishes.
    pub(crate) fn roots(&self) -> u64 {
        self.freeing.len() as u64 + 1
    }

    /// The manifest of `contents`, with the log mapped to the blocks for data. `hash_of`: the hash of these bytes of
    /// the metadata, which begins with the rows of hashes. The writer of frames adds them.
    pub(crate) fn manifest(&self, contents: &Contents, hash_of: impl Fn(Range<usize>) -> Hash) -> Manifest {
        let mut from = 0;
        let runs = first_blocks(&self.data, contents.blocks).into_iter().map(|blocks| {
            let row = from..from + blocks.count as usize * HASH_BYTES;
            let hashes_at = self.meta.first * BLOCK_BYTES + from as u64;
            from = row.end;
            Run { first_block: blocks.first, blocks: blocks.count, hashes_at, hashes_hash: hash_of(row) }
        });
        let mut runs: Vec<Run> = runs.collect();
        if !contents.shared.is_empty() {
            runs.extend(&self.shared);
        }
        runs.sort_unstable_by_key(|run| run.first_block);
        let lies: Vec<Blocks> = self.data.iter().copied().chain(self.shared.iter().map(Run::stretch)).collect();
        let frames = if contents.shared.is_empty() { Vec::new() } else { self.frames.clone() };
        Manifest { runs, items: contents.laid(&lies), annex: contents.annex.clone(), frames }
    }

    /// Writes `bytes` of the log, starting at `offset`, to their place in `portion`. Calls `note` with the bytes and
    /// the duration of each write.
    pub(crate) fn write(
        &self,
        portion: &Portion,
        offset: u64,
        bytes: &[u8],
        mut note: impl FnMut(u64, Duration),
    ) -> Result<()> {
        let mut rest = bytes;
        for Piece { bytes, at, .. } in self.data.pieces(offset, bytes.len() as u64) {
            let (now, later) = rest.split_at(bytes as usize);
            let begun = Instant::now();
            portion.write(at, now)?;
            note(bytes, begun.elapsed());
            rest = later;
        }
        debug_assert!(rest.is_empty(), "the log is no longer than its runs");
        Ok(())
    }

    /// The places in the portion of `bytes` bytes of the log, starting at `offset`.
    pub(crate) fn places_of(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> + '_ {
        self.data.pieces(offset, bytes)
    }

    /// The place in the portion of `bytes` bytes of the log, starting at `offset`, or of as many of them as are
    /// adjacent.
    pub(crate) fn place_of(&self, offset: u64, bytes: u64) -> Option<Piece> {
        self.data.pieces(offset, bytes).next()
    }

    /// Reads `bytes` bytes of the log, starting at `offset`, from their places in `portion`.
    pub(crate) fn read(&self, portion: &Portion, offset: u64, bytes: u64) -> Result<Aligned> {
        let mut read = Aligned::zeroed(bytes).ok_or_else(|| portion.out_of_memory(bytes))?;
        let mut rest = &mut read[..bytes as usize];
        for Piece { bytes, at } in self.data.pieces(offset, bytes) {
            let (now, later) = rest.split_at_mut(bytes as usize);
            portion.read_into(at, now)?;
            rest = later;
        }
        Ok(read)
    }

    /// All blocks of the allocation.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Blocks> + '_ {
        self.freeing.iter().chain([&self.catalogue, &self.meta]).chain(self.data.iter()).chain(&self.early).copied()
    }

    /// Whether data and metadata of `portion` may use all blocks of the allocation.
    pub(crate) fn is_inside(&self, portion: &Portion) -> bool {
        let (from, to) = portion.data_blocks();
        let is_inside =
            |Blocks { first, count }| first >= from && first.checked_add(count).is_some_and(|end| end <= to);
        self.blocks().all(is_inside)
    }

    /// Number of blocks of one of its roots.
    pub(crate) fn root_blocks(&self) -> u64 {
        self.catalogue.count + 1
    }
}

fn imagined_entry(number: u64) -> Entry {
    Entry {
        lineage: Lineage { number: u64::MAX, id: [0; 16] },
        number,
        shards: 1,
        shard: 0,
        bytes: 0,
        manifest_at: 0,
        manifest_bytes: 0,
        manifest_hash: [0; 16],
        meta_at: 0,
        meta_bytes: 0,
        phases: PhaseRecord::default(),
    }
}

/// The references of a slot.
#[derive(Clone, Copy)]
pub(super) struct Referred<'a> {
    pub(super) sequence: u64,
    pub(super) kept: &'a [Arc<Kept>],
    pub(super) catalogue: Option<Blocks>,
}

impl Referred<'_> {
    pub(super) fn blocks(&self) -> impl Iterator<Item = Blocks> + '_ {
        self.kept.iter().flat_map(|kept| kept.blocks.iter().copied()).chain(self.catalogue)
    }

    fn leads_to(&self, kept: &Kept) -> bool {
        self.kept.iter().any(|other| other.key() == kept.key())
    }
}

/// Number of blocks of a catalogue of so many `revisions`.
pub(super) fn catalogue_blocks(revisions: usize) -> u64 {
    blocks_for(Catalogue::bytes_for(revisions))
}

/// Finds room beside `retained` and the blocks `aside`, in the portion of `maps`, with as few freeing roots as
/// possible. Each freeing root overwrites the slot with the lower sequence, exactly as `Ledger::free` will write it.
///
/// Invariant: a root can always be written. Two slots have two catalogues, and the next root needs a third place. So
/// one place is reserved for each slot without a catalogue of its own, and no data gets it.
pub(super) fn allocate<'a>(
    maps: &mut FreeMaps,
    mut slots: [Referred<'a>; 2],
    retained: &'a [Arc<Kept>],
    aside: &[Blocks],
    need: Need,
) -> Option<Allocation> {
    let (mut freeing, mut freed) = (Vec::new(), 0);
    loop {
        let mut free = if mutant::is(Mutant::FreeTooEarly) {
            maps.beside(retained.iter())
        } else {
            maps.beside(slots.iter().flat_map(|slot| slot.kept))
        };
        slots.iter().filter_map(|slot| slot.catalogue).for_each(|catalogue| free.cut(catalogue));
        aside.iter().for_each(|blocks| free.cut(*blocks));
        let lower = usize::from(slots[1].sequence < slots[0].sequence);
        let newest = slots[1 - lower];
        let has_blocks = need.blocks() < free.count();
        let placed = has_blocks.then(|| place(free.clone(), slots, newest, retained, need)).flatten();
        if let Some((catalogue, meta, data)) = placed {
            let (shared, early, frames) = Default::default();
            return Some(Allocation {
                freeing,
                catalogue,
                meta,
                data: data.into(),
                shared,
                early,
                is_outline: false,
                frames,
                packing: need.packing,
            });
        }
        if freed == 2 {
            return None;
        }
        // The catalogue is long enough for any root that follows. An older build reserved nothing.
        let (long, short) = (catalogue_blocks(leading_to(newest, retained)), catalogue_blocks(retained.len()));
        let (kept, catalogue) = match free.take_high(long).or_else(|| free.take_high(short)) {
            Some(blocks) => (retained, blocks),
            // If there is no room for another catalogue, the root repeats the newest root, with the same catalogue, if
            // that drops any revision. A portion that an older build has filled to the last block has no other way.
            None => {
                let is_in_both =
                    slots[lower].catalogue == newest.catalogue && slots[lower].kept.len() == newest.kept.len();
                let lacks = retained.iter().any(|kept| !newest.leads_to(kept));
                (newest.kept, newest.catalogue.filter(|_| !is_in_both && !lacks)?)
            }
        };
        freed += usize::from(kept.len() == retained.len());
        freeing.push(catalogue);
        slots[lower] = Referred { sequence: newest.sequence + 1, kept, catalogue: Some(catalogue) };
    }
}

/// Places for the publishing root's catalogue, for metadata and for data, beside the catalogues of the roots that
/// follow.
fn place(
    mut free: FreeMap,
    slots: [Referred<'_>; 2],
    newest: Referred<'_>,
    retained: &[Arc<Kept>],
    need: Need,
) -> Option<(Blocks, Blocks, Vec<Blocks>)> {
    // The next root refers to no more revisions than that.
    let blocks = catalogue_blocks(leading_to(newest, retained) + 1);
    // The metadata comes first: it needs one stretch, and is the longest.
    let meta = free.take_high(need.meta)?;
    let catalogue = free.take_high(blocks)?;
    let reserved = (0..slots_without(slots, blocks)).map(|_| free.take_high(blocks)).collect::<Option<Vec<_>>>()?;
    let data = free.take_low(need.data)?;
    let is_apart = |one: &Blocks, other: &Blocks| one.end() <= other.first || other.end() <= one.first;
    let spares = |kept: &Blocks| data.iter().chain([&meta, &catalogue]).all(|taken| is_apart(taken, kept));
    debug_assert!(reserved.iter().all(spares), "the next root has no room for its catalogue");
    Some((catalogue, meta, data))
}

/// Number of revisions of a root that has those of `newest` and `retained`.
fn leading_to(newest: Referred<'_>, retained: &[Arc<Kept>]) -> usize {
    newest.kept.len() + retained.iter().filter(|kept| !newest.leads_to(kept)).count()
}

/// Number of slots without a catalogue of their own of `blocks` blocks.
fn slots_without(slots: [Referred<'_>; 2], blocks: u64) -> usize {
    let [one, other] = slots.map(|slot| slot.catalogue.filter(|catalogue| catalogue.count >= blocks));
    match (one, other) {
        (Some(one), Some(other)) => usize::from(one == other),
        (None, None) => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
