//! Levels that are opened later: where a job goes on from the memory of its nodes after ranks have failed, the farther
//! levels wait until one is needed.
//!
//! What must hold: every level is open under the lineage of the session before its first revision; nobody else gets a
//! space meanwhile of which this rank had a lock.

use super::{
    domain::Domain,
    entry::{Call, Entry},
    inner::Inner,
    level::{Level, LevelKind, LevelPlan},
    looked::Looked,
    places::Note,
    recover::Remains,
    requests::Listener,
    telling::{Telling, Whereabouts},
};
use crate::{
    device::Device,
    error::Result,
    feed::Feeder,
    group::{Group, agree},
    space::format::Lineage,
};

pub(super) struct Later {
    /// Of all levels of the session, the nearest first.
    pub(super) plans: Vec<LevelPlan>,
    /// The first that is opened later.
    pub(super) from: usize,
    pub(super) note: Option<Note>,
    /// What this rank has of these levels from before.
    pub(super) remains: Remains,
}

impl Later {
    /// Whether one of these levels is of this kind.
    pub(super) fn has(&self, kind: LevelKind) -> bool {
        self.plans[self.from..].iter().any(|plan| plan.kind == kind)
    }
}

impl Inner {
    /// Opens the levels that were left for later, as a part of `call`, which has arrived. Collective.
    pub(super) fn open_later_in(&mut self, call: Call) -> Result<()> {
        if self.later.is_none() {
            return Ok(());
        }
        let entry = self.meet(call)?;
        self.open_later(&entry)
    }

    /// The same in a call that all ranks are in. An error leaves the levels for later still. Collective.
    pub(super) fn open_later(&mut self, entry: &Entry) -> Result<()> {
        let Some(later) = &mut self.later else { return Ok(()) };
        let (group, lineage, config) = (self.epoch.group.with(entry), self.epoch.lineage, &self.program.config);
        let (which, kept) = (later.from..later.plans.len(), Some(&mut later.remains.kept));
        let known = self.levels.iter().flat_map(Level::keys).max();
        let mut looked = Looked::at_all(group, &later.plans, which, config, self.program.holds_copies, kept)?;
        Looked::check_all(group, &mut looked, config, known)?;
        let places = self.levels.iter().filter_map(Level::place).chain(looked.iter().filter_map(Looked::place));
        let whereabouts = whereabouts_of(group, later.note.as_mut(), self.epoch.node as usize, places, lineage)?;
        let levels = looked.into_iter().map(|looked| looked.take_over(group, lineage)).collect::<Result<Vec<_>>>()?;
        let feeders: Vec<Feeder> = agree(group, levels.iter().map(|_| Feeder::start()).collect())?;
        self.levels.extend(levels);
        self.levels.note = later.note.take();
        self.means.feeders.extend(feeders);
        let mut telling = whereabouts.map(|all| Telling::start(group, &all, &self.levels)).transpose()?.flatten();
        if let (Some(telling), Some(past)) = (&mut telling, later.remains.past.take()) {
            telling.take_over(past);
        }
        self.levels.telling = telling;
        self.levels.is_partial = false;
        if self.program.due.listener.is_none() {
            self.program.due.listener = Listener::begin(group, &*self.levels.farthest().device, lineage);
        }
        self.later = None;
        let Inner { epoch, levels, .. } = self;
        levels.iter_mut().for_each(|level| level.acknowledge(epoch));
        self.tell();
        Ok(())
    }
}

/// Where the levels at `places` lie, which `note` says from now on, with the lineage that begins there; `None` without a
/// note, or with one level. `node`: the lowest rank of this rank's node. Collective.
pub(super) fn whereabouts_of<'a>(
    group: &dyn Group,
    note: Option<&mut Note>,
    node: usize,
    places: impl Iterator<Item = (LevelKind, &'a Domain, &'a dyn Device)>,
    lineage: Lineage,
) -> Result<Option<Whereabouts>> {
    let Some(note) = note else { return Ok(None) };
    let whereabouts = Whereabouts::of_all(group, node, places)?;
    whereabouts.note(note);
    note.begin(group, lineage.number)?;
    // With one level, nothing is told of how it stands.
    Ok(Some(whereabouts).filter(Whereabouts::has_several))
}
