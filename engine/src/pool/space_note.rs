//! The spaces of a pool's job, noted in the pool's first block when they are opened, and again with each shard that is
//! sealed. The note names them even if a record is gone or damaged.

use super::{
    Pool, Shared, file,
    sealed_plan::{SealedPlan, SealedTarget},
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
    sync::atomic::{AtomicU8, Ordering},
};

/// Offset of the note, after the constants: its length in four bytes, its hash, and the note itself.
const NOTE_AT: u64 = 1024;
const HEAD: usize = 4 + HASH_BYTES;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpaceNote {
    nearest: NotedSpace,
    /// The lineage under which the job writes.
    pub(crate) lineage: Lineage,
    others: Vec<NotedSpace>,
}

/// A space, as named by a target of a sealed plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NotedSpace {
    path: Vec<u8>,
    file_system: u64,
}

impl SpaceNote {
    /// The directories of the spaces and the numbers of their file systems; nearest first.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = (&Path, u64)> {
        let all = [&self.nearest].into_iter().chain(&self.others);
        all.map(|space| (Path::new(OsStr::from_bytes(&space.path)), space.file_system))
    }

    /// Whether `is` holds for one of the spaces.
    pub(crate) fn is_of(&self, is: impl Fn(&Path) -> bool) -> bool {
        self.spaces().any(|(space, _)| is(space))
    }

    /// Returns `None` if there is no valid note.
    pub(super) fn read(pool: &File) -> Option<SpaceNote> {
        let mut block = [0; (BLOCK_BYTES - NOTE_AT) as usize];
        pool.read_exact_at(&mut block, NOTE_AT).ok()?;
        let (length, rest) = block.split_first_chunk()?;
        let (checksum, rest) = rest.split_first_chunk::<HASH_BYTES>()?;
        let note = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let parsed = || postcard::from_bytes(note).ok().or_else(|| Self::of_older_build(note));
        (hash(note) == Hash::from(*checksum)).then(parsed)?
    }

    /// Reads a note of version 2, which has one space and no lineage.
    fn of_older_build(note: &[u8]) -> Option<SpaceNote> {
        let nearest = postcard::from_bytes(note).ok()?;
        Some(SpaceNote { nearest, lineage: Lineage { number: 0, id: [0; 16] }, others: Vec::new() })
    }
}

impl Pool {
    /// Notes the space of this job, before anything is staged.
    pub(crate) fn note_space(&self, device: &dyn Device, lineage: Lineage) -> Result<()> {
        let path = device.directory().as_os_str().as_bytes().to_vec();
        let nearest = NotedSpace { path, file_system: device.directory().device_number() };
        self.shared.note(SpaceNote { nearest, lineage, others: Vec::new() })
    }
}

impl Shared {
    pub(super) fn note_spaces_of(&self, plan: &SealedPlan) -> Result<()> {
        let noted = |target: &SealedTarget| NotedSpace { path: target.space.clone(), file_system: target.file_system };
        let mut spaces = plan.targets.iter().map(noted);
        let Some(nearest) = spaces.next() else { return Ok(()) };
        self.note(SpaceNote { nearest, lineage: plan.key.lineage, others: spaces.collect() })
    }

    /// Writes the note; all members write the same. If the paths do not fit in the block, the farthest spaces are left
    /// out.
    fn note(&self, mut note: SpaceNote) -> Result<()> {
        let encoded = loop {
            let Ok(encoded) = postcard::to_stdvec(&note) else { return Ok(()) };
            if encoded.len() + HEAD <= (BLOCK_BYTES - NOTE_AT) as usize {
                break encoded;
            }
            if note.others.pop().is_none() {
                return Ok(());
            }
        };
        let bytes = [&(encoded.len() as u32).to_le_bytes()[..], &hash(&encoded), &encoded].concat();
        let there: &[AtomicU8] = self.map.shared_row(NOTE_AT as usize, bytes.len());
        if there.iter().map(|byte| byte.load(Ordering::Relaxed)).eq(bytes.iter().copied()) {
            return Ok(());
        }
        self.file().write_all_at(&bytes, NOTE_AT).map_err(|e| file::failed("writing to", self.path(), e))
    }
}
