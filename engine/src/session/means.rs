//! What a rank saves with: the I/O threads, the node's pool, the record beside the pool. It decides how many bytes
//! of this rank go into the pool, and when the pool's memory is made: once a checkpoint comes next.

use super::{
    changed::{Changed, Changing},
    level::{Level, LevelKind},
    levels::Levels,
};
use crate::{
    capture::{Late, Region, Regions, Size, is_of_heap},
    error::{Error, Result},
    feed::{Feeder, Source},
    ground::lock,
    place::{Intent, IoThreads, Shard, Site},
    pool::RankRecord,
    salvage::complete_dead,
    space::{
        Portion,
        format::{BLOCK_BYTES, PhaseRecord},
    },
    stage::{Hands, IN_PORTION_BYTES, Outlet, Policy, PoolInMaking, Snapshots, Staging, TouchOrder, Touching},
};
use std::sync::{Arc, Mutex};

pub(super) struct Means {
    // Fields end in this order: what feeds waits for the threads that write, and these write what lies in the pool.
    /// One for each level but the nearest, so that none waits for a slower one.
    pub(super) feeders: Vec<Feeder>,
    pub(super) io: IoThreads,
    /// `None` if the stage has no pool. Where the portion is the buffer, the pool has tables alone.
    pub(super) pool: Option<PoolInMaking>,
    /// A checkpoint is what comes next, so the pool's memory is made while the program does something else.
    pub(super) pool_is_foreseen: bool,
    /// The record from which another process could complete a shard; `None` without a pool.
    pub(super) record: Option<RankRecord>,
    pub(super) policy: Policy,
    pub(super) touching: Touching,
    /// What changed since the last revision; `None` if all is saved.
    pub(super) changing: Option<Changing>,
    /// `None` if no snapshots are asked for.
    pub(super) snapshots: Option<Arc<Mutex<Snapshots>>>,
    /// The layouts whose portions have been given to it.
    pub(super) touched: Vec<[u8; 16]>,
}

impl Means {
    /// The pool, if this rank's shard goes through it.
    fn used_pool(&mut self) -> Option<&mut PoolInMaking> {
        self.pool.as_mut().filter(|_| !self.policy.is_in_portion())
    }

    /// From here on the pool's memory is made for the regions that are protected.
    pub(super) fn begin_pool(&mut self, regions: &Regions) {
        let bytes = regions.all().iter().fold(0, |sum: u64, region| sum + self.pooled_bytes_of(region));
        self.pool_is_foreseen = true;
        if let Some(pool) = self.used_pool() {
            pool.pool().want(bytes, 0);
            pool.begin();
        }
    }

    /// A region was protected, of which the pool will hold `bytes`.
    pub(super) fn foresee(&mut self, bytes: u64) {
        if self.pool_is_foreseen
            && let Some(pool) = self.used_pool()
        {
            pool.foresee(bytes);
        }
    }

    /// A region was unprotected, of which the pool would have held `bytes`.
    pub(super) fn foresee_less(&mut self, bytes: u64) {
        if let Some(pool) = self.used_pool() {
            pool.pool().want_less(bytes);
        }
    }

    /// Adapts the pool between checkpoints: the program computes, and others may need the pool's memory.
    pub(super) fn tend_pool(&mut self, regions: &Regions) {
        if !self.pool_is_foreseen {
            self.begin_pool(regions);
        } else if let Some(pool) = self.used_pool() {
            pool.adapt();
        }
    }

    /// Has the portions that this rank writes in memory mapped and touched in the background, in this order, if the program's bytes are
    /// copied there.
    pub(super) fn touch(&mut self, levels: &Levels, order: TouchOrder) {
        if !self.policy.is_in_portion() {
            return;
        }
        let is_new = |level: &&Level| level.layout_id().is_some_and(|layout| !self.touched.contains(&layout));
        let new: Vec<&Level> = levels.iter().filter(|level| level.kind == LevelKind::Memory).filter(is_new).collect();
        let portions: Vec<Portion> =
            new.iter().flat_map(|level| level.current_ledgers()).map(|ledger| lock(ledger).portion().clone()).collect();
        self.touching.begin(&portions, order);
        self.touched.extend(new.iter().filter_map(|level| level.layout_id()));
    }

    /// Makes the pool's memory large enough for a shard of `size` and for what the other ranks of the node have asked
    /// for so far, or as large as there is room. Local.
    pub(super) fn find_pool(&mut self, size: &Size, regions: &Regions) -> Result<()> {
        let straight = regions.all().iter().map(|region| region.description.bytes - self.pooled_bytes_of(region));
        let bytes = size.bytes().saturating_sub(straight.sum()).max(BLOCK_BYTES);
        let all = self.needs_all();
        match self.used_pool() {
            Some(pool) => {
                // Streams, and the gaps in them, end in chunks of their own.
                let ends = u32::from(size.announced > 0);
                pool.pool().want(bytes, ends);
                pool.get(all).map(drop)
            }
            None => Ok(()),
        }
    }

