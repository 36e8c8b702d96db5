//! A slot: one of the two root records of a portion; one sealed block.

use super::{
    BLOCK, Hash, NUMBER_MAX, Refusal, VERSION, damaged,
    hash::{is_sealed, seal},
};
use serde::{Deserialize, Serialize};
use std::fmt;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

const MAGIC: [u8; 8] = *b"MSTYSLOT";
const CLEAN: u32 = 1;
/// No catalogue has more bytes.
const CATALOGUE_BYTES_MAX: u64 = 64 << 20;

/// The time between two failures or restarts. Later lineages have higher numbers. The id is drawn anew for each; it
/// tells apart two that could not see one another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lineage {
    pub number: u64,
    pub id: [u8; 16],
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:08x}…)", self.number, u32::from_be_bytes([self.id[0], self.id[1], self.id[2], self.id[3]]))
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SlotRecord {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    sequence: U64,
    layout_id: [u8; 16],
    rank: U32,
    reserved_1: U32,
    lineage: U64,
    lineage_id: [u8; 16],
    catalogue_at: U64,
    catalogue_bytes: U64,
    catalogue_hash: Hash,
    reserved_2: [u8; 3976],
    hash: Hash,
}

const _: () = assert!(size_of::<SlotRecord>() == BLOCK);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Orders the two slots: the newer one is higher; an invalid slot counts as 0.
    pub sequence: u64,
    pub layout_id: [u8; 16],
    pub rank: u32,
    /// The lineage that wrote it.
    pub lineage: Lineage,
    /// The writer ended normally.
    pub clean: bool,
    /// Offset in the portion, length and hash; no bytes means an empty catalogue.
    pub catalogue_at: u64,
    pub catalogue_bytes: u64,
    pub catalogue_hash: Hash,
}

impl Slot {
    pub fn build(&self) -> [u8; BLOCK] {
        assert!(self.sequence > 0 && self.catalogue_bytes <= CATALOGUE_BYTES_MAX);
        let record = SlotRecord {
            magic: MAGIC,
            version: VERSION.into(),
            flags: (if self.clean { CLEAN } else { 0 }).into(),
            sequence: self.sequence.into(),
            layout_id: self.layout_id,
            rank: self.rank.into(),
            reserved_1: 0.into(),
            lineage: self.lineage.number.into(),
            lineage_id: self.lineage.id,
            catalogue_at: self.catalogue_at.into(),
            catalogue_bytes: self.catalogue_bytes.into(),
            catalogue_hash: self.catalogue_hash,
            reserved_2: [0; 3976],
            hash: [0; 16],
        };
        let mut block: [u8; BLOCK] = zerocopy::transmute!(record);
        seal(&mut block);
        block
    }

    /// Parses a slot of the portion of `rank`, `portion_bytes` long, in the layout `layout_id`.
    pub fn parse(block: &[u8; BLOCK], layout_id: [u8; 16], rank: u32, portion_bytes: u64) -> Result<Slot, Refusal> {
        let record: &SlotRecord = zerocopy::transmute_ref!(block);
        if record.magic != MAGIC || !is_sealed(block) {
            return damaged("the slot's checksum does not match");
        }
        if record.version.get() > VERSION {
            return Err(Refusal::Newer {
                found: record.version.get(),
                known: VERSION,
                hint: "use a newer Mainstay".into(),
            });
        }
        let slot = Slot {
            sequence: record.sequence.get(),
            layout_id: record.layout_id,
            rank: record.rank.get(),
            lineage: Lineage { number: record.lineage.get(), id: record.lineage_id },
            clean: record.flags.get() & CLEAN != 0,
            catalogue_at: record.catalogue_at.get(),
            catalogue_bytes: record.catalogue_bytes.get(),
            catalogue_hash: record.catalogue_hash,
        };
        if slot.layout_id != layout_id || slot.rank != rank || slot.sequence == 0 {
            return damaged("the slot belongs to another portion");
        }
        if slot.sequence > NUMBER_MAX || slot.lineage.number > NUMBER_MAX {
            return damaged("the slot has impossible numbers");
        }
        let end = slot.catalogue_at.checked_add(slot.catalogue_bytes);
        if slot.catalogue_bytes > CATALOGUE_BYTES_MAX || end.is_none_or(|end| end > portion_bytes) {
            return damaged("the slot's catalogue is outside the portion");
        }
        Ok(slot)
    }
}
