//! The road from rank to rank, for a target of a rank's shard that another rank writes. The rank that writes is the
//! *holder*; the rank whose shard it is, is the holder's *ward*. A rank can have holders and wards, and can write
//! targets of its own besides. `lanes` is what a ward does, `wards` what a holder does, `words` what they tell each
//! other; which rank holds for which is decided apart from all of them (`aggregators`).
//!
//! What must hold: the ledger of a portion is with its owner, or, from the order until the answer, with the holder;
//! only collective calls send and receive; a shard that was handed over in one call is answered in the next.

mod aggregators;
mod lanes;
mod roles;
#[cfg(test)]
mod tests;
mod wards;
mod words;

use super::{
    domain::Domain,
    epoch::Epoch,
    inner::Inner,
    level::{Level, Levels},
    means::Means,
    settle::Attempt,
};
use crate::{
    capture::Region,
    config::Config,
    device::Device,
    error::Result,
    ground::Instant,
    group::{Group, agree},
    place::{Shard, Site, Writer},
    pool::Pool,
    stage::{Hands, Policy, Staging},
};
use lanes::{Fork, Lanes};
use roles::Roles;
use wards::Wards;

/// The longest piece that goes from rank to rank: every holder has room for one.
const PIECE_BYTES_MAX: u64 = 8 << 20;

/// What this rank does for other ranks, and they for it.
pub(super) struct Road {
    /// Whether any rank holds for another.
    is_used: bool,
    /// Whether this rank writes a target of its own shard.
    writes: bool,
    lanes: Lanes,
    wards: Wards,
}

impl Road {
    /// Finds out who holds for whom in this job. Collective.
    pub(super) fn find(group: &dyn Group, config: &Config, domain: &Domain, pool: Option<&Pool>) -> Result<Road> {
        let roles = aggregators::roles(group, config.aggregators, domain)?;
        let is_used = roles.is_some();
        let Roles { writes, holders, wards } = roles.unwrap_or(Roles::ALONE);
        // Pieces are whole blocks, and one fits into a chunk of every pool.
        let mut piece_bytes = pool.map_or(config.buffer_bytes, Pool::chunk_bytes).min(PIECE_BYTES_MAX);
        if is_used {
            let mut rest = [u64::MAX - piece_bytes];
            group.all_max(&mut rest)?;
            piece_bytes = u64::MAX - rest[0];
        }
        let wards = Wards::new(&wards, pool, piece_bytes);
        let wards = if is_used { agree(group, wards)? } else { wards? };
        Ok(Road { is_used, writes, lanes: Lanes::new(&holders, piece_bytes), wards })
    }

    /// How this rank stages; by `policy` if it writes for itself.
    pub(super) fn policy(&self, policy: Policy) -> Policy {
        if self.writes { policy } else { policy.handing_over(self.lanes.piece_bytes()) }
    }

    /// How many shards this rank puts into its pool: its own, and those of its wards, which are taken to be like it.
    pub(super) fn shards(&self) -> u64 {
        u64::from(self.writes) + self.wards.count()
    }

    /// Who writes this rank's shard, which has its room at `site`.
    pub(super) fn writers(&self, site: Site) -> Vec<(Writer, Site)> {
        let writer = if self.writes { Writer::Here } else { self.lanes.writer() };
        vec![(writer, site)]
    }

    /// Opens the portions of the wards in a layout. `file_of`: the file that a rank's portion lies in. Collective.
    pub(super) fn open(
        &mut self,
        group: &dyn Group,
        device: &dyn Device,
        file_of: impl Fn(usize) -> Option<String>,
    ) -> Result<()> {
        let opened = self.wards.open(device, file_of);
        if self.is_used { agree(group, opened) } else { Ok(()) }
    }
}

impl Inner {
    /// Has the checkpoint that was begun saved by this rank and its holders, and takes what its wards hand over.
    /// Collective.
    pub(super) fn stage_together(&mut self, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        self.epoch.road.lanes.await_news();
        let told = match staging {
            Ok(staging) => self.stage(staging, ready),
            Err(error) => {
                self.levels.nearest_mut().saving = Some(Attempt::Failed(error.clone()));
                self.epoch.road.lanes.decline(self.epoch.group.between_two(), &error).and(Err(error))
            }
        };
        told.and(self.epoch.serve(&self.means, &self.levels))
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
