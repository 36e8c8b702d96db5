//! The staged data in a dead pool: the shards with readable records, and the pool's count of lost records.

use super::{
    Shared, file,
    layout::{Constants, MemberEntry},
    listing::records_of,
    salvage::Dead,
    sealed::{Sealed, StagedBytes},
};
use crate::error::{Error, Result};
use std::{
    fmt,
    fs::File,
    mem::offset_of,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

#[derive(Debug, Default)]
pub(crate) struct StagedShards {
    /// The shards that can be completed, by rank.
    pub(crate) sealed: Vec<Sealed>,
    pub(crate) lost: Vec<LostRecord>,
}

/// A record of a shard that was fully staged and can no longer be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRecord {
    /// The revision that was sealed last.
    pub(crate) number: u64,
    /// `None` if the record is gone.
    pub(crate) rank: Option<u32>,
    /// The path of the record, or of the pool if the record is gone.
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

impl Dead {
    /// Finds the staged shards in the pool. Fails if this process runs out of files or memory, because there may be
    /// more shards.
    pub(crate) fn staged(&self) -> Result<StagedShards> {
        let StagedBytes { file, constants } = self.contents();
        StagedShards::find(self.directory(), constants, file)
    }
}

impl Shared {
    /// Whether a shard could be completed from the pool, or was lost. The next start completes or reports it.
    pub(super) fn is_left_staged(&self) -> bool {
        let staged = StagedShards::find(&self.directory, &self.constants, self.file());
        !staged.is_ok_and(|staged| staged.sealed.is_empty() && staged.lost.is_empty())
    }

    /// Notes how many records of a dead member are lost: its sealed records except the `readable` ones, plus `more`.
    pub(super) fn note_lost(&self, dead: u32, readable: u32, more: u32) {
        let entry = &self.member_entries()[dead as usize];
        let sealed = entry.sealed.swap(0, Ordering::AcqRel);
        entry.lost.fetch_max(sealed.saturating_sub(readable).saturating_add(more), Ordering::AcqRel);
    }
}

impl StagedShards {
    fn find(directory: &Path, constants: &Constants, pool: &File) -> Result<StagedShards> {
        let (mut sealed, mut refused) = (Vec::new(), Vec::new());
        for rank in records_of(directory, constants.id)? {
            match Sealed::open(directory, constants.id, rank) {
                Ok(found) => sealed.extend(found),
                Err(error) if error.is_of_process() => return Err(error),
                Err(error) => refused.push((rank, error)),
            }
        }
        let (mut missing, mut number) = (0_u64, 0);
        for member in 0..constants.members {
            let counts = MemberCounts::read(directory, constants, pool, member)?;
            let readable = sealed.iter().filter(|sealed| sealed.member == member).count() as u32;
            let lacks = counts.sealed.saturating_sub(readable).saturating_add(counts.lost);
            if lacks > 0 {
                (missing, number) = (missing + u64::from(lacks), counts.number.max(number));
            }
        }
        let mut lost = Vec::new();
        // If none is missing, an unreadable record holds no shard: its bytes may have any value.
        if missing > 0 {
            let path_of = |rank| file::path_of(directory, constants.id, rank);
            let is_more = missing > refused.len() as u64;
            let refused = refused.into_iter().map(|(rank, error)| (Some(rank), why(error)));
            let gone = is_more.then(|| (None, "a record beside it is gone".to_owned()));
            let all = refused.chain(gone);
            lost.extend(all.map(|(rank, why)| LostRecord { number, rank, path: path_of(rank), why }));
        }
        Ok(StagedShards { sealed, lost })
    }
}

fn why(error: Error) -> String {
    match error {
        Error::PoolRefused { why, .. } => why,
        error => error.to_string(),
    }
}

/// The pool's count of a member's records.
struct MemberCounts {
    sealed: u32,
    lost: u32,
    number: u64,
}

impl MemberCounts {
    fn read(directory: &Path, constants: &Constants, pool: &File, member: u32) -> Result<MemberCounts> {
        let failed = |e| file::failed("reading", &file::path_of(directory, constants.id, None), e);
        let mut entry = [0; size_of::<MemberEntry>()];
        let at = constants.member_table_at() + member as usize * entry.len();
        pool.read_exact_at(&mut entry, at as u64).map_err(failed)?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| entry[at + byte]));
        let number = offset_of!(MemberEntry, number);
        Ok(MemberCounts {
            sealed: word(offset_of!(MemberEntry, sealed)),
            lost: word(offset_of!(MemberEntry, lost)),
            number: u64::from_ne_bytes(std::array::from_fn(|byte| entry[number + byte])),
        })
    }
}

impl fmt::Display for LostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostRecord { number, rank, path, why } = self;
        write!(f, "revision {number}, ")?;
        match rank {
            Some(rank) => write!(f, "shard {rank}: its staged data is lost: its record {}: {why}", path.display()),
            None => write!(f, "a shard: its staged data is lost: {}: {why}", path.display()),
        }
    }
}
