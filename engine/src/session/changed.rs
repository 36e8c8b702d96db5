//! Incremental capture: the changes on this rank since the base, which is the newest complete revision of the nearest
//! level.
//!
//! Invariants: a shard shares blocks only with a revision that all roots keep until the shard is published; in case of
//! doubt the shard is saved whole.

use super::{
    attempt::Attempt,
    level::{Level, LevelKind},
    speculative::{Early, WaitForDurable, Way, hindrance},
};
use crate::{
    capture::{Base, BlockRun, ByHashes, Changes, Found, Plan, Region, Size, Written, audit, unseen_writer},
    commit::{Allocation, Complete, Ledger, Need, RUNS, RevisionKey, Shares},
    config::{Config, Predictor, Track},
    error::Result,
    ground::lock,
    place::{Shard, SpeculativePart},
    remark::remark,
    restore::base_of,
    space::{
        format::{FoundBy, SavedEarly},
        free::Blocks,
    },
};
use std::sync::{Arc, Mutex};

/// How to stage a shard if the next one may share blocks with it.
pub(super) struct StagingPlan {
    pub(super) base: Option<Arc<Base>>,
    /// `None`: the shard is staged whole.
    pub(super) plan: Option<Plan>,
    /// The changes are found only as the bytes come.
    pub(super) is_late: bool,
    /// Whether the next shard can be outlined.
    pub(super) is_indexed: bool,
}

/// The base for a shard that is compared as its bytes come, after t1. By default there is none.
#[derive(Default)]
pub(super) struct LateBase {
    key: Option<RevisionKey>,
    pub(super) base: Arc<Base>,
}

/// Finds changes, and plans which blocks a shard shares with the base.
#[derive(Debug)]
pub(super) struct ChangeTracker {
    way: Way,
    rank: usize,
    /// Whether the user promises that pages show all writes (`track = pages`).
    trusts_pages: bool,
    /// Early saving, before a checkpoint asks for it.
    pub(super) early: Option<Early>,
    /// The result of early saving in the interval before the last checkpoint.
    pub(super) saved_early: Option<SavedEarly>,
    /// The place of the early data, from t1 until the plan decides which blocks count.
    stopped: Option<SpeculativePart>,
    /// The most room that the next shard takes.
    whole: Need,
    /// The revision that was staged last, if no search for changes took place since.
    since: Option<RevisionKey>,
    /// Interval, in revisions, of the check that clean blocks are really unchanged; 0: never.
    audit: u64,
    /// The shard that was staged last.
    last: Option<Arc<Shard>>,
    /// A base that was read from the portion.
    read: Option<(RevisionKey, Arc<Base>)>,
}

/// A plan, with its base and its room.
pub(super) struct PlannedShard {
    pub(super) base: Arc<Base>,
    pub(super) plan: Plan,
    /// The blocks of the portion that were saved early and that the shard refers to.
    pub(super) early: Vec<Blocks>,
    /// The plan to use if there is no room beside the early blocks.
    pub(super) without: Option<Box<PlannedShard>>,
    /// The revision that shares its blocks, and its layout; `None` if no blocks are shared.
    of: Option<(RevisionKey, [u8; 16])>,
    /// The room, if it was found already.
    pub(super) room: Option<RoomBeside>,
}

impl PlannedShard {
    fn new(base: Arc<Base>, plan: Plan, of: Option<(RevisionKey, [u8; 16])>) -> PlannedShard {
        PlannedShard { base, plan, early: Vec::new(), without: None, of, room: None }
    }
}

/// Room for a shard, and the state of the portion when it was found.
pub(super) struct RoomBeside {
    /// A new ledger takes its place if a layout is made or mended.
    ledger: Arc<Mutex<Ledger>>,
    sequence: u64,
    held: Vec<RevisionKey>,
    retained: Vec<RevisionKey>,
    allocation: Allocation,
}

impl RoomBeside {
    pub(super) fn new(ledger: &Arc<Mutex<Ledger>>, retained: Vec<RevisionKey>, allocation: Allocation) -> RoomBeside {
        let (sequence, held) = {
            let ledger = lock(ledger);
            (ledger.position().0, ledger.held().to_vec())
        };
        RoomBeside { ledger: ledger.clone(), sequence, held, retained, allocation }
    }

