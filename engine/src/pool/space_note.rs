//! Whose a pool is: the space of the job, noted in the pool's first block when the space is opened, and with each shard
//! that is sealed. A record that is gone or damaged tells of it no more.

use super::{
    Pool, Shared, file,
    plan::{SealedPlan, SealedTarget},
};
use crate::{
    device::Device,
    error::Result,
    space::format::{BLOCK_BYTES, HASH_BYTES, Hash, Lineage, hash},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsStr,
    fs::File,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
};

/// After the constants: its length in four bytes, its hash, and itself.
const NOTE_AT: u64 = 1024;
const HEAD: usize = 4 + HASH_BYTES;

/// As a target of the plan beside the pool has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpaceNote {
    space: Vec<u8>,
    pub(crate) file_system: u64,
    /// Under which the job writes.
    pub(crate) lineage: Lineage,
}

impl SpaceNote {
    pub(crate) fn space(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.space))
    }

    /// `None` if there is none that can be believed.
    pub(super) fn read(pool: &File) -> Option<SpaceNote> {
        let mut block = [0; (BLOCK_BYTES - NOTE_AT) as usize];
        pool.read_exact_at(&mut block, NOTE_AT).ok()?;
        let (length, rest) = block.split_first_chunk()?;
        let (checksum, rest) = rest.split_first_chunk::<HASH_BYTES>()?;
        let note = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let parsed = || postcard::from_bytes(note).ok().or_else(|| Self::of_older_build(note));
        (hash(note) == Hash::from(*checksum)).then(parsed)?
    }

    /// Pools of version 2 do not say under which lineage their job writes.
    fn of_older_build(note: &[u8]) -> Option<SpaceNote> {
        let (space, file_system) = postcard::from_bytes(note).ok()?;
        Some(SpaceNote { space, file_system, lineage: Lineage { number: 0, id: [0; 16] } })
    }
}

impl Pool {
    /// Notes whose it is, before anything is staged.
    pub(crate) fn note_space(&self, device: &dyn Device, lineage: Lineage) -> Result<()> {
        let space = device.directory().as_os_str().as_bytes().to_vec();
        self.shared.note(&SpaceNote { space, file_system: device.device_number(), lineage })
    }
}

impl Shared {
    /// Of several spaces the nearest.
    pub(super) fn note_space_of(&self, plan: &SealedPlan) -> Result<()> {
        let note = |target: &SealedTarget| {
            let (space, file_system) = (target.space.clone(), target.file_system);
            self.note(&SpaceNote { space, file_system, lineage: plan.key.lineage })
        };
        plan.targets.first().map_or(Ok(()), note)
    }

    /// All members note the same. A path that is too long for it is not noted.
    fn note(&self, note: &SpaceNote) -> Result<()> {
        let Ok(note) = postcard::to_stdvec(note) else { return Ok(()) };
        if note.len() + HEAD > (BLOCK_BYTES - NOTE_AT) as usize {
            return Ok(());
        }
        let bytes = [&(note.len() as u32).to_le_bytes()[..], &hash(&note), &note].concat();
        self.file().write_all_at(&bytes, NOTE_AT).map_err(|e| file::failed("writing to", self.path(), e))
    }
}
