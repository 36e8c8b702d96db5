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

use super::domain::Domain;
use crate::{
    config::Config,
    device::Device,
    error::Result,
    group::{Group, agree},
    place::{Site, Writer},
    pool::Pool,
    stage::Policy,
};
pub(super) use lanes::Fork;
use lanes::Lanes;
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
    pub(super) lanes: Lanes,
    pub(super) wards: Wards,
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

    /// Whether this rank writes its own shard.
    pub(super) fn writes_own(&self) -> bool {
        self.writes
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
