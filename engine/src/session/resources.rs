//! The means with which a rank saves: the I/O threads, the node's pool, and the record beside the pool.
//!
//! `Resources` decides how many bytes of this rank go into the pool. It allocates the pool's memory as soon as a checkpoint
//! is the next thing to expect.

use super::{
    changed::{ChangeTracker, StagingPlan},
    level::{Level, LevelKind},
    levels::Levels,
};
use crate::{
    capture::{Region, Regions, Size, StreamDeduplicator, is_of_heap},
    config::{Config, Stage, Track},
    error::{Error, Result},
    feed::{Feeder, Source},
    ground::{lock, threads_at_once},
    group::{Group, agree},
    place::{IoThreads, Shard, ShardSpec, Site},
    pool::{Pool, RankRecord},
    salvage::complete_dead,
    space::{
        Portion,
        format::{BLOCK_BYTES, Lineage, PhaseRecord},
    },
    stage::{IN_PORTION_BYTES, Outlet, Policy, PoolInMaking, Snapshots, Staging, StagingTools, TouchOrder, Touching},
};
use std::sync::{Arc, Mutex};

pub(super) struct Resources {
    // Drop order: feeders wait for the threads that write, and these threads write the data in the pool.
    /// One for each level except the nearest, so no level waits for a slower one.
    pub(super) feeders: Vec<Feeder>,
    pub(super) io: IoThreads,
    /// `None` if the stage has no pool. If the program's bytes are copied straight into portions, the pool has only its
    /// tables.
    pub(super) pool: Option<PoolInMaking>,
    /// A checkpoint comes next, so the pool's memory is allocated while the program does other work.
    pub(super) pool_is_foreseen: bool,
    /// The record from which another process can complete a shard. `None` without a pool.
    pub(super) record: Option<RankRecord>,
    pub(super) policy: Policy,
    pub(super) touching: Touching,
    /// Tracks the changes since the last revision. `None` if every checkpoint saves everything.
    pub(super) changing: Option<ChangeTracker>,
    /// `None` unless the session takes snapshots.
    pub(super) snapshots: Option<Arc<Mutex<Snapshots>>>,
    /// The layouts with portions that `touching` has received.
    pub(super) touched: Vec<[u8; 16]>,
}

impl Resources {
    /// The resources of a new session: threads for its `levels`, the node's `pool` with a record of this rank, and the
    /// trackers that `config` asks for. Collective.
    pub(super) fn new(
        group: &dyn Group,
        config: &Config,
        levels: &Levels,
        pool: Option<Pool>,
        policy: Policy,
        lineage: Lineage,
    ) -> Result<Resources> {
        let threads = threads_at_once(group.ranks_here());
        let feeders = agree(group, levels.iter().skip(1).map(|_| Feeder::start(threads)).collect())?;
        let flush_every = (config.stage == Stage::Node).then_some(config.flush_every);
        let io = agree(group, IoThreads::start(config.io_threads_for(group.ranks_here()), flush_every))?;
        let recorded = pool.as_ref().map(|pool| RankRecord::create(pool, group.rank() as u32));
        let noted = pool.as_ref().map_or(Ok(()), |pool| pool.note_space(&*levels.nearest().location.device, lineage));
        let record = agree(group, recorded.transpose().and_then(|record| noted.map(|()| record)))?;
        let mut changing = ChangeTracker::new(config, group.rank());
        ChangeTracker::speculate(&mut changing, config, levels.nearest().location.kind, (group.rank(), group.size()));
        let snapshots = config.capture.is_snapshot().then(|| {
            let (is_tracked, trusts) = (config.capture.is_incremental(), config.track == Track::Pages);
            Arc::new(Mutex::new(Snapshots::new(config.snapshot_bytes, is_tracked, trusts, group.rank())))
        });
        Ok(Resources {
            feeders,
            io,
            pool: pool.map(PoolInMaking::new),
            pool_is_foreseen: false,
            record,
            policy,
            touching: Touching::default(),
            changing,
            snapshots,
            touched: Vec::new(),
        })
    }

    /// The pool, if this rank's shard goes through it.
    fn used_pool(&mut self) -> Option<&mut PoolInMaking> {
        self.pool.as_mut().filter(|_| !self.policy.is_in_portion())
    }

    /// Starts to allocate the pool's memory for the protected regions, in the background.
    pub(super) fn begin_pool(&mut self, regions: &Regions) {
        let bytes = regions.all().iter().fold(0, |sum: u64, region| sum + self.pooled_bytes_of(region));
        self.pool_is_foreseen = true;
        if let Some(pool) = self.used_pool() {
            pool.pool().want(bytes, 0);
            pool.begin();
        }
    }

    /// Reserves room for a region that was just protected. The pool will hold `bytes` of it.
    pub(super) fn foresee(&mut self, bytes: u64) {
        if self.pool_is_foreseen
            && let Some(pool) = self.used_pool()
        {
            pool.foresee(bytes);
        }
    }

    /// Gives up the room for a region that was unprotected. The pool would have held `bytes` of it.
    pub(super) fn foresee_less(&mut self, bytes: u64) {
        if let Some(pool) = self.used_pool() {
            pool.pool().want_less(bytes);
        }
    }

    /// Adapts the pool between checkpoints. The program computes then, and others may need the pool's memory.
    pub(super) fn tend_pool(&mut self, regions: &Regions) {
        if !self.pool_is_foreseen {
            self.begin_pool(regions);
        } else if let Some(pool) = self.used_pool() {
            pool.adapt();
        }
    }

