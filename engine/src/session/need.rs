//! The room that all portions of a level need in one place, for the error message if there is too little.
//!
//! The ranks make the files of a layout at the same time. The bytes that one file lacked, and the bytes free at that
//! moment, show neither the room needed nor the room there is.

use super::level::Level;
use crate::{
    capture::Size,
    device::Allocate,
    error::{Error, Result},
    ground::control_group,
    group::{Group, agree, gather_unequal},
    place::portion_blocks,
    space::{blocks_in, bytes_with},
};
use std::{io, sync::Arc};

impl Level {
    /// Blocks of each shard's portion in a new layout, if the other shards are like this rank's, of `size`. A portion
    /// never gets smaller than in the layout that the level just left. Otherwise shards that grow by turns, as shares
    /// of the whole move between ranks, would cause a new layout at each checkpoint. Collective.
    pub(super) fn blocks_of_portions(&self, group: &dyn Group, size: &Size) -> Result<Vec<u64>> {
        let own = match self.location.config.portion_bytes {
            0 => portion_blocks(&size.at_least(self.location.config.shard_bytes), self.codec(), self.shards_at_once()),
            configured => blocks_in(configured),
        };
        let (mut blocks, outgrown): (Vec<u64>, Vec<_>) =
            gather_unequal(group, &(own, self.files.outgrown.clone()))?.into_iter().unzip();
        if let [all] = blocks[..] {
            blocks = vec![all; group.size()];
        }
        for (shard, before) in outgrown.into_iter().flatten() {
            if let Some(blocks) = blocks.get_mut(shard) {
                *blocks = before.max(*blocks);
            }
        }
        Ok(blocks)
    }

    /// Bytes of all portions in the place where this rank writes. `blocks` has the size of each shard's portion.
    fn bytes_here(&self, blocks: &[u64]) -> u64 {
        let is_here = |shard: &usize| self.location.domain.contains(self.location.writers.of(*shard));
        (0..blocks.len()).filter(is_here).map(|shard| bytes_with(blocks[shard])).fold(0, u64::saturating_add)
    }

    /// Fails on all ranks if a new layout would be in memory that has too little room for all its portions. `blocks`
    /// has the size of each shard's portion. Such files can be made, but using them can end the job: a control group
    /// kills processes over its limit. Collective.
    pub(super) fn check_memory(&self, group: &dyn Group, blocks: &[u64]) -> Result<()> {
        let needed = self.bytes_here(blocks);
        let is_promised =
            self.location.device.directory().is_memory() && self.location.config.allocate != Allocate::Sparse;
        let free = self.location.device.directory().available_bytes().filter(|free| is_promised && *free < needed);
        let no_space = || Arc::new(io::Error::from_raw_os_error(libc::ENOSPC));
        agree(group, free.map_or(Ok(()), |free| Err(self.full(no_space(), needed, free))))
    }

    fn full(&self, source: Arc<io::Error>, needed: u64, free: u64) -> Error {
        let is_limited = self.location.device.directory().is_memory() && control_group::free_bytes() < needed;
        let doing = if is_limited {
            "making all portions, within the limit on the memory of this job's control group, of"
        } else {
            "making all portions of"
        };
        let path = self.location.device.path();
        Error::DiskFull { doing: doing.to_owned(), path, source, needed: Some(needed), available: Some(free) }
    }
}

/// Completes the `error` of making layouts on `levels`, all in one place. If the place has too little room, the error
/// gets the total that all layouts need there. All ranks have an error, and shards like this rank's, of `size`.
/// Collective.
pub(super) fn with_total_need(group: &dyn Group, levels: &[&Level], size: &Size, error: Error) -> Error {
    if matches!(error, Error::GroupFailed { .. }) {
        return error;
    }
    let mut needed = 0_u64;
    for level in levels {
        match level.blocks_of_portions(group, size).map(|blocks| level.bytes_here(&blocks)) {
            Ok(bytes) => needed = needed.saturating_add(if level.is_laid_out() { 0 } else { bytes }),
            Err(failed) => return failed,
        }
    }
    let nearest = levels.first().and_then(|level| Some((level, level.location.device.directory().available_bytes()?)));
    let mine = match (&error, nearest) {
        (Error::DiskFull { source, .. }, Some((level, free))) if free < needed => {
            Err(level.full(source.clone(), needed, free))
        }
        _ => Ok(()),
    };
    agree(group, mine).err().unwrap_or(error)
}