    /// What the ranks compare by a maximum at t1 (`Pool::chunk_facts`).
    pub(super) fn chunk_facts(&mut self) -> [u64; 2] {
        self.used_pool().map_or([0, 0], |pool| pool.pool().chunk_facts())
    }

    /// Fits the pool after t1, when all ranks have said what they save in revision number `number`. Local.
    pub(super) fn fit_pool(&mut self, facts: [u64; 2], number: u64) -> Result<()> {
        let all = self.needs_all();
        // Also where nothing is copied into the pool: ranks that copy elsewhere are waited for in the same way.
        self.pool.iter().for_each(|pool| pool.pool().begin_copying(number));
        match self.used_pool() {
            Some(pool) => {
                pool.pool().set_chunk(facts);
                pool.fit(all)
            }
            None => Ok(()),
        }
    }

    /// The program has nothing to copy, as the checkpoint has failed here.
    pub(super) fn end_copying(&self) {
        self.pool.iter().for_each(|pool| pool.pool().end_copying());
    }

    /// Whether a checkpoint waits for all of its pool: what a snapshot copies later has its chunks before t2.
    fn needs_all(&self) -> bool {
        self.snapshots.is_some()
    }

    /// How many bytes of a region go through the pool: all of a small one, and with stage `node` only those behind the
    /// last whole block of a large one.
    pub(super) fn pooled_bytes_of(&self, region: &Region) -> u64 {
        let bytes = region.description.bytes;
        if bytes < self.policy.straight_from { bytes } else { bytes % BLOCK_BYTES }
    }

    /// How many bytes of the program's heap the pool holds.
    pub(super) fn pooled_bytes_of_heap(&self, regions: &Regions) -> u64 {
        regions.all().iter().filter(|region| is_of_heap(region)).map(|region| self.pooled_bytes_of(region)).sum()
    }

    /// Begins to stage a shard for the target at `site`, by `changed` if the next one may share blocks with it.
    pub(super) fn stage(
        &mut self,
        intent: Intent,
        site: Site,
        phases: PhaseRecord,
        changed: Option<Changed>,
    ) -> Result<Staging> {
        let in_portion = self.policy.is_in_portion();
        let record = self.record.as_mut().map(|record| {
            let bytes = if in_portion { IN_PORTION_BYTES } else { record.chunk_bytes() };
            (record, bytes)
        });
        let shard = Shard::new(intent, vec![site], record, phases)?;
        let (plan, late) = changed.map_or((None, None), |Changed { base, plan, is_late, is_indexed }| {
            shard.is_base(base.clone().filter(|_| plan.is_some() || is_late), is_indexed);
            (plan, base.filter(|_| is_late).map(Late::new))
        });
        Staging::new(shard, self.policy, plan, late, self.snapshots.clone())
    }

    /// Has `source` saved at `site` too, of the level number `level`, counted from the nearest.
    pub(super) fn feed(&self, level: usize, source: Source, size: Size, site: Site) -> Result<Arc<Shard>> {
        let none = || Error::Internal { what: "nothing feeds the farther levels".to_owned() };
        self.feeders.get(level - 1).ok_or_else(none)?.feed(source, size, site)
    }

    /// Does `work` with what staging takes, for targets on `levels`.
    pub(super) fn with_hands<T>(&self, levels: &Levels, work: impl FnOnce(&mut Hands<'_>) -> T) -> T {
        let pool = self.pool.as_ref().map(PoolInMaking::pool);
        let reclaim = || {
            if let Some(pool) = pool {
                complete_dead(&levels.iter().map(|level| &*level.device).collect::<Vec<_>>(), pool);
            }
        };
        let outlet = Outlet { threads: &self.io, publisher: self.policy.publisher };
        work(&mut Hands { pool, reclaim: &reclaim, outlet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Config,
        pool::{Pool, Shape},
        space::draw_id,
    };

    /// What was staged in memory was hashed up to 20 ms late: the last rank that had copied woke nobody.
    #[test]
    fn ranks_that_copy_into_their_portions_wait_for_each_other_as_those_that_copy_into_the_pool() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool = Pool::create(directory.path(), draw_id().unwrap(), &Shape::of_tables(2)).unwrap();
        let other = Pool::join(directory.path(), pool.id(), 1).unwrap();
        let policy = Policy::new(&Config::default(), || Ok(0)).unwrap().in_portion();
        let mut means = Means {
            feeders: Vec::new(),
            io: IoThreads::start(1, None).unwrap(),
            pool: Some(PoolInMaking::new(pool)),
            pool_is_foreseen: false,
            record: None,
            policy,
            touching: Touching::default(),
            changing: None,
            snapshots: None,
            touched: Vec::new(),
        };
        means.fit_pool([0, 0], 7).unwrap();
        assert!(other.others_copy(), "a rank that has t1 behind it is about to copy");
        means.end_copying();
        assert!(!other.others_copy());
    }
}
