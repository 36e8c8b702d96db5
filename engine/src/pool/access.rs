//! One member's access to the pool: its mapped file, and the words in it.

use super::{
    layout::{ChunkEntry, Constants, Control, MemberEntry},
    sizes::Sizes,
};
use crate::{
    config::PoolHeld,
    device::{ByteLocks, Mapping},
};
use std::{
    fs::File,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// One member's access to the pool. A copy is the same member; dropping the last copy makes the member leave.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) directory: PathBuf,
    pub(super) path: PathBuf,
    pub(super) constants: Constants,
    pub(super) map: Mapping,
    pub(super) member: u32,
    /// In a forked child the file is closed already, and must not be closed again.
    pub(super) locks: ManuallyDrop<ByteLocks>,
    /// The process of this member.
    pub(super) forks: u32,
    /// The chunks that this handle holds. An entry is set before the word in the pool is, and cleared after.
    pub(super) held: Box<[AtomicBool]>,
    /// Index at which the search for a free chunk starts.
    pub(super) cursor: AtomicU32,
    pub(super) sizes: Sizes,
}

impl Pool {
    pub(crate) fn id(&self) -> [u8; 16] {
        self.shared.constants.id
    }

    pub(crate) fn member(&self) -> u32 {
        self.shared.member
    }

    #[cfg(test)]
    pub(crate) fn chunks(&self) -> u32 {
        self.shared.constants.chunks
    }

    pub(crate) fn held(&self) -> PoolHeld {
        self.shared.constants.held()
    }
}

impl Shared {
    /// The words that all members share: memory in the making, turns for chunks.
    pub(super) fn control(&self) -> &Control {
        self.map.shared(self.constants.control_at())
    }

    /// The words of all chunks with memory that this process has seen.
    pub(super) fn chunk_entries(&self) -> &[ChunkEntry] {
        let seen = self.sizes.seen.load(Ordering::Acquire) / self.chunk_bytes();
        self.map.shared_row(self.constants.chunk_table_at(), seen as usize)
    }

    pub(super) fn member_entries(&self) -> &[MemberEntry] {
        self.map.shared_row(self.constants.member_table_at(), self.constants.members as usize)
    }

    pub(super) fn member_entry(&self) -> &MemberEntry {
        &self.member_entries()[self.member as usize]
    }

    /// This member's number in a `Word`. It fits: there are at most 2^16 members.
    pub(super) fn member_bits(&self) -> u16 {
        self.member as u16
    }

    pub(super) fn file(&self) -> &File {
        self.locks.file()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