    /// Maps and touches the portions in memory that this rank writes, in the background and in this order. Does nothing
    /// unless the program's bytes are copied there.
    pub(super) fn touch(&mut self, levels: &Levels, order: TouchOrder) {
        if !self.policy.is_in_portion() {
            return;
        }
        let is_new = |level: &&Level| level.layout_id().is_some_and(|layout| !self.touched.contains(&layout));
        let new: Vec<&Level> =
            levels.iter().filter(|level| level.location.kind == LevelKind::Memory).filter(is_new).collect();
        let portions: Vec<Portion> =
            new.iter().flat_map(|level| level.current_ledgers()).map(|ledger| lock(ledger).portion().clone()).collect();
        self.touching.begin(&portions, order);
        self.touched.extend(new.iter().filter_map(|level| level.layout_id()));
    }

    /// Makes the pool's memory large enough for a shard of `size` and for the shards of the node's other ranks, as far
    /// as they have asked. If memory is short, takes as much as there is. Local.
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

    /// The values that the ranks compare by a maximum at t1 (`Pool::chunk_facts`).
    pub(super) fn chunk_facts(&mut self) -> [u64; 2] {
        self.used_pool().map_or([0, 0], |pool| pool.pool().chunk_facts())
    }

    /// Fits the pool after t1, when the ranks have agreed on the sizes of revision `number`. Local.
    pub(super) fn fit_pool(&mut self, facts: [u64; 2], number: u64) -> Result<()> {
        let all = self.needs_all();
        // Needed even if nothing goes through the pool: ranks also wait for those that copy elsewhere.
        self.pool.iter().for_each(|pool| pool.pool().begin_copying(number));
        match self.used_pool() {
            Some(pool) => {
                pool.pool().set_chunk(facts);
                pool.fit(all)
            }
            None => Ok(()),
        }
    }

    /// Notes that the program has nothing to copy, because the checkpoint failed on this rank.
    pub(super) fn end_copying(&self) {
        self.pool.iter().for_each(|pool| pool.pool().end_copying());
    }

    /// Whether a checkpoint waits for all of its pool. A snapshot copies after t2, but needs its chunks before.
    fn needs_all(&self) -> bool {
        self.snapshots.is_some()
    }

    /// Bytes of a region that go through the pool: all of a small region. With stage `node`, only the bytes after the
    /// last whole block of a large one.
    pub(super) fn pooled_bytes_of(&self, region: &Region) -> u64 {
        let bytes = region.description.bytes;
        if bytes < self.policy.straight_from { bytes } else { bytes % BLOCK_BYTES }
    }

    /// Bytes of the program's heap that the pool holds.
    pub(super) fn pooled_bytes_of_heap(&self, regions: &Regions) -> u64 {
        regions.all().iter().filter(|region| is_of_heap(region)).map(|region| self.pooled_bytes_of(region)).sum()
    }

    /// Begins to stage a shard for the target at `site`. `changed` is given if the next shard may share blocks with
    /// this one.
    pub(super) fn stage(
        &mut self,
        intent: ShardSpec,
        site: Site,
        phases: PhaseRecord,
        changed: Option<StagingPlan>,
    ) -> Result<Staging> {
        let in_portion = self.policy.is_in_portion();
        let record = self.record.as_mut().map(|record| {
            let bytes = if in_portion { IN_PORTION_BYTES } else { record.chunk_bytes() };
            (record, bytes)
        });
        let shard = Shard::new(intent, vec![site], record, phases)?;
        let (plan, late) = changed.map_or((None, None), |StagingPlan { base, plan, is_late, is_indexed }| {
            shard.is_base(base.clone().filter(|_| plan.is_some() || is_late), is_indexed);
            (plan, base.filter(|_| is_late).map(StreamDeduplicator::new))
        });
        Staging::new(shard, self.policy, plan, late, self.snapshots.clone())
    }

    /// Saves `source` also at `site`, on level number `level`, counted from the nearest.
    pub(super) fn feed(&self, level: usize, source: Source, size: Size, site: Site) -> Result<Arc<Shard>> {
        let none = || Error::Internal { what: "nothing feeds the farther levels".to_owned() };
        self.feeders.get(level - 1).ok_or_else(none)?.feed(source, size, site)
    }

    /// Calls `work` with the pool and the I/O threads that staging needs, for targets on `levels`.
    pub(super) fn with_hands<T>(&self, levels: &Levels, work: impl FnOnce(&mut StagingTools<'_>) -> T) -> T {
        let pool = self.pool.as_ref().map(PoolInMaking::pool);
        let reclaim = || {
            if let Some(pool) = pool {
                complete_dead(&levels.iter().map(|level| &*level.location.device).collect::<Vec<_>>(), pool);
            }
        };
        let outlet = Outlet { threads: &self.io, publisher: self.policy.publisher };
        work(&mut StagingTools { pool, reclaim: &reclaim, outlet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pool::Shape, space::draw_id};

    /// Data staged in memory was hashed up to 20 ms late, because the last rank to finish copying woke no thread.
    #[test]
    fn ranks_that_copy_into_their_portions_wait_for_each_other_as_those_that_copy_into_the_pool() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool = Pool::create(directory.path(), draw_id().unwrap(), &Shape::of_tables(2)).unwrap();
        let other = Pool::join(directory.path(), pool.id(), 1).unwrap();
        let policy = Policy::new(&Config::default(), || Ok(0)).unwrap().in_portion();
        let mut resources = Resources {
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
        resources.fit_pool([0, 0], 7).unwrap();
        assert!(other.others_copy(), "a rank that has t1 behind it is about to copy");
        resources.end_copying();
        assert!(!other.others_copy());
    }
}
