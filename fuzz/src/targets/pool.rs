//! A pool with the record of a killed rank: files that Mainstay has written, with patches and with correct checksums. Each is
//! salvaged into the space of its job.

use super::{
    blocks::u32_at,
    space::{SPACE, make},
};
use crate::{Target, patches::Patched, promises::told, scratch::scratch};
use mainstay_engine::fuzzing;
use mainstay_format::{BLOCK, HASH_BYTES, Hashing, hash};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::LazyLock,
};

pub(super) static TARGETS: [Target; 1] = [Target::new("pool", pool, 800).with_memory(SPACE)];

/// The images of the pool, of a record, and of the space, beside the kept inputs.
pub(crate) const IMAGES: [&str; 3] = ["pool.image", "record.image", "staged.image"];

static FILES: LazyLock<[Patched; 3]> = LazyLock::new(|| IMAGES.map(Patched::of_image));

/// Offsets in the files.
mod at {
    pub const ID: usize = 16;
    pub const CONSTANTS_HASH: usize = 72;
    pub const NOTE: usize = 1024;
    pub const OWNER_HASH: usize = 40;
    pub const SHARD: usize = 1024;
    pub const SEGMENTS_MAX: usize = 8;
    pub const SEGMENTS: usize = 12;
    pub const ROWS_BYTES: usize = 16;
    pub const PLAN_BYTES: usize = 24;
    pub const SEAL: usize = 32;
}
const OWNER_BYTES: usize = 56;
const SEGMENT_BYTES: usize = 24;

/// Whether a job was stopped between t2 and t3: its record is sealed, and its space has the revision before.
pub(crate) fn is_staged([pool, record, layout]: &[Vec<u8>; 3]) -> bool {
    const SEALED: u32 = 0x5EA1_ED01;
    !pool.is_empty() && !layout.is_empty() && u32_at(record, at::SHARD) == SEALED
}

/// The first byte of an input chooses the file that is patched.
fn pool(bytes: &[u8]) {
    let [pool, record, layout] = &*FILES;
    let (which, patches) = bytes.split_first().unwrap_or((&0, &[]));
    let patches_of = |file| if which % 3 == file { patches } else { &[] };
    let id: [u8; 16] = std::array::from_fn(|byte| pool.with(&[])[at::ID + byte]);
    let (mut pool, mut record) = (pool.with(patches_of(1)), record.with(patches_of(0)));
    repair_pool(&mut pool);
    repair_record(&mut record);
    let (pools, space) = (scratch("pools"), scratch("staged"));
    make(&space, layout, patches_of(2));
    fs::create_dir_all(&pools).unwrap();
    let name = format!("mainstay-pool-{:032x}", u128::from_be_bytes(id));
    write(&pools.join(&name), &pool);
    write(&pools.join(format!("{name}.0")), &record);
    told(fuzzing::salvage(&pools, id, &space));
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

fn repair_pool(file: &mut [u8]) {
    let sum = hash(&file[..at::CONSTANTS_HASH]);
    file[at::CONSTANTS_HASH..][..HASH_BYTES].copy_from_slice(&sum);
    let note = at::NOTE + 4 + HASH_BYTES;
    if let Some(sum) = file.get(note..note.saturating_add(u32_at(file, at::NOTE) as usize)).map(hash) {
        file[at::NOTE + 4..note].copy_from_slice(&sum);
    }
}

fn repair_record(file: &mut [u8]) {
    let sum = hash(&file[..at::OWNER_HASH]);
    file[at::OWNER_HASH..][..HASH_BYTES].copy_from_slice(&sum);
    let number = |at| u32_at(file, at::SHARD + at) as usize;
    let blocks = |bytes: usize| bytes.next_multiple_of(BLOCK);
    let table = blocks(BLOCK + number(at::ROWS_BYTES));
    let done = table + number(at::SEGMENTS_MAX) * SEGMENT_BYTES;
    let plan = blocks(done + number(at::SEGMENTS_MAX));
    let parts = [
        0..OWNER_BYTES,
        at::SHARD..at::SHARD + at::SEAL,
        table..table + number(at::SEGMENTS) * SEGMENT_BYTES,
        plan..plan + number(at::PLAN_BYTES),
    ];
    let mut sum = Hashing::default();
    for part in parts {
        let Some(part) = file.get(part) else { return };
        sum.add(part);
    }
    file[at::SHARD + at::SEAL..][..HASH_BYTES].copy_from_slice(&sum.hash());
}
