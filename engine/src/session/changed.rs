//! With incremental capture: what changed on this rank since the revision that the next one builds on, which is the
//! newest complete one of the nearest level.
//!
//! What must hold: a shard shares blocks only with a revision that all roots keep until the shard is published; where
//! anything is in doubt all is saved.

use super::{
    attempt::Attempt,
    early::{After, Early, Way, hindrance},
    level::{Level, LevelKind},
};
use crate::{
    capture::{Base, ByHashes, Changes, Found, Lies, Plan, Region, Size, Written, audit, unseen_writer},
    commit::{Allocation, Complete, Ledger, Need, RUNS, RevisionKey, Shares},
    config::{Config, Predictor, Track},
    error::Result,
    ground::lock,
    place::{EarlyPart, Shard},
    remark::remark,
    restore::base_of,
    space::{
        format::{FoundBy, SavedEarly},
        free::Blocks,
    },
};
use std::sync::{Arc, Mutex};

/// How a shard is staged whose successor may share blocks with it.
pub(super) struct Changed {
    pub(super) base: Option<Arc<Base>>,
    /// `None`: whole.
    pub(super) plan: Option<Plan>,
    /// What changed is found only as it comes.
    pub(super) is_late: bool,
    /// Whether the next shard can be outlined.
    pub(super) is_indexed: bool,
}

/// What a shard is compared with whose bytes come only after t1; by default with nothing.
#[derive(Default)]
pub(super) struct Compared {
    key: Option<RevisionKey>,
    pub(super) base: Arc<Base>,
}

/// What shares blocks with what.
#[derive(Debug)]
pub(super) struct Changing {
    way: Way,
    rank: usize,
    /// Whether the user says that nothing writes past the pages.
    trusts_pages: bool,
    /// What is saved before a checkpoint asks for it.
    pub(super) early: Option<Early>,
    /// What that came to in the interval before the last checkpoint.
    pub(super) saved_early: Option<SavedEarly>,
    /// Where that lies, from t1 on until it is decided what of it counts.
    stopped: Option<EarlyPart>,
    /// What the next shard takes at most.
    whole: Need,
    /// What was saved last, if nobody has looked since.
    since: Option<RevisionKey>,
    /// Every how many revisions it is checked what is called clean; 0: never.
    audit: u64,
    /// The shard that was staged last.
    last: Option<Arc<Shard>>,
    /// What was read from the portion.
    read: Option<(RevisionKey, Arc<Base>)>,
}

/// A plan, and where it holds.
pub(super) struct PlannedShard {
    pub(super) base: Arc<Base>,
    pub(super) plan: Plan,
    /// The blocks of the portion that were saved early, and what leads to them.
    pub(super) early: Vec<Blocks>,
    /// What is to be done if there is no room beside these.
    pub(super) without: Option<Box<PlannedShard>>,
    /// The revision that it shares blocks with, and the layout that has it; `None` if it shares none.
    of: Option<(RevisionKey, [u8; 16])>,
    /// Where room was looked for already.
    pub(super) room: Option<RoomBeside>,
}

/// Room for a shard, and what is there besides.
pub(super) struct RoomBeside {
    /// Another one comes where a layout is made or mended.
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

    /// Whether nothing else is there by now.
    pub(super) fn is_beside(&self, ledger: &Arc<Mutex<Ledger>>, retained: &[RevisionKey]) -> bool {
        let is_same = || {
            let ledger = lock(ledger);
            self.sequence == ledger.position().0 && self.held == ledger.held()
        };
        Arc::ptr_eq(&self.ledger, ledger) && self.retained == retained && is_same()
    }
}

