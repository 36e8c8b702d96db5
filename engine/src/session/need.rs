//! How much the portions of levels take where they lie: for who is told that there is no room for them.
//!
//! A file of a layout fails beside others that are made at the same time: what it lacked, and what was free just then, says
//! neither how much room is needed nor how much there is.

use super::level::Level;
use crate::{
    capture::Size,
    device::Allocate,
    error::{Error, Result},
    ground::control_group,
    group::{Group, agree, gather},
    place::portion_blocks,
    space::{blocks_in, format::BLOCK_BYTES},
};
use std::{io, sync::Arc};

impl Level {
    /// Blocks of each shard's portion in a new layout, for shards like this rank's of this `size`: no fewer than in the layout that
    /// was left for it. Where shards grow in turn, as one rank's share of the whole becomes another's, the space would be made anew at
    /// each checkpoint. Collective.
    pub(super) fn blocks_of_portions(&self, group: &dyn Group, size: &Size) -> Result<Vec<u64>> {
        let own = match self.config.portion_bytes {
            0 => portion_blocks(&size.at_least(self.config.shard_bytes), self.codec(), self.shards_at_once()),
            configured => blocks_in(configured),
        };
        let (mut blocks, outgrown): (Vec<u64>, Vec<_>) =
            gather(group, &(own, self.outgrown.clone()))?.into_iter().unzip();
        for (shard, before) in outgrown.into_iter().flatten() {
            if let Some(blocks) = blocks.get_mut(shard) {
                *blocks = before.max(*blocks);
            }
        }
        Ok(blocks)
    }

    /// The bytes of portions of so many `blocks`, by shard, in the place where those lie that this rank writes. Collective.
    fn bytes_here(&self, group: &dyn Group, blocks: &[u64]) -> Result<u64> {
        let leaders = gather(group, &self.domain.leader())?;
        let is_here = |shard: &usize| leaders[self.writers.of(*shard)] == self.domain.leader();
        Ok((0..leaders.len()).filter(is_here).map(|shard| blocks[shard].saturating_mul(BLOCK_BYTES)).sum())
    }

    /// An error on all ranks if a new layout with portions of so many `blocks`, by shard, would lie in memory that has not room for
    /// all of them. Its files could be made, and to use them could end the job: a control group kills. Collective.
    pub(super) fn check_memory(&self, group: &dyn Group, blocks: &[u64]) -> Result<()> {
        let needed = self.bytes_here(group, blocks)?;
        let is_promised = self.device.is_memory() && self.config.allocate != Allocate::Sparse;
        let free = self.device.available_bytes().filter(|free| is_promised && *free < needed);
        let no_space = || Arc::new(io::Error::from_raw_os_error(libc::ENOSPC));
        agree(group, free.map_or(Ok(()), |free| Err(self.full(no_space(), needed, free))))
    }

    fn full(&self, source: Arc<io::Error>, needed: u64, free: u64) -> Error {
        let is_limited = self.device.is_memory() && control_group::free_bytes() < needed;
        let doing = if is_limited {
            "making all portions, within the limit on the memory of this job's control group, of"
        } else {
            "making all portions of"
        };
        let path = self.device.path();
        Error::DiskFull { doing: doing.to_owned(), path, source, needed: Some(needed), available: Some(free) }
    }
}

/// The `error` of making layouts on `levels`, which lie in one place, for shards like this rank's of this `size`: if that has too
/// little room, says how much all of them take there together. All ranks have an error. Collective.
pub(super) fn told_of_all(group: &dyn Group, levels: &[&Level], size: &Size, error: Error) -> Error {
    if matches!(error, Error::GroupFailed { .. }) {
        return error;
    }
    let mut needed = 0_u64;
    for level in levels {
        match level.blocks_of_portions(group, size).and_then(|blocks| level.bytes_here(group, &blocks)) {
            Ok(bytes) => needed = needed.saturating_add(if level.is_laid_out() { 0 } else { bytes }),
            Err(failed) => return failed,
        }
    }
    let nearest = levels.first().and_then(|level| Some((level, level.device.available_bytes()?)));
    let mine = match (&error, nearest) {
        (Error::DiskFull { source, .. }, Some((level, free))) if free < needed => {
            Err(level.full(source.clone(), needed, free))
        }
        _ => Ok(()),
    };
    agree(group, mine).err().unwrap_or(error)
}