    pub(super) fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Whether the portion is still in the state in which the room was found.
    pub(super) fn is_beside(&self, ledger: &Arc<Mutex<Ledger>>, retained: &[RevisionKey]) -> bool {
        let is_same = || {
            let ledger = lock(ledger);
            self.sequence == ledger.position().0 && self.held == ledger.held()
        };
        Arc::ptr_eq(&self.ledger, ledger) && self.retained == retained && is_same()
    }
}

impl ChangeTracker {
    /// `None` if revisions are saved whole. `rank`: this rank, for a remark to the user if the system does not report
    /// written pages.
    pub(super) fn new(config: &Config, rank: usize) -> Option<ChangeTracker> {
        if !config.capture.is_incremental() {
            return None;
        }
        let by_hashes: Box<dyn Changes> = Box::<ByHashes>::default();
        let way = match config.track {
            Track::Hashes => by_hashes,
            Track::Pages | Track::Auto => match written(config) {
                Ok(written) => Box::new(written),
                Err(why) => {
                    remark(
                        rank,
                        &format!(
                            "changes are found by hashes, because this system does not report written pages: {why}"
                        ),
                    );
                    by_hashes
                }
            },
        };
        let mut changing = ChangeTracker {
            way: Arc::new(Mutex::new(way)),
            rank,
            trusts_pages: config.track == Track::Pages,
            early: None,
            saved_early: None,
            stopped: None,
            whole: Need::ROOT,
            since: None,
            audit: config.audit.into(),
            last: None,
            read: None,
        };
        changing.distrust_pages();
        Some(changing)
    }

    /// Switches to comparison by hashes if something may write to memory unseen, unless the user rules that out. Call
    /// it before each query of the pages: a writer that was opened since may have written already.
    fn distrust_pages(&mut self) {
        if self.trusts_pages || self.found_by() != FoundBy::Pages {
            return;
        }
        let Some(writer) = unseen_writer() else { return };
        self.forget_early();
        self.early = None;
        *lock(&self.way) = Box::<ByHashes>::default();
        remark(
            self.rank,
            &format!(
                "what changed is found by hashes, as this process has {writer} open, which can write to its memory past the \
                 pages; if it does not write to what is protected, set track = pages"
            ),
        );
    }

    /// Starts early saving if the settings ask for it. `nearest`: the kind of the nearest level. A remark tells the
    /// user if early saving is impossible.
    pub(super) fn speculate(
        changing: &mut Option<ChangeTracker>,
        config: &Config,
        nearest: LevelKind,
        (rank, ranks): (usize, usize),
    ) {
        if config.predictor == Predictor::Off {
            return;
        }
        let is_by_pages = changing.as_ref().is_some_and(|changing| changing.found_by() == FoundBy::Pages);
        let begun = match (hindrance(config, nearest == LevelKind::Memory, is_by_pages), changing) {
            (None, Some(changing)) => {
                Early::new(config, changing.way.clone(), (rank, ranks)).map(|early| changing.early = Some(early))
            }
            (why, _) => Err(why.unwrap_or_default().to_owned()),
        };
        if let Err(why) = begun {
            remark(rank, &format!("nothing is saved early: {why}"));
        }
    }

    pub(super) fn found_by(&self) -> FoundBy {
        lock(&self.way).found_by()
    }

    /// The ranks take the maximum of this at t1, and all their turns get the same length (`begin_turns`).
    pub(super) fn early_batch_us(&self) -> u64 {
        self.early.as_ref().map_or(0, Early::batch_us)
    }

    /// Starts the turns; all ranks are in the same call now.
    pub(super) fn begin_turns(&self, early_batch_us: u64) {
        self.early.iter().for_each(|early| early.begin_turns(early_batch_us));
    }

    /// Stops early saving until the next revision is staged: at t1, or before roots may be written.
    pub(super) fn stop_early(&mut self) {
        self.stopped = self.early.as_ref().and_then(Early::stop);
    }

    /// The same, and drops the data that was saved early.
    pub(super) fn forget_early(&mut self) {
        self.early.iter().for_each(Early::forget);
        self.stopped = None;
    }

