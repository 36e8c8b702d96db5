//! What the pool is to hold of this rank, and when its memory is made: from when a checkpoint is what comes next.

use super::inner::Inner;
use crate::{
    capture::{Region, Size},
    error::Result,
    space::format::BLOCK_BYTES,
    stage::PoolInMaking,
};

impl Inner {
    /// The pool, if this rank puts anything into it.
    pub(super) fn own_pool(&mut self) -> Option<&mut PoolInMaking> {
        self.pool.as_mut().filter(|_| !self.aggregators.is_member())
    }

    /// From here on the pool's memory is made for what is protected.
    pub(super) fn begin_pool(&mut self) {
        let bytes = self.regions.all().iter().fold(0, |sum: u64, region| sum + self.pooled_bytes_of(region));
        let shards = self.aggregators.shards();
        self.pool_is_foreseen = true;
        if let Some(pool) = self.own_pool() {
            pool.pool().want(bytes.saturating_mul(shards), 0);
            pool.begin();
        }
    }

    /// A region is protected of which the pool will hold `bytes`.
    pub(super) fn foresee(&mut self, bytes: u64) {
        let shards = self.aggregators.shards();
        if self.pool_is_foreseen
            && let Some(pool) = self.own_pool()
        {
            pool.foresee(bytes.saturating_mul(shards));
        }
    }

    /// A region is protected no longer of which the pool would have held `bytes`.
    pub(super) fn foresee_less(&mut self, bytes: u64) {
        let shards = self.aggregators.shards();
        if let Some(pool) = self.own_pool() {
            pool.pool().want_less(bytes.saturating_mul(shards));
        }
    }

    /// Between checkpoints: the program computes, and others may need the pool's memory.
    pub(super) fn tend_pool(&mut self) {
        if !self.pool_is_foreseen {
            self.begin_pool();
        } else if let Some(pool) = self.own_pool() {
            pool.adapt();
        }
    }

    /// A pool with memory for a shard of `size` and for what the other ranks of the node have said so far, or as much
    /// as there is. Local.
    pub(super) fn find_pool(&mut self, size: &Size) -> Result<()> {
        let straight = self.regions.all().iter().map(|region| region.description.bytes - self.pooled_bytes_of(region));
        let bytes = size.bytes().saturating_sub(straight.sum()).max(BLOCK_BYTES);
        let shards = self.aggregators.shards();
        // Streams and what they skip end in chunks of their own.
        let ends = if size.announced > 0 { shards as u32 } else { 0 };
        match self.own_pool() {
            Some(pool) => {
                pool.pool().want(bytes.saturating_mul(shards), ends);
                pool.get().map(drop)
            }
            None => Ok(()),
        }
    }

    /// What the ranks compare by a maximum at t1 (`Pool::chunk_facts`).
    pub(super) fn chunk_facts(&mut self) -> [u64; 2] {
        self.own_pool().map_or([0, 0], |pool| pool.pool().chunk_facts())
    }

    /// After t1, when all ranks have said what they save: the pool for it. Local.
    pub(super) fn fit_pool(&mut self, facts: [u64; 2]) -> Result<()> {
        match self.own_pool() {
            Some(pool) => {
                pool.pool().set_chunk(facts);
                pool.pool().fit()
            }
            None => Ok(()),
        }
    }

    /// So much of a region goes through the pool: all, or with stage `node` the smaller ones and ends of blocks.
    pub(super) fn pooled_bytes_of(&self, region: &Region) -> u64 {
        let bytes = region.description.bytes;
        if bytes < self.policy.straight_from { bytes } else { bytes % BLOCK_BYTES }
    }
}
