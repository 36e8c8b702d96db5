//! A space: a layout that Mainstay has written, with patches and with correct checksums. Each reader of a space reads it.

use super::blocks::{repair_header, u32_at};
use crate::{
    MemoryMax, Target,
    patches::Patched,
    program::{Memory, config},
    promises::told,
    scratch::scratch,
};
use mainstay_engine::{Reader, Session, SpaceSurvey, group::Solo};
use mainstay_format::{BLOCK, HASH_BYTES, hash};
use std::{fs, ops::Range, path::Path, sync::LazyLock};

pub(super) static TARGETS: [Target; 2] =
    [Target::new("space", space, 800).with_memory(SPACE), Target::new("job", job, 300).with_memory(SPACE)];

/// The reader of a space holds blocks and rows of hashes.
pub(super) const SPACE: MemoryMax = MemoryMax { fixed: 32 << 20, for_each: 64 };

const NAME: &str = "layout-000001-000000-00000000.mainstay";
/// The image of the layout, beside the kept inputs.
pub(crate) const IMAGE: &str = "space.image";
static LAYOUT: LazyLock<Patched> = LazyLock::new(|| Patched::of_image(IMAGE));

/// Bytes of an item that are read at once.
const PART_BYTES: usize = 8 << 10;

/// Makes a space with this layout, patched, in `folder`.
pub(super) fn make(folder: &Path, layout: &Patched, patches: &[u8]) {
    let mut layout = layout.with(patches);
    repair(&mut layout);
    // The last input has left other files.
    drop(fs::remove_dir_all(folder));
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(NAME), layout).unwrap();
    fs::write(folder.join("lock"), []).unwrap();
}

fn space(patches: &[u8]) {
    let folder = scratch("space");
    make(&folder, &LAYOUT, patches);
    let Some(survey) = told(SpaceSurvey::open(&folder)) else { return };
    for revision in &survey.revisions {
        told(revision.verify(&|_| ()));
        revision.shards.iter().for_each(|shard| drop(told(shard.manifest())));
    }
    let Some(mut reader) = told(Reader::open(&folder, None, "")) else { return };
    let items = told(reader.items(0)).map_or(Vec::new(), <[_]>::to_vec);
    let mut part = [0; PART_BYTES];
    for item in items {
        for at in [0, item.bytes / 2, item.bytes.saturating_sub(1)] {
            told(reader.read(0, &item.name, at, &mut part));
        }
        told(reader.hashes(0, &item.name, 0, &mut [None; 4]));
    }
}

/// The program restores its state, and saves it again.
fn job(patches: &[u8]) {
    let (folder, mut memory) = (scratch("job"), Memory::new(20));
    make(&folder, &LAYOUT, patches);
    fs::create_dir_all(config().pool_directory).unwrap();
    let Some(mut session) = told(Session::open(Box::new(Solo), &folder, config())) else { return };
    told(memory.protect(&mut session));
    told(session.restore());
    told(session.checkpoint());
    told(session.close());
}

/// Offsets in the records of a layout.
mod at {
    pub const PORTIONS: usize = 52;
    pub const SLOT_STRIDE: usize = 72;
    pub const PORTION: usize = 8;
    pub const CATALOGUE: usize = 72;
    pub const CATALOGUE_HASH: usize = 88;
    pub const ENTRY_MANIFEST: usize = 56;
    pub const ENTRY_HASH: usize = 72;
    pub const RUNS: usize = 16;
    pub const RUN_HASHES: usize = 16;
    pub const RUN_HASH: usize = 32;
}
const PORTION_RECORD: usize = 24;
const CATALOGUE_HEAD: usize = 16;
const ENTRY_RECORD: usize = 256;
const MANIFEST_HEAD: usize = 64;
const RUN_RECORD: usize = 48;
/// Entries, runs and blocks that are repaired in a list, at most.
const REPAIRED_MAX: usize = 64;

/// Makes all checksums right again, those of the data first.
fn repair(file: &mut Vec<u8>) {
    let portions = (u32_at(file, at::PORTIONS) as usize).min(4);
    for number in 0..portions {
        let record = BLOCK + number * PORTION_RECORD;
        let Some(portion) = stretch(file, 0, record + at::PORTION) else { continue };
        for slot in [0, u64_at(file, at::SLOT_STRIDE)] {
            let slot = portion.start + slot as usize % portion.len().max(1);
            repair_slot(file, portion.start, slot);
        }
    }
    repair_header(file);
}

fn repair_slot(file: &mut [u8], portion: usize, slot: usize) {
    if let Some(catalogue) = stretch(file, portion, slot + at::CATALOGUE) {
        let entries = catalogue.len().saturating_sub(CATALOGUE_HEAD) / ENTRY_RECORD;
        for entry in (0..entries.min(REPAIRED_MAX)).map(|entry| catalogue.start + CATALOGUE_HEAD + entry * ENTRY_RECORD)
        {
            if let Some(manifest) = stretch(file, portion, entry + at::ENTRY_MANIFEST) {
                repair_runs(file, portion, manifest.clone());
                put_hash(file, manifest, entry + at::ENTRY_HASH);
            }
        }
        put_hash(file, catalogue, slot + at::CATALOGUE_HASH);
    }
    put_hash(file, slot..slot + BLOCK - HASH_BYTES, slot + BLOCK - HASH_BYTES);
}

fn repair_runs(file: &mut [u8], portion: usize, manifest: Range<usize>) {
    let runs = (u64_at(file, manifest.start + at::RUNS) as usize).min(REPAIRED_MAX);
    for run in (0..runs).map(|run| manifest.start + MANIFEST_HEAD + run * RUN_RECORD) {
        let [first, blocks, row] = [0, 8, at::RUN_HASHES].map(|at| u64_at(file, run + at) as usize);
        let row_at = portion.saturating_add(row);
        for block in 0..blocks.min(REPAIRED_MAX) {
            let data = portion.saturating_add(first.saturating_add(block).saturating_mul(BLOCK));
            put_hash(file, data..data.saturating_add(BLOCK), row_at.saturating_add(block * HASH_BYTES));
        }
        put_hash(file, row_at..row_at.saturating_add(blocks.saturating_mul(HASH_BYTES)), run + at::RUN_HASH);
    }
}

/// The stretch whose offset and length are the two numbers at `at`, if the file has it.
fn stretch(file: &[u8], portion: usize, at: usize) -> Option<Range<usize>> {
    let from = portion.checked_add(u64_at(file, at) as usize)?;
    let stretch = from..from.checked_add(u64_at(file, at + 8) as usize)?;
    file.get(stretch.clone()).map(|_| stretch)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |number| u64::from_le_bytes(*number))
}

fn put_hash(file: &mut [u8], of: Range<usize>, at: usize) {
    let Some(sum) = file.get(of).map(hash) else { return };
    if let Some(place) = at.checked_add(HASH_BYTES).and_then(|end| file.get_mut(at..end)) {
        place.copy_from_slice(&sum);
    }
}