    /// Plans revision `number` of `regions` on `level`, at t1. `None`: save everything, in a shard of the size `whole`.
    /// `fills_later`: an I/O thread of this rank can complete an outline. Regions smaller than `small_below` are
    /// gathered apart. An error if an unchanged region turns out to have changed. Local.
    pub(super) fn plan(
        &mut self,
        (level, number, fills_later): (&Level, u64, bool),
        ranks: usize,
        regions: &[Region],
        whole: &Size,
        small_below: u64,
    ) -> Result<Option<PlannedShard>> {
        self.distrust_pages();
        let (since, stopped) = (self.since.take(), self.stopped.take());
        self.whole = Need::of(whole, RUNS);
        let before = level.saving.as_ref().and_then(Attempt::key);
        let complete = level.complete_with(before, ranks).first().copied().filter(|_| !level.is_doubted());
        let base = complete.and_then(|complete| Some((complete, self.base(level, complete.key, complete.layout)?)));
        let Some((Complete { key, layout, .. }, base)) = base else {
            // Start tracking before the plan scans for zeros: later writes then show up as changes.
            lock(&self.way).look(regions);
            let base = Arc::<Base>::default();
            let plan = Plan::new(regions, &base, vec![Vec::new(); regions.len()], whole, small_below);
            return Ok(plan.map(|plan| PlannedShard::new(base, plan, None)));
        };
        let (found, early) = {
            let mut way = lock(&self.way);
            let found = way.find(regions, &base, since == Some(key));
            let written = way.take_written();
            let early = self.early.as_ref().and_then(|early| early.end_interval(&written, stopped));
            // Without a search of the pages since the base, the early blocks cannot be trusted.
            (found, early.filter(|_| since == Some(key)))
        };
        let is_audited = self.is_audited(number);
        if fills_later && self.outlines() && !is_audited {
            let outline = Plan::outline(regions, &base, &found, whole, small_below);
            let planned = outline.map(|plan| PlannedShard::new(base.clone(), plan, Some((key, layout))));
            let found =
                planned.and_then(|planned| level.with_room(planned, whole, &level.complete_with(before, ranks)));
            if found.is_some() {
                return Ok(found);
            }
        }
        let clean = clean(regions, &base, &found);
        let planned = |base: Arc<Base>, clean: Vec<Vec<BlockRun>>| {
            let plan = Plan::new(regions, &base, clean, whole, small_below);
            plan.map(|plan| {
                let of = (!plan.shared.is_empty()).then_some((key, layout));
                PlannedShard::new(base, plan, of)
            })
        };
        let Some(early) = early else {
            if is_audited {
                audit(regions, &base, &found, &clean)?;
            }
            return Ok(planned(base, clean));
        };
        let (wide, mut all) = (Arc::new(early.beside(&base)), clean.clone());
        // A read past the page cache may have been under way during a search by the clock: compare the early blocks.
        let is_compared = self.early.as_ref().is_some_and(|early| early.looks_by_clock);
        early.add_to(regions, &mut all, is_compared.then_some(&*wide));
        if is_audited {
            audit(regions, &wide, &found, &all)?;
        }
        let with = planned(wide, all).and_then(|with| {
            let delta = early.delta_beside(&base, &with.plan.shared)?;
            let blocks = early.blocks_of(&with.plan.shared);
            (!blocks.is_empty()).then_some(PlannedShard { base: Arc::new(delta), early: blocks, ..with })
        });
        let without = planned(base, clean);
        Ok(match with {
            Some(with) => Some(PlannedShard { without: without.map(Box::new), ..with }),
            None => without,
        })
    }

    /// The base for a shard that begins on `level` and is compared as it comes. Call it at t1, once the revisions that
    /// stay until then are known. A damaged base is not used.
    pub(super) fn compared(&mut self, level: &Level) -> LateBase {
        let complete = level.complete.first().copied().filter(|_| !level.is_doubted());
        let base = complete.and_then(|complete| Some((complete.key, self.base(level, complete.key, complete.layout)?)));
        base.map_or_else(LateBase::default, |(key, base)| LateBase { key: Some(key), base })
    }

    /// Plans `regions` at the end of a checkpoint that began as revision `number`, if the bytes are compared with
    /// `compared`. `None`: save everything. Other parameters as in `plan`.
    pub(super) fn plan_late(
        &mut self,
        compared: &LateBase,
        number: u64,
        regions: &[Region],
        whole: &Size,
        small_below: u64,
    ) -> Result<Option<Plan>> {
        self.distrust_pages();
        let LateBase { key, base } = compared;
        let is_audited = self.is_audited(number);
        let mut way = lock(&self.way);
        let found = match key {
            Some(_) => way.find(regions, base, self.since.take() == *key),
            None => {
                way.look(regions);
                regions.iter().map(|_| Found::Clean(Vec::new())).collect()
            }
        };
        let clean = clean(regions, base, &found);
        if is_audited {
            audit(regions, base, &found, &clean)?;
        }
        Ok(Plan::new(regions, base, clean, whole, small_below))
    }