impl Changing {
    /// `None` if revisions are saved whole. `rank`: this one's, which may tell the user that pages are not told here.
    pub(super) fn new(config: &Config, rank: usize) -> Option<Changing> {
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
                        &format!("what changed is found by hashes, as written pages are not told here: {why}"),
                    );
                    by_hashes
                }
            },
        };
        let mut changing = Changing {
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

    /// Finds by hashes what changed, from here on, where something may write to memory unseen, unless the user says that
    /// nothing does. To be called before pages are asked: what was opened since may have written already.
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

    /// Has what will not be written again saved early, as the settings say, where `nearest` is the nearest level. Why that
    /// cannot be is told to the user.
    pub(super) fn speculate(
        changing: &mut Option<Changing>,
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

    /// What the ranks compare by a maximum at t1, so that all have turns of one length (`begin_turns`).
    pub(super) fn early_batch_us(&self) -> u64 {
        self.early.as_ref().map_or(0, Early::batch_us)
    }

    /// All ranks meet now.
    pub(super) fn begin_turns(&self, early_batch_us: u64) {
        self.early.iter().for_each(|early| early.begin_turns(early_batch_us));
    }

    /// At t1, or where roots may be written: nothing is saved early from here on until the next revision is staged.
    pub(super) fn stop_early(&mut self) {
        self.stopped = self.early.as_ref().and_then(Early::stop);
    }

    /// The same, and what was saved early is given up.
    pub(super) fn forget_early(&mut self) {
        self.early.iter().for_each(Early::forget);
        self.stopped = None;
    }

    /// What is to be saved of `regions` as revision `number` on `level`, at t1; `None`: all, which takes a shard of the
    /// size `whole`. `fills_later`: an I/O thread of this rank can fill in what an outline leaves to it. What is smaller than
    /// `small_below` is gathered apart. An error if a region changed that was called unchanged. Local.
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
            // From here on it is told what is written: what is zero then is so now.
            lock(&self.way).look(regions);
            let base = Arc::<Base>::default();
            let plan = Plan::new(regions, &base, vec![Vec::new(); regions.len()], whole, small_below);
            return Ok(plan.map(|plan| PlannedShard {
                base,
                plan,
                early: Vec::new(),
                without: None,
                of: None,
                room: None,
            }));
        };
        let (found, early) = {
            let mut way = lock(&self.way);
            let found = way.find(regions, &base, since == Some(key));
            let told = way.told();
            let early = self.early.as_ref().and_then(|early| early.end_interval(&told, stopped));
            // What pages do not tell was not asked of them since.
            (found, early.filter(|_| since == Some(key)))
        };
        let is_audited = self.is_audited(number);
        if fills_later && self.outlines() && !is_audited {
            let outline = Plan::outline(regions, &base, &found, whole, small_below);
            let base = base.clone();
            let of = Some((key, layout));
            let planned =
                outline.map(|plan| PlannedShard { base, plan, early: Vec::new(), without: None, of, room: None });
            let found =
                planned.and_then(|planned| level.with_room(planned, whole, &level.complete_with(before, ranks)));
            if found.is_some() {
                return Ok(found);
            }
        }
        let clean = clean(regions, &base, &found);
        let planned = |base: Arc<Base>, clean: Vec<Vec<Lies>>| {
            let plan = Plan::new(regions, &base, clean, whole, small_below);
            plan.map(|plan| {
                let of = (!plan.shared.is_empty()).then_some((key, layout));
                PlannedShard { base, plan, early: Vec::new(), without: None, of, room: None }
            })
        };
        let Some(early) = early else {
            if is_audited {
                audit(regions, &base, &found, &clean)?;
            }
            return Ok(planned(base, clean));
        };
        let (wide, mut all) = (Arc::new(early.beside(&base)), clean.clone());
        // A read past the page cache may have been under way when the clock had the pages looked at.
        let is_compared = self.early.as_ref().is_some_and(|early| early.looks_by_clock);
        early.add_to(regions, &mut all, is_compared.then_some(&*wide));
        if is_audited {
            audit(regions, &wide, &found, &all)?;
        }
        let with = planned(wide, all).and_then(|with| {
            let led = early.led_to_beside(&base, &with.plan.shared)?;
            let blocks = early.blocks_of(&with.plan.shared);
            (!blocks.is_empty()).then_some(PlannedShard { base: Arc::new(led), early: blocks, ..with })
        });
        let without = planned(base, clean);
        Ok(match with {
            Some(with) => Some(PlannedShard { without: without.map(Box::new), ..with }),
            None => without,
        })
    }

    /// What a shard that is begun on `level` is compared with as it comes: at t1, once it is known which revisions stay until it
    /// is complete. What is damaged there is compared with nothing.
    pub(super) fn compared(&mut self, level: &Level) -> Compared {
        let complete = level.complete.first().copied().filter(|_| !level.is_doubted());
        let base = complete.and_then(|complete| Some((complete.key, self.base(level, complete.key, complete.layout)?)));
        base.map_or_else(Compared::default, |(key, base)| Compared { key: Some(key), base })
    }

    /// What is to be saved of `regions` at the end of a checkpoint that was begun as revision `number`, whose bytes are
    /// compared with `compared`; `None`: all. The rest as of `plan`.
    pub(super) fn plan_late(
        &mut self,
        compared: &Compared,
        number: u64,
        regions: &[Region],
        whole: &Size,
        small_below: u64,
    ) -> Result<Option<Plan>> {
        self.distrust_pages();
        let Compared { key, base } = compared;
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

    /// Whether shards can be outlined: nothing is asked of each part.
    pub(super) fn outlines(&self) -> bool {
        self.early.is_none() && self.audit != 1
    }

    /// Whether it is checked in revision `number` what the pages call clean.
    fn is_audited(&self, number: u64) -> bool {
        self.audit > 0 && number.is_multiple_of(self.audit) && self.found_by() == FoundBy::Pages
    }

    /// What saving early came to in the interval that has ended, if anything can be saved early. `is_led_to`: the shard leads
    /// to what was.
    pub(super) fn tell_saved_early(&mut self, is_led_to: bool) -> Option<SavedEarly> {
        let last = self.early.as_ref().map(Early::last);
        self.saved_early = last.map(|last| SavedEarly { early: if is_led_to { last.early } else { 0 }, ..last });
        self.saved_early
    }

    /// What the revision `key` has in the current portion.
    fn base(&mut self, level: &Level, key: RevisionKey, layout: [u8; 16]) -> Option<Arc<Base>> {
        let current = level.current.as_ref().filter(|current| current.layout_id == layout)?;
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
        // What cannot be read is saved once more.
        let base = Arc::new(base_of(&portion, &kept.entry).ok().flatten()?);
        self.read = Some((key, base.clone()));
        Some(base)
    }

    /// `shard` was staged of `regions` for `level`, as they lie now.
    pub(super) fn staged(&mut self, shard: &Arc<Shard>, level: &Level, regions: &[Region]) {
        lock(&self.way).saved(regions);
        self.stopped = None;
        if let Some(early) = &self.early {
            let (shard, whole) = (shard.clone(), self.whole);
            let after = level.current_ledgers().next().cloned().map(|ledger| After { shard, ledger, whole });
            early.begin_interval(after, regions);
        }
        (self.since, self.last, self.read) = (Some(shard.key()), Some(shard.clone()), None);
    }
}

