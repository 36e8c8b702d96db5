//! A catalogue: the list of all revisions that a portion keeps. The slot holds its hash.

use super::{BLOCK_BYTES, Hash, Lineage, NUMBER_MAX, Refusal, VERSION, damaged, hash, sections::Sections};
use serde::{Deserialize, Serialize};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

const MAGIC: [u8; 8] = *b"MSTYCATL";
/// More revisions than any portion keeps.
const ENTRIES_MAX: u32 = 4096;
/// No manifest has more bytes: it would list some ten million items.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 30;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CatalogueRecord {
    magic: [u8; 8],
    version: U32,
    entries: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EntryRecord {
    lineage: U64,
    lineage_id: [u8; 16],
    number: U64,
    shards: U32,
    shard: U32,
    flags: U32,
    reserved_1: U32,
    bytes: U64,
    manifest_at: U64,
    manifest_bytes: U64,
    manifest_hash: Hash,
    meta_at: U64,
    meta_bytes: U64,
    phases: PhasesRecord,
    reserved_2: [u8; 64],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PhasesRecord {
    t1_unix_ns: U64,
    communication_ns: U64,
    buffer_wait_ns: U64,
    copy_ns: U64,
    perceived_ns: U64,
    durable_ns: U64,
    written_bytes: U64,
    chunks: U64,
    writes: U64,
    resume_ns: U64,
    step: U64,
}

const _: () = assert!(size_of::<EntryRecord>() == 256 && size_of::<CatalogueRecord>() == 16);

/// Start, step and times of one rank's part of a checkpoint; `other` is the rest of `perceived`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// t1, nanoseconds since 1970.
    pub t1_unix_ns: u64,
    /// The program's step; 0: none, or an earlier Mainstay saved it.
    #[serde(default)]
    pub step: u64,
    /// Time of the all-reduce at t1.
    pub communication_ns: u64,
    /// Time that the program waited for free chunks of the pool.
    pub buffer_wait_ns: u64,
    /// Time of copying into buffers, including the writes for which the program waited meanwhile: those of pieces that
    /// bypass the buffer and of a rank's own buffer; with the stage `direct`, all writes.
    pub copy_ns: u64,
    /// t2 − t1; 0 while unknown.
    pub perceived_ns: u64,
    /// t3 − t1; 0 while unknown.
    pub durable_ns: u64,
    /// Bytes written to the portion: data and metadata.
    pub written_bytes: u64,
    pub chunks: u64,
    pub writes: u64,
    /// Phase 3: from the last byte staged to t2.
    pub resume_ns: u64,
}

impl PhaseRecord {
    fn record(&self) -> PhasesRecord {
        PhasesRecord {
            t1_unix_ns: self.t1_unix_ns.into(),
            communication_ns: self.communication_ns.into(),
            buffer_wait_ns: self.buffer_wait_ns.into(),
            copy_ns: self.copy_ns.into(),
            perceived_ns: self.perceived_ns.into(),
            durable_ns: self.durable_ns.into(),
            written_bytes: self.written_bytes.into(),
            chunks: self.chunks.into(),
            writes: self.writes.into(),
            resume_ns: self.resume_ns.into(),
            step: self.step.into(),
        }
    }

    fn of(record: &PhasesRecord) -> PhaseRecord {
        PhaseRecord {
            t1_unix_ns: record.t1_unix_ns.get(),
            step: record.step.get(),
            communication_ns: record.communication_ns.get(),
            buffer_wait_ns: record.buffer_wait_ns.get(),
            copy_ns: record.copy_ns.get(),
            perceived_ns: record.perceived_ns.get(),
            durable_ns: record.durable_ns.get(),
            written_bytes: record.written_bytes.get(),
            chunks: record.chunks.get(),
            writes: record.writes.get(),
            resume_ns: record.resume_ns.get(),
        }
    }

    pub fn other_ns(&self) -> u64 {
        let named = [self.communication_ns, self.buffer_wait_ns, self.copy_ns, self.resume_ns];
        named.iter().fold(self.perceived_ns, |rest, phase| rest.saturating_sub(*phase))
    }
}