    /// Whether shards can be outlined: not with early saving, and not if every revision is checked.
    pub(super) fn outlines(&self) -> bool {
        self.early.is_none() && self.audit != 1
    }

    /// Whether revision `number` checks that pages reported as clean are really unchanged.
    fn is_audited(&self, number: u64) -> bool {
        self.audit > 0 && number.is_multiple_of(self.audit) && self.found_by() == FoundBy::Pages
    }

    /// The result of early saving in the interval that has ended, if early saving is on. `is_led_to`: the shard refers
    /// to early blocks.
    pub(super) fn tell_saved_early(&mut self, is_led_to: bool) -> Option<SavedEarly> {
        let last = self.early.as_ref().map(Early::last);
        self.saved_early = last.map(|last| SavedEarly { early: if is_led_to { last.early } else { 0 }, ..last });
        self.saved_early
    }

    /// The base for the revision `key` in the current portion.
    fn base(&mut self, level: &Level, key: RevisionKey, layout: [u8; 16]) -> Option<Arc<Base>> {
        let current = level.files.current.as_ref().filter(|current| current.layout_id == layout)?;
        if let Some(base) = self.last.as_ref().filter(|last| last.key() == key).and_then(|last| last.base()) {
            return Some(base);
        }
        if let Some((_, base)) = self.read.as_ref().filter(|(read, _)| *read == key) {
            return Some(base.clone());
        }
        let (portion, kept) = {
            let ledger = lock(current.ledgers.first()?);
            (ledger.portion().clone(), ledger.found().into_iter().find(|kept| kept.key() == key)?)
        };
        // Blocks that cannot be read are saved again.
        let base = Arc::new(base_of(&portion, &kept.entry).ok().flatten()?);
        self.read = Some((key, base.clone()));
        Some(base)
    }

    /// Notes that `shard` was staged from `regions`, at their current places, for `level`.
    pub(super) fn staged(&mut self, shard: &Arc<Shard>, level: &Level, regions: &[Region]) {
        lock(&self.way).saved(regions);
        self.stopped = None;
        if let Some(early) = &self.early {
            let (shard, whole) = (shard.clone(), self.whole);
            let after = level.current_ledgers().next().cloned().map(|ledger| WaitForDurable { shard, ledger, whole });
            early.begin_interval(after, regions);
        }
        (self.since, self.last, self.read) = (Some(shard.key()), Some(shard.clone()), None);
    }
}

impl PlannedShard {
    pub(super) fn in_room(self, room: RoomBeside) -> PlannedShard {
        PlannedShard { room: Some(room), ..self }
    }

    /// The plan for which this room was found; `None`: save everything.
    pub(super) fn for_room(self, allocation: &Allocation) -> Option<PlannedShard> {
        let planned = match self.without {
            Some(without) if allocation.early.is_empty() => *without,
            _ => self,
        };
        let is_outline = planned.plan.outline.is_some();
        let is_for = allocation.is_for(&planned.plan.size, &planned.plan.shared);
        (is_for && is_outline == allocation.is_outline).then_some(planned)
    }

    /// The blocks that the plan shares with the base.
    pub(super) fn shares(&self) -> Option<Shares<'_>> {
        match &self.plan.outline {
            None => Some(Shares::Runs(&self.plan.shared, &self.early)),
            Some(outline) => self.of.map(|(key, _)| Shares::AllBut(key, &outline.gone)),
        }
    }

    /// Whether the plan is valid in this layout if the `retained` revisions stay.
    pub(super) fn holds(&self, layout: [u8; 16], retained: &[RevisionKey]) -> bool {
        // An outline requires only that its base is the newest revision.
        let is_base = |key| match self.plan.outline {
            None => retained.contains(&key),
            Some(_) => retained.iter().max() == Some(&key),
        };
        self.of.is_none_or(|(key, of)| of == layout && is_base(key))
    }
}

/// The unchanged parts of each region, according to `found`.
fn clean(regions: &[Region], base: &Base, found: &[Found]) -> Vec<Vec<BlockRun>> {
    regions.iter().zip(found).map(|(region, found)| found.clean(region, base)).collect()
}

fn written(config: &Config) -> std::result::Result<Written, String> {
    match config.trace {
        None => Written::new(),
        Some(_) => Err("the kernel tells them to one alone, and they are traced".to_owned()),
    }
}
