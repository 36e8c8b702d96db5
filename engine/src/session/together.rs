//! What a rank, its holders and its wards do together over the road: staging a shard, and learning what became of it.

use super::{attempt::Attempt, epoch::Epoch, inner::Inner, level::Level, levels::Levels, means::Means, road::Fork};
use crate::{
    capture::Region,
    error::Result,
    ground::Instant,
    place::Shard,
    stage::{Hands, Staging},
};
use std::time::Duration;

impl Inner {
    /// Has the checkpoint that was begun saved by this rank and its holders, and takes what its wards hand over.
    /// Collective.
    pub(super) fn stage_together(&mut self, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        self.epoch.road.lanes.await_news();
        let told = match staging {
            Ok(staging) => self.stage(staging, ready),
            Err(error) => {
                self.means.end_copying();
                self.levels.nearest_mut().saving = Some(Attempt::Failed(error.clone()));
                self.epoch.road.lanes.decline(self.epoch.group.between_two(), &error).and(Err(error))
            }
        };
        let begun = Instant::now();
        let served = self.epoch.serve(&self.means, &self.levels);
        if let Some(shard) = self.levels.nearest().running().filter(|_| self.epoch.road.wards.are_there()) {
            // Its own part was staged, and the program has waited for the others'.
            shard.note_resumed_late(Duration::from_nanos(shard.phases().resume_ns) + begun.elapsed());
        }
        told.and(served)
    }

    /// Does `work` with the regions and with what staging takes: what is staged goes to all targets.
    pub(super) fn with_outlet<T>(&mut self, work: impl FnOnce(&mut Hands<'_>, &[Region]) -> T) -> T {
        let Inner { program, means, epoch, levels, .. } = self;
        let (group, lanes) = (epoch.group.between_two(), &mut epoch.road.lanes);
        means.with_hands(levels, |Hands { pool, reclaim, outlet }| {
            let mut fork = Fork { here: &mut **outlet, group, lanes };
            work(&mut Hands { pool: *pool, reclaim: *reclaim, outlet: &mut fork }, program.regions.all())
        })
    }

    /// Waits for this rank's part of the last revision on the nearest level, and for the shards of its wards; all ranks
    /// learn what became of their own. Collective.
    pub(super) fn settle_together(&mut self) -> Result<()> {
        self.exchange_news(true)?;
        self.levels.nearest_mut().settle()
    }

    /// Tells the wards what became of the shards that they handed over; with `waits`, once those have come to their
    /// end. Collective.
    pub(super) fn exchange_news(&mut self, waits: bool) -> Result<()> {
        let Inner { epoch, levels, .. } = self;
        let (group, lanes, shard) = (epoch.group.between_two(), &mut epoch.road.lanes, levels.nearest().running());
        // All ranks exchange in one order, by holder and ward: of two that hold for each other one hears first.
        lanes.hear_news(group, shard, |holder| holder < group.rank());
        epoch.road.wards.tell_news(group, waits)?;
        lanes.hear_news(group, shard, |holder| holder > group.rank());
        Ok(())
    }
}

impl Epoch {
    /// Takes what the wards hand over. Collective.
    fn serve(&mut self, means: &Means, levels: &Levels) -> Result<()> {
        let (group, level) = (self.group.between_two(), levels.nearest());
        let started = level.running().map_or_else(Instant::now, Shard::started);
        let wards = &mut self.road.wards;
        means.with_hands(levels, |hands| wards.serve(group, &*level.device, hands, started))
    }
}

impl Level {
    /// The shard of the revision under way.
    fn running(&self) -> Option<&Shard> {
        match &self.saving {
            Some(Attempt::Running(shard)) => Some(shard),
            _ => None,
        }
    }
}