impl PlannedShard {
    pub(super) fn in_room(self, room: RoomBeside) -> PlannedShard {
        PlannedShard { room: Some(room), ..self }
    }

    /// The plan for which this room was found; `None`: all is saved.
    pub(super) fn for_room(self, allocation: &Allocation) -> Option<PlannedShard> {
        let planned = match self.without {
            Some(without) if allocation.early.is_empty() => *without,
            _ => self,
        };
        let is_outline = planned.plan.outline.is_some();
        let is_for = allocation.is_for(&planned.plan.size, &planned.plan.shared);
        (is_for && is_outline == allocation.is_outline).then_some(planned)
    }

    /// What it shares with the revision before.
    pub(super) fn shares(&self) -> Option<Shares<'_>> {
        match &self.plan.outline {
            None => Some(Shares::Runs(&self.plan.shared, &self.early)),
            Some(outline) => self.of.map(|(key, _)| Shares::AllBut(key, &outline.gone)),
        }
    }

    /// Whether it holds beside these `retained` revisions, in this layout.
    pub(super) fn holds(&self, layout: [u8; 16], retained: &[RevisionKey]) -> bool {
        // An outline says nothing else of its base than that it is the newest.
        let is_base = |key| match self.plan.outline {
            None => retained.contains(&key),
            Some(_) => retained.iter().max() == Some(&key),
        };
        self.of.is_none_or(|(key, of)| of == layout && is_base(key))
    }
}

/// What did not change of each region, as of `found`.
fn clean(regions: &[Region], base: &Base, found: &[Found]) -> Vec<Vec<Lies>> {
    regions.iter().zip(found).map(|(region, found)| found.clean(region, base)).collect()
}

fn written(config: &Config) -> std::result::Result<Written, String> {
    match config.trace {
        None => Written::new(),
        Some(_) => Err("the kernel tells them to one alone, and they are traced".to_owned()),
    }
}
