//! With incremental capture: what changed on this rank since the revision that the next one builds on, which is the
//! newest complete one of the nearest level.
//!
//! What must hold: a shard shares blocks only with a revision that all roots keep until the shard is published; where
//! anything is in doubt all is saved.

use super::{level::Level, settle::Attempt};
use crate::{
    capture::{Base, Changes, Hashes, Plan, Region, Size, Written, audit},
    commit::{Complete, RevisionKey},
    config::{Config, Track},
    error::Result,
    ground::lock,
    place::Shard,
    remark::remark,
    restore::base_of,
    space::format::FoundBy,
};
use std::sync::Arc;

/// How a shard is staged whose successor may share blocks with it.
pub(super) struct Changed {
    pub(super) base: Option<Arc<Base>>,
    /// `None`: whole.
    pub(super) plan: Option<Plan>,
}

/// What shares blocks with what.
#[derive(Debug)]
pub(super) struct Changing {
    way: Box<dyn Changes>,
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
pub(super) struct Planned {
    pub(super) base: Arc<Base>,
    pub(super) plan: Plan,
    /// The revision that it shares blocks with, and the layout that has it; `None` if it shares none.
    of: Option<(RevisionKey, [u8; 16])>,
}

impl Changing {
    /// `None` if revisions are saved whole. `rank`: this one's, which may tell the user that pages are not told here.
    pub(super) fn new(config: &Config, rank: usize) -> Option<Changing> {
        if !config.capture.is_incremental() {
            return None;
        }
        let way: Box<dyn Changes> = match config.track {
            Track::Hashes => Box::<Hashes>::default(),
            track => match written(config) {
                Ok(written) => Box::new(written),
                Err(why) => {
                    if track == Track::Pages {
                        remark(
                            rank,
                            &format!("what changed is found by hashes, as written pages are not told here: {why}"),
                        );
                    }
                    Box::<Hashes>::default()
                }
            },
        };
        Some(Changing { way, since: None, audit: config.audit.into(), last: None, read: None })
    }

    pub(super) fn found_by(&self) -> FoundBy {
        self.way.found_by()
    }

    /// What is to be saved of `regions` as revision `number` on `level`, at t1; `None`: all, which takes a shard of the
    /// size `whole`. What is smaller than `small_below` is gathered apart. An error if a region changed that was called
    /// unchanged. Local.
    pub(super) fn plan(
        &mut self,
        (level, number): (&Level, u64),
        ranks: usize,
        regions: &[Region],
        whole: &Size,
        small_below: u64,
    ) -> Result<Option<Planned>> {
        let since = self.since.take();
        let before = level.saving.as_ref().and_then(Attempt::key);
        let complete = level.complete_with(before, ranks).first().copied();
        let base = complete.and_then(|complete| Some((complete, self.base(level, complete.key, complete.layout)?)));
        let Some((Complete { key, layout, .. }, base)) = base else {
            // From here on it is told what is written: what is zero then is so now.
            self.way.look(regions);
            let base = Arc::<Base>::default();
            let plan = Plan::new(regions, &base, vec![Vec::new(); regions.len()], whole, small_below);
            return Ok(plan.map(|plan| Planned { base, plan, of: None }));
        };
        let clean = self.way.clean(regions, &base, since == Some(key));
        if self.audit > 0 && number.is_multiple_of(self.audit) {
            audit(regions, &base, &clean)?;
        }
        let plan = Plan::new(regions, &base, clean, whole, small_below);
        Ok(plan.map(|plan| Planned { base, of: (!plan.shared.is_empty()).then_some((key, layout)), plan }))
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

    /// `shard` was staged of `regions`, as they lie now.
    pub(super) fn staged(&mut self, shard: &Arc<Shard>, regions: &[Region]) {
        self.way.saved(regions);
        (self.since, self.last, self.read) = (Some(shard.key()), Some(shard.clone()), None);
    }
}

impl Planned {
    /// Whether it holds beside these `retained` revisions, in this layout.
    pub(super) fn holds(&self, layout: [u8; 16], retained: &[RevisionKey]) -> bool {
        self.of.is_none_or(|(key, of)| of == layout && retained.contains(&key))
    }
}

fn written(config: &Config) -> std::result::Result<Written, String> {
    match config.trace {
        None => Written::new(),
        Some(_) => Err("the kernel tells them to one alone, and they are traced".to_owned()),
    }
}
