//! The header of a layout's file: one sealed block and the table of the portions in that file.

use super::{
    BLOCK, BLOCK_BYTES, Hash, NUMBER_MAX, Refusal, VERSION, damaged, hash,
    hash::{is_sealed, seal},
    sections::Sections,
};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

const MAGIC: [u8; 8] = *b"MAINSTAY";
/// More portions than any machine has ranks; limits the memory that a hostile header can ask for.
const PORTIONS_MAX: u32 = 1 << 24;
/// The optional feature of a layout with portions of a size set by a user.
const SIZED: u32 = 1;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderRecord {
    format: FormatRecord,
    layout_id: [u8; 16],
    layout_number: U64,
    ranks: U32,
    portions: U32,
    table_hash: Hash,
    slot_stride: U64,
    holds_at: U64,
    holds_bytes: U64,
    file_bytes: U64,
    created_unix_ns: U64,
    space_id: [u8; 16],
    reserved: [u8; 3952],
    hash: Hash,
}

/// The magic number, the version and the hash of a header have the same places in all versions.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FormatRecord {
    magic: [u8; 8],
    version: U32,
    features_required: U32,
    features_optional: U32,
    block_bytes: U32,
}

const _: () = assert!(size_of::<HeaderRecord>() == BLOCK);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PortionRecord {
    rank: U32,
    flags: U32,
    at: U64,
    bytes: U64,
}

/// The header of one file of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The same in all files of a layout.
    pub layout_id: [u8; 16],
    /// Newer layouts of a space have higher numbers.
    pub layout_number: u64,
    /// Number of ranks of the job that the layout was made for.
    pub ranks: u32,
    /// Distance of a portion's two slots, in bytes.
    pub slot_stride: u64,
    /// The place for holds: offset and length in the file.
    pub holds_at: u64,
    pub holds_bytes: u64,
    pub file_bytes: u64,
    pub created_unix_ns: u64,
    /// For a file in a level's directory, the space that the level belongs to; zeros in a space itself, and in files
    /// made before it was recorded.
    pub space_id: [u8; 16],
    /// A user has set the size of the portions; otherwise the first checkpoint of a job did, or an older version.
    pub is_sized: bool,
    /// The portions in this file, ordered by rank.
    pub portions: Vec<PortionPlace>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortionPlace {
    pub rank: u32,
    /// Offset and length in the file.
    pub at: u64,
    pub bytes: u64,
}

impl Header {
    /// Bytes of a header with so many portions, a multiple of the block.
    pub fn bytes_for(portions: usize) -> u64 {
        BLOCK_BYTES + ((portions * size_of::<PortionRecord>()) as u64).next_multiple_of(BLOCK_BYTES)
    }