/// One shard of one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub lineage: Lineage,
    pub number: u64,
    /// Number of shards of a complete revision.
    pub shards: u32,
    pub shard: u32,
    /// Bytes of all items.
    pub bytes: u64,
    /// Offset in the portion, length and hash of the manifest.
    pub manifest_at: u64,
    pub manifest_bytes: u64,
    pub manifest_hash: Hash,
    /// The blocks that hold the hashes and the manifest: offset in the portion and length.
    pub meta_at: u64,
    pub meta_bytes: u64,
    pub phases: PhaseRecord,
}

/// The entries of a catalogue, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    pub entries: Vec<Entry>,
}

impl Catalogue {
    pub const fn bytes_for(entries: usize) -> u64 {
        (size_of::<CatalogueRecord>() + entries * size_of::<EntryRecord>()) as u64
    }

    pub fn build(&self) -> Vec<u8> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let head =
            CatalogueRecord { magic: MAGIC, version: VERSION.into(), entries: (self.entries.len() as u32).into() };
        let mut bytes = head.as_bytes().to_vec();
        for entry in &self.entries {
            bytes.extend_from_slice(entry.record().as_bytes());
        }
        bytes
    }

    /// Parses the catalogue of a portion of `portion_bytes`; `expected`: its hash in the slot.
    pub fn parse(bytes: &[u8], expected: &Hash, portion_bytes: u64) -> Result<Catalogue, Refusal> {
        if bytes.is_empty() {
            return Ok(Catalogue::default());
        }
        if hash(bytes) != *expected {
            return damaged("the checksum of the catalogue does not match");
        }
        let mut sections = Sections::new(bytes, "catalogue");
        let head: &CatalogueRecord = sections.record()?;
        if head.magic != MAGIC {
            return damaged("the catalogue does not begin as one");
        }
        if head.version.get() > VERSION {
            return Err(Refusal::Newer {
                found: head.version.get(),
                known: VERSION,
                hint: "use a newer Mainstay".into(),
            });
        }
        if head.entries.get() > ENTRIES_MAX {
            return damaged(format!("the catalogue lists {} revisions", head.entries));
        }
        let records = sections.table::<EntryRecord>(head.entries.get().into())?;
        let entries = records.iter().map(|r| Entry::check(r, portion_bytes)).collect::<Result<_, _>>()?;
        Ok(Catalogue { entries })
    }
}

impl Entry {
    fn record(&self) -> EntryRecord {
        EntryRecord {
            lineage: self.lineage.number.into(),
            lineage_id: self.lineage.id,
            number: self.number.into(),
            shards: self.shards.into(),
            shard: self.shard.into(),
            flags: 0.into(),
            reserved_1: 0.into(),
            bytes: self.bytes.into(),
            manifest_at: self.manifest_at.into(),
            manifest_bytes: self.manifest_bytes.into(),
            manifest_hash: self.manifest_hash,
            meta_at: self.meta_at.into(),
            meta_bytes: self.meta_bytes.into(),
            phases: self.phases.record(),
            reserved_2: [0; 64],
        }
    }

    fn check(r: &EntryRecord, portion_bytes: u64) -> Result<Entry, Refusal> {
        let entry = Entry {
            lineage: Lineage { number: r.lineage.get(), id: r.lineage_id },
            number: r.number.get(),
            shards: r.shards.get(),
            shard: r.shard.get(),
            bytes: r.bytes.get(),
            manifest_at: r.manifest_at.get(),
            manifest_bytes: r.manifest_bytes.get(),
            manifest_hash: r.manifest_hash,
            meta_at: r.meta_at.get(),
            meta_bytes: r.meta_bytes.get(),
            phases: PhaseRecord::of(&r.phases),
        };
        if entry.number > NUMBER_MAX || entry.lineage.number > NUMBER_MAX {
            return damaged(format!("revision {} has impossible numbers", entry.number));
        }
        let meta_end = entry.meta_at.checked_add(entry.meta_bytes).filter(|end| *end <= portion_bytes);
        let manifest_end = entry.manifest_at.checked_add(entry.manifest_bytes);
        let aligned = entry.meta_at.is_multiple_of(BLOCK_BYTES) && entry.meta_bytes.is_multiple_of(BLOCK_BYTES);
        if meta_end.is_none()
            || entry.manifest_bytes > MANIFEST_BYTES_MAX
            || !aligned
            || entry.manifest_at < entry.meta_at
            || manifest_end.is_none_or(|end| Some(end) > meta_end)
            || entry.shard >= entry.shards
        {
            return damaged(format!("the entry of revision {} points outside the portion", entry.number));
        }
        Ok(entry)
    }
}
