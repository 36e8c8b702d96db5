//! Opens the levels that were left for later.
//!
//! Invariants: every level is open under the lineage of the session before its first revision; no other job gets a
//! space that this rank had locked.

use super::{
    entry::Call,
    level::Level,
    looked::Looked,
    ranks::Entered,
    requests::Listener,
    state::SessionState,
    status_reporter::{StatusReporter, node_locations_of},
};
use crate::{config::DiskLost, error::Result, feed::Feeder, ground::threads_at_once, group::agree, remark::remark};

impl SessionState {
    /// Opens the levels that were left for later, as a part of `call`, which has arrived. Collective.
    pub(super) fn open_later_in(&mut self, call: Call) -> Result<()> {
        if self.later.is_none() {
            return Ok(());
        }
        let entry = self.meet(call)?;
        self.open_later(&entry)
    }

    /// The same in a call that all ranks have entered. After an error the levels may remain for a later call.
    /// Collective.
    pub(super) fn open_later(&mut self, entry: &Entered) -> Result<()> {
        // The job goes on with the revisions in memory. Revisions that were only on disks of lost nodes are lost; a
        // remark says so.
        let goes_on = self.levels.iter().flat_map(Level::keys).next().is_some();
        self.open_later_with(entry, if goes_on { DiskLost::Accepted } else { self.program.config.disk_lost })
    }

    /// The same if no revision in memory came back.
    pub(super) fn open_later_to_restore(&mut self, entry: &Entered) -> Result<()> {
        self.open_later_with(entry, self.program.config.disk_lost)
    }

    fn open_later_with(&mut self, entry: &Entered, disk_lost: DiskLost) -> Result<()> {
        let Some(later) = &mut self.later else { return Ok(()) };
        let (group, lineage, config) = (self.epoch.group.with(entry), self.epoch.lineage, &self.program.config);
        let (which, kept) = (later.from..later.plans.len(), Some(&mut later.carryover.kept));
        let known = self.levels.iter().flat_map(Level::keys).max();
        let note = later.note.as_ref();
        let mut looked = Looked::at_all(group, &later.plans, which, note, config, self.program.holds_copies, kept)?;
        let lost = Looked::check_all(group, &mut looked, config, disk_lost, known, later.note.as_ref())?;
        lost.iter().for_each(|what| remark(group.rank(), &format!("the job had gone on without it: {what}")));
        let places = self.levels.iter().filter_map(Level::place).chain(looked.iter().filter_map(Looked::place));
        let node_locations = node_locations_of(group, later.note.as_mut(), self.epoch.node as usize, places, lineage)?;
        let levels = looked.into_iter().map(|looked| looked.take_over(group, lineage)).collect::<Result<Vec<_>>>()?;
        let threads = threads_at_once(group.ranks_here());
        let feeders: Vec<Feeder> = agree(group, levels.iter().map(|_| Feeder::start(threads)).collect())?;
        self.levels.extend(levels);
        self.levels.note = later.note.take();
        self.resources.feeders.extend(feeders);
        // From here on the levels are open, even if a later step fails.
        let past = self.later.take().and_then(|later| later.carryover.past);
        self.announcer.waits = false;
        if self.program.due.listener.is_none() {
            self.program.due.listener =
                Listener::begin(group.rank(), &*self.levels.farthest().location.device, lineage);
        }
        let SessionState { epoch, levels, .. } = self;
        levels.iter_mut().for_each(|level| level.acknowledge(epoch));
        let group = self.epoch.group.with(entry);
        let mut reporter =
            node_locations.map(|all| StatusReporter::start(group, &all, &self.levels)).transpose()?.flatten();
        if let (Some(reporter), Some(past)) = (&mut reporter, past) {
            reporter.take_over(past);
        }
        self.announcer.reporter = reporter;
        self.tell();
        Ok(())
    }
}
