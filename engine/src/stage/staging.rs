//! One shard on its way out of the program, from t1 to t2.

use super::{
    FullBuffer, Outlet, Policy,
    comparing::Comparing,
    direct::Direct,
    gather::Gather,
    later::{Later, Snapshots},
    source::Source,
};
use crate::{
    capture::{Contents, InputPiece, Log, Part, PartPlace, Plan, Region, Snapshot, StreamDeduplicator},
    error::{Error, Result},
    ground::{Instant, lock},
    place::{Shard, SnapshotFollower, StagingTime},
    pool::Pool,
    space::format::{Annex, BLOCK_BYTES, CopiedBy, Extent, FoundBy, Histogram, Profile},
};
use std::{
    iter,
    sync::{Arc, Mutex},
};

/// The session's parts that staging uses.
pub(crate) struct StagingTools<'a> {
    pub(crate) pool: Option<&'a Pool>,
    /// Frees chunks of dead ranks, if possible.
    pub(crate) reclaim: &'a dyn Fn(),
    /// Where full buffers go.
    pub(crate) outlet: Outlet<'a>,
}

impl StagingTools<'_> {
    /// Tells the other ranks of the node that this one has copied.
    fn end_copying(&self) {
        if let Some(pool) = self.pool {
            pool.end_copying();
        }
    }
}

/// Reading the clock takes as long as copying a few KiB, so it is read once for so many parts of a region.
const PARTS_TIMED: usize = 32;

#[derive(Debug)]
pub(crate) struct Staging {
    pub(super) shard: Arc<Shard>,
    pub(super) policy: Policy,
    /// The parts of each region to stage; `None`: all of it.
    plan: Option<Plan>,
    /// Data that is compared as it comes; `None` if everything that can be shared is known at t1.
    comparing: Option<Comparing>,
    pub(super) log: Log,
    /// The stage without a buffer; otherwise `main` and `small` are in use.
    direct: Option<Direct>,
    pub(super) main: Gather,
    pub(super) small: Gather,
    /// `None` if everything is copied before t2.
    snapshots: Option<Arc<Mutex<Snapshots>>>,
    /// Copies left for a snapshot, while regions are staged.
    pub(super) later: Option<Later>,
    /// The data being staged belongs to the stager: it is copied at once.
    pub(super) is_own: bool,
    /// Length of the log, in whole blocks. `direct` counts its own writes.
    pub(super) end: u64,
    pub(super) staged: StagingTime,
    pieces: Histogram,
    /// Whether staging was finished or abandoned.
    ended: bool,
}

impl Drop for Staging {
    /// Fails a shard that was begun and not finished when its session ends: no thread will write it.
    fn drop(&mut self) {
        if !self.ended {
            self.shard.fail(Error::argument("begin", "the checkpoint that it began was not finished"));
        }
    }
}

