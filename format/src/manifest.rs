//! A manifest: the list of a shard's items, each with the extents of the portion that hold its bytes. The extents are
//! in runs of blocks; each run has a row of block hashes elsewhere. A run may have been written for an older revision:
//! the manifest does not say which, and no reader needs to know.

use super::{
    Annex, BLOCK_BYTES, ElementType, Frame, HASH_BYTES, Hash, Refusal, VERSION, blocks_for, damaged,
    frame::{build_list, frames_in, parse_list},
    sections::Sections,
    sections::part,
};
use crate::Blocks;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

const MAGIC: [u8; 8] = *b"MSTYMNFT";
/// Maximum number of dimensions of an item.
pub const DIMENSIONS_MAX: usize = 32;
const PLACED: u8 = 1;
const SAME: u8 = 2;
const PROFILED: u32 = 1;
const SAVED_EARLY: u32 = 2;
const FRAMED: u32 = 4;
/// Identities of the output files come last.
const IDENTIFIED: u32 = 8;
/// The version of a manifest with stretches of zeros; others have `VERSION`.
const VERSION_WITH_ZEROS: u32 = 2;
/// The version of a manifest with frames, the newest that this build reads.
const VERSION_WITH_FRAMES: u32 = 3;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ManifestRecord {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    runs: U64,
    items: U64,
    extents: U64,
    dimensions: U64,
    name_bytes: U64,
    notes: U32,
    outputs: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RunRecord {
    first_block: U64,
    blocks: U64,
    hashes_at: U64,
    reserved: U64,
    hashes_hash: Hash,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ItemRecord {
    kind: u8,
    element: u8,
    dimensions: u8,
    flags: u8,
    name_bytes: U16,
    reserved_1: U16,
    name_at: U64,
    bytes: U64,
    first_extent: U64,
    extents: U64,
    first_dimension: U64,
    reserved_2: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ExtentRecord {
    at: U64,
    bytes: U64,
}

const _: () = assert!(size_of::<ManifestRecord>() == 64 && size_of::<RunRecord>() == 48);
const _: () = assert!(size_of::<ItemRecord>() == 56 && size_of::<ExtentRecord>() == 16);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum ItemKind {
    Region = 0,
    Object = 1,
    Stream = 2,
}

/// The place of a shard's part of an item in the whole: an n-dimensional box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceInWhole {
    pub global_shape: Vec<u64>,
    pub offset: Vec<u64>,
}

impl PlaceInWhole {
    /// Why a box of this shape is invalid here; `None` if it is valid. A valid box has fewer than 2^63 bytes in all,
    /// and so has its global array.
    pub fn refusal(&self, element: ElementType, shape: &[u64]) -> Option<String> {
        self.refusal_in("the global array", element, shape)
    }

    /// The same; `whole` is the name of the whole in messages.
    pub fn refusal_in(&self, whole: &str, element: ElementType, shape: &[u64]) -> Option<String> {
        let (global, offset) = (&self.global_shape, &self.offset);
        if global.len() != shape.len() || offset.len() != shape.len() {
            let (of, at, here) = (global.len(), offset.len(), shape.len());
            return Some(format!("{here} dimensions, {whole} has {of} and the offset {at} numbers"));
        }
        for (side, ((from, cells), all)) in offset.iter().zip(shape).zip(global).enumerate() {
            if from.checked_add(*cells).is_none_or(|end| end > *all) {
                return Some(format!("{cells} cells from {from} on along side {side}, where {whole} has {all}"));
            }
        }
        let product = global.iter().try_fold(element.size(), |total, n| total.checked_mul(*n));
        let fits = product.is_some_and(|bytes| i64::try_from(bytes).is_ok());
        (!fits).then(|| format!("{whole} has more bytes than any memory"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub name: String,
    pub kind: ItemKind,
    pub element: ElementType,
    pub bytes: u64,
    /// Number of elements in each dimension, slowest first; empty if none were given.
    pub shape: Vec<u64>,
    pub place: Option<PlaceInWhole>,
    /// The program declared that all ranks have the same bytes.
    pub same_on_all_ranks: bool,
    /// In the order of the item's bytes.
    pub extents: Vec<Extent>,
}

/// A stretch of an item's bytes: offset in the portion and length. Zeros are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub at: u64,
    pub bytes: u64,
}

impl Extent {
    /// The offset of zero bytes that are not stored: no portion is that long.
    pub const ZEROS: u64 = 1 << 63;

    pub fn is_zeros(&self) -> bool {
        self.at == Extent::ZEROS
    }
}

/// A stretch of blocks of the portion, with the place and the hash of its row of block hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Run {
    pub first_block: u64,
    pub blocks: u64,
    pub hashes_at: u64,
    pub hashes_hash: Hash,
}

impl Run {
    pub fn stretch(&self) -> Blocks {
        Blocks { first: self.first_block, count: self.blocks }
    }

    /// The place in the portion of its row of hashes.
    pub fn row(&self) -> Range<u64> {
        self.hashes_at..self.hashes_at.saturating_add(self.blocks.saturating_mul(HASH_BYTES as u64))
    }

    /// The blocks of its row.
    pub fn row_blocks(&self) -> Blocks {
        let Range { start, end } = self.row();
        let first = start / BLOCK_BYTES;
        Blocks { first, count: blocks_for(end) - first }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// In ascending order, not overlapping.
    pub runs: Vec<Run>,
    pub items: Vec<Item>,
    pub annex: Annex,
    /// The frames with blocks of the runs, ascending and not overlapping.
    pub frames: Vec<Frame>,
}

impl Manifest {
    /// Bytes of one extent.
    pub const EXTENT_BYTES: u64 = size_of::<ExtentRecord>() as u64;
    /// Size of a run, in extents.
    pub const RUN_EXTENTS: u64 = size_of::<RunRecord>() as u64 / Manifest::EXTENT_BYTES;
    /// Bytes of an item of one dimension, without its name and its extents.
    pub const ITEM_BYTES: u64 = size_of::<ItemRecord>() as u64 + 8;

    pub fn build(&self) -> Vec<u8> {
        let mut items = Vec::new();
        let count: usize = self.items.iter().map(|item| item.extents.len()).sum();
        let mut extents = Vec::with_capacity(count * size_of::<ExtentRecord>());
        let (mut dimensions, mut names) = (Vec::<U64>::new(), Vec::new());
        for item in &self.items {
            let record = ItemRecord {
                kind: item.kind as u8,
                element: item.element as u8,
                dimensions: item.shape.len() as u8,
                flags: if item.place.is_some() { PLACED } else { 0 } | if item.same_on_all_ranks { SAME } else { 0 },
                name_bytes: (item.name.len() as u16).into(),
                reserved_1: 0.into(),
                name_at: (names.len() as u64).into(),
                bytes: item.bytes.into(),
                first_extent: ((extents.len() / size_of::<ExtentRecord>()) as u64).into(),
                extents: (item.extents.len() as u64).into(),
                first_dimension: (dimensions.len() as u64).into(),
                reserved_2: 0.into(),
            };
            items.extend_from_slice(record.as_bytes());
            names.extend_from_slice(item.name.as_bytes());
            dimensions.extend(item.shape.iter().map(|d| U64::new(*d)));
            if let Some(place) = &item.place {
                dimensions.extend(place.global_shape.iter().chain(&place.offset).map(|d| U64::new(*d)));
            }
            for extent in &item.extents {
                let record = ExtentRecord { at: extent.at.into(), bytes: extent.bytes.into() };
                extents.extend_from_slice(record.as_bytes());
            }
        }
        let flags = if self.annex.profile.is_some() { PROFILED } else { 0 };
        let flags = flags | if self.annex.saved_early.is_some() { SAVED_EARLY } else { 0 };
        let flags = flags | if self.frames.is_empty() { 0 } else { FRAMED };
        let flags = flags | if self.annex.has_identities() { IDENTIFIED } else { 0 };
        let version = match self.has_zeros() {
            _ if !self.frames.is_empty() => VERSION_WITH_FRAMES,
            true => VERSION_WITH_ZEROS,
            false => VERSION,
        };
        let head = ManifestRecord {
            magic: MAGIC,
            version: version.into(),
            flags: flags.into(),
            runs: (self.runs.len() as u64).into(),
            items: (self.items.len() as u64).into(),
            extents: ((extents.len() / size_of::<ExtentRecord>()) as u64).into(),
            dimensions: (dimensions.len() as u64).into(),
            name_bytes: (names.len() as u64).into(),
            notes: (self.annex.notes.len() as u32).into(),
            outputs: (self.annex.outputs.len() as u32).into(),
        };
        let mut bytes = head.as_bytes().to_vec();
        bytes.reserve(self.runs.len() * size_of::<RunRecord>() + items.len() + extents.len());
        for run in &self.runs {
            let record = RunRecord {
                first_block: run.first_block.into(),
                blocks: run.blocks.into(),
                hashes_at: run.hashes_at.into(),
                reserved: 0.into(),
                hashes_hash: run.hashes_hash,
            };
            bytes.extend_from_slice(record.as_bytes());
        }
        bytes.extend_from_slice(&items);
        bytes.extend_from_slice(&extents);
        bytes.extend_from_slice(dimensions.as_bytes());
        bytes.extend_from_slice(&names);
        bytes.extend_from_slice(&self.annex.build());
        if !self.frames.is_empty() {
            bytes.extend_from_slice(&build_list(&self.frames));
        }
        if self.annex.has_identities() {
            bytes.extend_from_slice(&self.annex.build_identities());
        }
        bytes
    }

    fn has_zeros(&self) -> bool {
        self.items.iter().flat_map(|item| &item.extents).any(Extent::is_zeros)
    }

    /// Maximum bytes of a manifest of so many runs for these items, if each item has one extent in a run.
    pub fn bytes_at_most(items: &[(usize, usize)], annex: &Annex, runs: usize) -> u64 {
        // Neighbouring items share a run, so each further run splits at most one item.
        let extents = items.len() + runs;
        let each: usize = items.iter().map(|(name, dims)| size_of::<ItemRecord>() + name + 3 * 8 * dims).sum();
        let fixed = size_of::<ManifestRecord>() + runs * size_of::<RunRecord>() + extents * size_of::<ExtentRecord>();
        (each + fixed) as u64 + annex.bytes_at_most()
    }

    /// Whether some of these bytes are stored compressed.
    pub fn is_compressed(&self, extent: &Extent) -> bool {
        let first = extent.at / BLOCK_BYTES;
        let stretch = Blocks { first, count: blocks_for(extent.at.saturating_add(extent.bytes)).saturating_sub(first) };
        !extent.is_zeros() && !frames_in(&self.frames, stretch).is_empty()
    }

    /// Bytes of all blocks that are stored compressed, and of the blocks that hold the compressed bytes.
    pub fn compressed_bytes(&self) -> (u64, u64) {
        let sum = |of: fn(&Frame) -> u64| self.frames.iter().map(of).sum::<u64>() * BLOCK_BYTES;
        (sum(|frame| frame.blocks), sum(|frame| frame.stored_blocks))
    }

    /// Bytes of the blocks that both manifests refer to, in one portion.
    pub fn shared_bytes(&self, other: &Manifest) -> u64 {
        let (mut blocks, mut others) = (0, other.runs.iter().peekable());
        for run in &self.runs {
            let (from, to) = (run.first_block, run.first_block + run.blocks);
            while others.next_if(|other| other.first_block + other.blocks <= from).is_some() {}
            // The last of them may reach into the next run.
            for other in others.clone().take_while(|other| other.first_block < to) {
                blocks += to.min(other.first_block + other.blocks) - from.max(other.first_block);
            }
        }
        blocks * BLOCK_BYTES
    }

    /// Parses a manifest of a portion of `portion_bytes`; the caller has checked its hash.
    pub fn parse(bytes: &[u8], portion_bytes: u64) -> Result<Manifest, Refusal> {
        // A portion has room for its whole shard.
        Manifest::parse_with_zeros(bytes, portion_bytes, portion_bytes)
    }

    /// The same, with zeros of at most `zeros_max` bytes.
    pub fn parse_with_zeros(bytes: &[u8], portion_bytes: u64, zeros_max: u64) -> Result<Manifest, Refusal> {
        let mut sections = Sections::new(bytes, "manifest");
        let head: &ManifestRecord = sections.record()?;
        if head.magic != MAGIC {
            return damaged("the manifest does not begin as one");
        }
        let (found, known) = (head.version.get(), VERSION_WITH_FRAMES);
        if found > known {
            return Err(Refusal::Newer { found, known, hint: "use a newer Mainstay".into() });
        }
        let zeros_left = if found < VERSION_WITH_ZEROS { 0 } else { zeros_max };
        let runs = sections.table::<RunRecord>(head.runs.get())?;
        let items = sections.table::<ItemRecord>(head.items.get())?;
        let extents = sections.table::<ExtentRecord>(head.extents.get())?;
        let dimensions = sections.table::<U64>(head.dimensions.get())?;
        let names = sections.table::<u8>(head.name_bytes.get())?;
        let has = [PROFILED, SAVED_EARLY].map(|flag| head.flags.get() & flag != 0);
        let mut annex = Annex::parse(&mut sections, head.notes.get(), head.outputs.get(), has)?;
        let is_framed = found >= VERSION_WITH_FRAMES && head.flags.get() & FRAMED != 0;
        let frames = if is_framed { parse_list(&mut sections, portion_bytes)? } else { Vec::new() };
        if head.flags.get() & IDENTIFIED != 0 {
            annex.parse_identities(&mut sections)?;
        }

        let runs = check_runs(runs, portion_bytes)?;
        let mut tables = Tables { runs: &runs, extents, dimensions, names, used: [0; 3], zeros_left };
        let items = items.iter().map(|record| Item::check(record, &mut tables)).collect::<Result<_, _>>()?;
        Ok(Manifest { runs, items, annex, frames })
    }
}

fn check_runs(records: &[RunRecord], portion_bytes: u64) -> Result<Vec<Run>, Refusal> {
    let (mut runs, mut free_from) = (Vec::with_capacity(records.len()), 0);
    for r in records {
        let run = Run {
            first_block: r.first_block.get(),
            blocks: r.blocks.get(),
            hashes_at: r.hashes_at.get(),
            hashes_hash: r.hashes_hash,
        };
        let end = run.first_block.checked_add(run.blocks).filter(|end| *end <= portion_bytes / BLOCK_BYTES);
        // The product cannot overflow, because the run is inside the portion.
        let hashes_end = end.and_then(|_| run.hashes_at.checked_add(run.blocks * HASH_BYTES as u64));
        if run.first_block < free_from || run.blocks == 0 || hashes_end.is_none_or(|end| end > portion_bytes) {
            return damaged("a run of the manifest is outside the portion");
        }
        free_from = run.first_block + run.blocks;
        runs.push(run);
    }
    Ok(runs)
}

/// The tables that the items of a manifest refer to. Items use up the tables in order, so a hostile manifest cannot
/// refer to one long part many times.
struct Tables<'a> {
    runs: &'a [Run],
    extents: &'a [ExtentRecord],
    dimensions: &'a [U64],
    names: &'a [u8],
    /// Extents, dimensions and name bytes used by earlier items.
    used: [u64; 3],
    /// Zero bytes that later items may still have: nothing else limits them.
    zeros_left: u64,
}

impl Tables<'_> {
    fn take(&mut self, which: usize, first: u64, count: u64) -> Result<(), Refusal> {
        if self.used[which] != first {
            return damaged("the items of the manifest do not follow one another");
        }
        self.used[which] = first.saturating_add(count);
        Ok(())
    }
}

impl Item {
    fn check(r: &ItemRecord, tables: &mut Tables<'_>) -> Result<Item, Refusal> {
        tables.take(0, r.first_extent.get(), r.extents.get())?;
        tables.take(2, r.name_at.get(), r.name_bytes.get().into())?;
        let name = part(tables.names, r.name_at.get(), r.name_bytes.get().into(), "an item's name")?;
        let Ok(name) = String::from_utf8(name.to_vec()) else {
            return damaged("an item's name is not text");
        };
        let kind = match r.kind {
            0 => ItemKind::Region,
            1 => ItemKind::Object,
            2 => ItemKind::Stream,
            other => return damaged(format!("item {name:?} is of the unknown kind {other}")),
        };
        let Some(element) = ElementType::from_code(r.element.into()) else {
            return damaged(format!("item {name:?} has the unknown element type {}", r.element));
        };
        let count = usize::from(r.dimensions);
        if count > DIMENSIONS_MAX {
            return damaged(format!("item {name:?} has {count} dimensions"));
        }
        let placed = r.flags & PLACED != 0;
        let numbers = if placed { 3 * count } else { count } as u64;
        tables.take(1, r.first_dimension.get(), numbers)?;
        let all = part(tables.dimensions, r.first_dimension.get(), numbers, "a shape")?;
        let all: Vec<u64> = all.iter().map(|d| d.get()).collect();
        let place = placed
            .then(|| PlaceInWhole { global_shape: all[count..2 * count].to_vec(), offset: all[2 * count..].to_vec() });

        let records = part(tables.extents, r.first_extent.get(), r.extents.get(), "an item's extents")?;
        let extents: Vec<Extent> = records.iter().map(|e| Extent { at: e.at.get(), bytes: e.bytes.get() }).collect();
        let mut total = 0_u64;
        for extent in &extents {
            total = total.saturating_add(extent.bytes);
            if extent.is_zeros() && extent.bytes <= tables.zeros_left {
                tables.zeros_left -= extent.bytes;
                continue;
            }
            if !is_in_runs(extent, tables.runs) {
                return damaged(format!("item {name:?} has bytes outside the manifest's runs"));
            }
        }
        if total != r.bytes.get() {
            return damaged(format!("item {name:?} has {total} bytes in extents instead of {}", r.bytes.get()));
        }
        let shape = &all[..count];
        if let Some(place) = &place {
            if let Some(why) = place.refusal(element, shape) {
                return damaged(format!("item {name:?} has an impossible place: {why}"));
            }
            // The product cannot overflow: the box is no larger than its global array, which was checked.
            let cells: u64 = shape.iter().product();
            if cells * element.size() != total {
                return damaged(format!("item {name:?} has {total} bytes in a box of {cells} elements"));
            }
        }
        let same_on_all_ranks = r.flags & SAME != 0;
        let shape = all[..count].to_vec();
        Ok(Item { name, kind, element, bytes: total, shape, place, same_on_all_ranks, extents })
    }
}

fn is_in_runs(extent: &Extent, runs: &[Run]) -> bool {
    let after = runs.partition_point(|run| run.first_block * BLOCK_BYTES <= extent.at);
    let Some(run) = after.checked_sub(1).map(|i| runs[i]) else { return false };
    let end = extent.at.checked_add(extent.bytes);
    end.is_some_and(|end| blocks_for(end) <= run.first_block + run.blocks)
}