    pub fn build(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::bytes_for(self.portions.len()) as usize];
        let (block, table) = bytes.split_at_mut(BLOCK);
        for (place, record) in self.portions.iter().zip(table.chunks_exact_mut(size_of::<PortionRecord>())) {
            let portion = PortionRecord {
                rank: place.rank.into(),
                flags: 0.into(),
                at: place.at.into(),
                bytes: place.bytes.into(),
            };
            record.copy_from_slice(portion.as_bytes());
        }
        let record = HeaderRecord {
            format: FormatRecord {
                magic: MAGIC,
                version: VERSION.into(),
                features_required: 0.into(),
                features_optional: (if self.is_sized { SIZED } else { 0 }).into(),
                block_bytes: (BLOCK as u32).into(),
            },
            layout_id: self.layout_id,
            layout_number: self.layout_number.into(),
            ranks: self.ranks.into(),
            portions: (self.portions.len() as u32).into(),
            table_hash: hash(table),
            slot_stride: self.slot_stride.into(),
            holds_at: self.holds_at.into(),
            holds_bytes: self.holds_bytes.into(),
            file_bytes: self.file_bytes.into(),
            created_unix_ns: self.created_unix_ns.into(),
            space_id: self.space_id,
            reserved: [0; 3952],
            hash: [0; 16],
        };
        let mut sealed: [u8; BLOCK] = zerocopy::transmute!(record);
        seal(&mut sealed);
        block.copy_from_slice(&sealed);
        bytes
    }

    /// Bytes of the portion table after the header's block; the caller reads them and passes them to `parse`.
    pub fn table_bytes(block: &[u8; BLOCK]) -> Result<usize, Refusal> {
        let record = check(block)?;
        Ok(Self::bytes_for(record.portions.get() as usize) as usize - BLOCK)
    }

    pub fn parse(block: &[u8; BLOCK], table: &[u8]) -> Result<Header, Refusal> {
        let record = check(block)?;
        if hash(table) != record.table_hash {
            return damaged("the checksum of the portion table does not match");
        }
        let records = Sections::new(table, "portion table").table::<PortionRecord>(record.portions.get().into())?;
        let header = Header {
            layout_id: record.layout_id,
            layout_number: record.layout_number.get(),
            ranks: record.ranks.get(),
            slot_stride: record.slot_stride.get(),
            holds_at: record.holds_at.get(),
            holds_bytes: record.holds_bytes.get(),
            file_bytes: record.file_bytes.get(),
            created_unix_ns: record.created_unix_ns.get(),
            space_id: record.space_id,
            is_sized: record.format.features_optional.get() & SIZED != 0,
            portions: records
                .iter()
                .map(|p| PortionPlace { rank: p.rank.get(), at: p.at.get(), bytes: p.bytes.get() })
                .collect(),
        };
        header.check_geometry()?;
        Ok(header)
    }

    fn check_geometry(&self) -> Result<(), Refusal> {
        if self.layout_number > NUMBER_MAX {
            return damaged("the header has impossible values");
        }
        if self.slot_stride < 16 * BLOCK_BYTES
            || self.slot_stride > 1 << 40
            || !self.slot_stride.is_multiple_of(BLOCK_BYTES)
        {
            return damaged(format!("slots {} bytes apart", self.slot_stride));
        }
        let head = Self::bytes_for(self.portions.len());
        let data_from = self.holds_at.checked_add(self.holds_bytes).filter(|_| self.holds_at >= head);
        let Some(data_from) = data_from else {
            return damaged("the holds overlap the header");
        };
        let mut before: Option<&PortionPlace> = None;
        for place in &self.portions {
            let end = place.at.checked_add(place.bytes).filter(|end| *end <= self.file_bytes);
            let aligned = place.at.is_multiple_of(BLOCK_BYTES) && place.bytes.is_multiple_of(BLOCK_BYTES);
            if end.is_none()
                || !aligned
                || place.at < data_from
                || place.bytes <= 2 * self.slot_stride
                || place.rank >= self.ranks
            {
                return damaged(format!("the portion of rank {} is outside its part of the file", place.rank));
            }
            if before.is_some_and(|b| b.rank >= place.rank || b.at + b.bytes > place.at) {
                return damaged(format!("the portion of rank {} overlaps another", place.rank));
            }
            before = Some(place);
        }
        Ok(())
    }
}

fn check(block: &[u8; BLOCK]) -> Result<&HeaderRecord, Refusal> {
    let record: &HeaderRecord = zerocopy::transmute_ref!(block);
    if record.format.magic != MAGIC {
        return Err(Refusal::Foreign("it does not begin as a layout does".into()));
    }
    // The version and the seal have the same place in all versions.
    let (found, whole) = (record.format.version.get(), is_sealed(block));
    if found > VERSION {
        let hint = if whole {
            "use a newer Mainstay"
        } else {
            "use a newer Mainstay, if this is not damage: the checksum does not match"
        };
        return Err(Refusal::Newer { found, known: VERSION, hint: hint.into() });
    }
    if !whole {
        return damaged("the checksum of the header does not match");
    }
    if record.format.features_required.get() != 0 {
        let hint = format!(
            "it needs features {:#x} that this build lacks; use a newer Mainstay",
            record.format.features_required.get()
        );
        return Err(Refusal::Newer { found, known: VERSION, hint });
    }
    if found == 0 || record.format.block_bytes.get() != BLOCK as u32 || record.portions.get() > PORTIONS_MAX {
        return damaged("the header has impossible values");
    }
    Ok(record)
}