impl Staging {
    /// Begins a shard. Its regions are staged by `plan`, or whole without one, and copied by a snapshot if possible.
    /// `late`: the older revision that pieces are compared with as they come.
    pub(crate) fn new(
        shard: Arc<Shard>,
        policy: Policy,
        plan: Option<Plan>,
        late: Option<StreamDeduplicator>,
        snapshots: Option<Arc<Mutex<Snapshots>>>,
    ) -> Result<Staging> {
        let direct = if policy.straight_from == 0 { Some(Direct::new(&shard)?) } else { None };
        let log = Log::new(shard.size().parts_max());
        let (main, small) = Default::default();
        let (staged, pieces) = Default::default();
        let (end, later, is_own, ended, comparing) = (0, None, false, false, late.map(Comparing::new));
        Ok(Staging {
            shard,
            policy,
            plan,
            comparing,
            log,
            direct,
            main,
            small,
            snapshots,
            later,
            is_own,
            end,
            staged,
            pieces,
            ended,
        })
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Stages the regions by `plan`, which is made from the older revision that the shard is compared with.
    pub(crate) fn plan_regions(&mut self, plan: Option<Plan>) {
        self.plan = plan;
    }

    /// Stages a piece of the stream `name`. `regions`: no stream may have the name of one.
    pub(crate) fn write(
        &mut self,
        tools: &mut StagingTools<'_>,
        name: &str,
        offset: u64,
        bytes: &[u8],
        regions: &[Region],
    ) -> Result<()> {
        let handed = self.log.piece(name, offset, bytes.len() as u64, regions)?;
        self.shard.set_copying(true);
        let put = match self.comparing.take() {
            Some(mut comparing) => {
                let put = self.timed(iter::once(bytes.len() as u64), |own| {
                    own.put_in_blocks(tools, &mut comparing, handed, bytes)
                });
                self.comparing = Some(comparing);
                put
            }
            None => self.put(tools, &handed, Source::Row(bytes)),
        };
        // The program may do other work now, for a long time.
        self.shard.set_copying(false);
        put
    }

    /// Bytes of the stream `name` written so far.
    pub(crate) fn stream_bytes(&self, name: &str) -> u64 {
        self.log.stream_bytes(name)
    }

    /// Stages the rest: whole regions, and zeros in the gaps of streams. After that nothing here refers to the
    /// program's memory any more, except a snapshot, which has its own.
    pub(crate) fn finish(mut self, tools: &mut StagingTools<'_>, regions: &[Region], profile: Profile) {
        let (contents, snapshot) = self.stage_all(tools, regions, profile);
        match (snapshot, tools.outlet.later()) {
            (Some((snapshot, later)), Some(threads)) => {
                let staged_at = Instant::now();
                let Staging { shard, staged, .. } = &self;
                let (shard, staged, awaited) = (shard.clone(), *staged, later.into_awaited());
                shard.note_gone_on();
                shard.note_resumed(staged_at.elapsed());
                threads.follow(SnapshotFollower { shard, snapshot, awaited, contents, staged });
            }
            _ => tools.outlet.end(&self.shard, contents, self.staged),
        }
        // Tell the ranks only now: that wakes postponed threads, which must see this shard staged too.
        tools.end_copying();
    }

    fn stage_all(
        &mut self,
        tools: &mut StagingTools<'_>,
        regions: &[Region],
        profile: Profile,
    ) -> (Contents, Option<(Snapshot, Later)>) {
        self.ended = true;
        self.shard.set_copying(true);
        self.later = self.snapshots.as_ref().filter(|_| tools.outlet.later().is_some()).map(|_| Later::default());
        let staged = self.stage_rest(tools, regions).and_then(|()| self.contents(tools));
        let taken = staged.and_then(|contents| Ok((contents, self.take_snapshot(tools, regions)?)));
        let (mut contents, snapshot) = taken.unwrap_or_else(|error| {
            self.shard.fail(error);
            (self.log.contents(0, Annex::default()), None)
        });
        let found_by = match (&self.plan, &self.comparing) {
            (Some(_), _) => profile.found_by,
            (None, Some(_)) => FoundBy::Hashes,
            (None, None) => FoundBy::Nothing,
        };
        let copied_by = match (&self.snapshots, &snapshot) {
            (None, _) => CopiedBy::Unasked,
            (Some(_), None) => CopiedBy::Program,
            (Some(_), Some((snapshot, _))) => snapshot.copied_by(),
        };
        let profile = Some(Profile { pieces: self.pieces, found_by, copied_by, ..profile });
        contents.annex = Annex { profile, ..self.shard.size().annex.clone() };
        (contents, snapshot)
    }

    /// The contents of the staged shard, which all have their place in the log.
    fn contents(&mut self, tools: &mut StagingTools<'_>) -> Result<Contents> {
        debug_assert!(self.log_bytes().is_multiple_of(BLOCK_BYTES), "a log ends inside a block");
        let contents = self.log.contents(self.log_bytes() / BLOCK_BYTES, Annex::default());
        debug_assert!(contents.are_whole(), "an item lacks bytes, or has some twice");
        if let Some(comparing) = self.comparing.take() {
            self.is_own = true;
            let contents = self.settle(tools, &comparing, contents);
            (self.comparing, self.is_own) = (Some(comparing), false);
            return contents;
        }
        let shared = self.plan.as_ref().map_or(0, Plan::shared_numbers);
        let first = if shared > 0 { self.shard.size().blocks() } else { 0 };
        let is_outline = self.plan.as_ref().is_some_and(|plan| plan.outline.is_some());
        Ok(Contents { shared: first..first + shared, is_outline, ..contents })
    }

    /// Length of the log.
    pub(super) fn log_bytes(&self) -> u64 {
        self.direct.as_ref().map_or(self.end, Direct::end)
    }

    /// Takes a snapshot of everything that is not copied yet, or copies it.
    fn take_snapshot(&mut self, tools: &mut StagingTools<'_>, regions: &[Region]) -> Result<Option<(Snapshot, Later)>> {
        let Some(mut later) = self.later.take().filter(|later| !later.is_empty()) else { return Ok(None) };
        let Some(snapshots) = self.snapshots.clone() else { return Ok(None) };
        let begun = Instant::now();
        let taken = lock(&snapshots).take(&mut later, |region| regions[region].description.name.clone());
        let taken = match taken {
            Some(snapshot) => Some((snapshot, later)),
            None => {
                self.later = Some(later);
                self.copy_later(tools)?;
                None
            }
        };
        self.staged.copy += begun.elapsed();
        Ok(taken)
    }

    /// Copies the bytes left for a snapshot; from here on everything is copied as it is staged.
    pub(super) fn copy_later(&mut self, tools: &mut StagingTools<'_>) -> Result<()> {
        let (Some(mut later), Some(snapshots)) = (self.later.take(), &self.snapshots) else { return Ok(()) };
        let carry = |load| tools.outlet.take(&self.shard, FullBuffer::LogSegment(load)).map(drop);
        lock(snapshots).copy_now(&mut later, &self.shard, carry)
    }

    /// Ends a shard that will not be whole.
    pub(crate) fn abandon(mut self, tools: &mut StagingTools<'_>, error: Error) {
        self.ended = true;
        self.shard.fail(error);
        tools.end_copying();
        tools.outlet.give_up(&self.shard);
    }

    fn stage_rest(&mut self, tools: &mut StagingTools<'_>, regions: &[Region]) -> Result<()> {
        let (plan, mut comparing) = (self.plan.take(), self.comparing.take());
        let staged = self.stage_regions(tools, regions, plan.as_ref(), comparing.as_mut());
        (self.plan, self.comparing) = (plan, comparing);
        staged?;
        self.leave_all(tools)?;
        // A snapshot would copy them after they are gone.
        self.is_own = true;
        let filled = self.fill_gaps(tools).and_then(|()| self.leave_all(tools));
        self.is_own = false;
        filled?;
        self.log.check_parts()?;
        self.direct.as_mut().map_or(Ok(()), |direct| direct.finish(&self.shard))
    }

    /// Stages the waiting bytes of streams, and the regions.
    fn stage_regions(
        &mut self,
        tools: &mut StagingTools<'_>,
        regions: &[Region],
        plan: Option<&Plan>,
        mut comparing: Option<&mut Comparing>,
    ) -> Result<()> {
        if let Some(comparing) = comparing.as_deref_mut() {
            self.is_own = true;
            let ended = self.end_streams(tools, comparing);
            self.is_own = false;
            ended?;
        }
        for (index, region) in regions.iter().enumerate() {
            if let Some(later) = &mut self.later {
                later.region = index;
            }
            let handed = self.log.region(region);
            let parts = plan.map(|plan| (plan, plan.parts(index)));
            let Some((plan, parts)) = parts.filter(|(_, parts)| !parts.iter().all(Part::is_staged)) else {
                self.put(tools, &handed, Source::of(region))?;
                continue;
            };
            for parts in parts.chunks(PARTS_TIMED) {
                let staged = parts.iter().filter(|part| part.is_staged()).map(|part| part.bytes);
                self.timed(staged, |own| {
                    own.stage_parts(tools, region, &handed, (plan, parts), comparing.as_deref_mut())
                })?;
            }
        }
        Ok(())
    }

    /// Stages the changed parts of a region, and refers to the others at their old places.
    fn stage_parts(
        &mut self,
        tools: &mut StagingTools<'_>,
        region: &Region,
        handed: &InputPiece,
        (plan, parts): (&Plan, &[Part]),
        mut comparing: Option<&mut Comparing>,
    ) -> Result<()> {
        for part in parts {
            let at = match (part.place, comparing.as_deref_mut()) {
                (PartPlace::Staged, _) => None,
                (PartPlace::Nowhere, _) => Some(Extent::ZEROS),
                (PartPlace::Shared(number), None) => Some((self.shard.size().blocks() + number) * BLOCK_BYTES),
                (PartPlace::Shared(number), Some(comparing)) => {
                    Staging::place_late(comparing, plan.shared_block(number), part)
                }
            };
            match at {
                Some(at) => self.log.lay(handed, part.from, part.bytes, at),
                None => {
                    let handed = handed.part(part.from, part.alignment());
                    self.stage_bytes(tools, &handed, Source::part_of(region, part.from, part.bytes))?;
                }
            }
        }
        Ok(())
    }

    /// Stages zeros in the gaps of streams.
    fn fill_gaps(&mut self, tools: &mut StagingTools<'_>) -> Result<()> {
        let gaps = self.log.gaps();
        // Clearing memory takes longer than a small checkpoint.
        let zeros = vec![0; if gaps.is_empty() { 0 } else { 1 << 20 }];
        for (handed, bytes) in gaps {
            if self.comparing.is_some() {
                self.put_gap(tools, handed, bytes)?;
                continue;
            }
            let mut from = 0;
            while from < bytes {
                let part = zeros.len().min((bytes - from) as usize);
                self.put(tools, &handed.behind(from), Source::Row(&zeros[..part]))?;
                from += part as u64;
            }
        }
        Ok(())
    }

    fn put(&mut self, tools: &mut StagingTools<'_>, handed: &InputPiece, source: Source<'_>) -> Result<()> {
        self.timed(iter::once(source.len() as u64), |own| own.stage_bytes(tools, handed, source))
    }

    /// Runs `stage`, which stages pieces of these sizes, and notes its time.
    fn timed(&mut self, pieces: impl Iterator<Item = u64>, stage: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let (begun, waited) = (Instant::now(), self.staged.buffer_wait);
        stage(self)?;
        let took = begun.elapsed();
        self.staged.copy += took.saturating_sub(self.staged.buffer_wait - waited);
        self.pieces.note_together(pieces, took);
        Ok(())
    }

    pub(super) fn stage_bytes(
        &mut self,
        tools: &mut StagingTools<'_>,
        handed: &InputPiece,
        source: Source<'_>,
    ) -> Result<()> {
        if let Some(error) = self.shard.failure() {
            // The shard has failed: the rest would not be written.
            return Err(error.clone());
        }
        if let Some(direct) = &mut self.direct {
            let (at, bytes) = (direct.place(handed), source.len() as u64);
            self.shard.has_room(at, bytes)?;
            source.each(|from, part| direct.write(&self.shard, at + from, part))?;
            self.log.lay(handed, 0, bytes, at);
            return Ok(());
        }
        // Bytes from separate rows are gathered.
        let row = source.row().unwrap_or_default();
        let straight = self.straight_part(row.len());
        self.write_through(handed, &row[..straight])?;
        if straight < source.len() { self.gather(tools, handed, straight, source) } else { Ok(()) }
    }

    /// How many bytes of a piece of `bytes` bytes are not gathered.
    fn straight_part(&self, bytes: usize) -> usize {
        let is_straight = bytes as u64 >= self.policy.straight_from;
        if is_straight { bytes - bytes % BLOCK_BYTES as usize } else { 0 }
    }

    /// Writes whole blocks from the program's memory. Bytes that share a block with others are gathered instead.
    fn write_through(&mut self, handed: &InputPiece, blocks: &[u8]) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let at = self.take_room(blocks.len() as u64)?;
        self.shard.carry(at, blocks)?;
        self.log.lay(handed, 0, blocks.len() as u64, at);
        Ok(())
    }
}
