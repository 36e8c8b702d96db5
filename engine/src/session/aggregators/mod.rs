//! Few ranks write for all (the setting `aggregators`). A *member* hands its shard over, over the group, to its
//! *aggregator*, which saves it in the member's portion as it saves its own.
//!
//! What must hold: the ledger of a portion is with its owner, or, from the order until the answer, with the
//! aggregator; only collective calls send and receive; what was handed over in one is answered in the next.

mod aggregator;
mod member;
mod words;

use super::{domain::Domain, epoch::Epoch, inner::Inner, level::Level};
use crate::{
    config::Config,
    device::Device,
    error::{Error, Result},
    group::{Group, agree},
    pool::Pool,
    stage::Staging,
};
use aggregator::Duty;

/// The longest piece that goes from rank to rank: each has room for one.
const PIECE_BYTES_MAX: u64 = 8 << 20;

/// Who writes for whom.
pub(super) struct Aggregators {
    /// Whether any rank writes for others.
    are_used: bool,
    part: Part,
    /// Of the pieces that go from rank to rank, whole blocks; one fits into a chunk of every pool.
    piece_bytes: u64,
}

enum Part {
    /// Writes for itself alone.
    Alone,
    Aggregator(Duty),
    /// `waits`: it has handed over, and was not answered yet.
    Member {
        aggregator: usize,
        waits: bool,
    },
}

impl Aggregators {
    /// Who writes for whom in this job. Collective.
    pub(super) fn find(
        group: &dyn Group,
        config: &Config,
        domain: &Domain,
        pool: Option<&Pool>,
    ) -> Result<Aggregators> {
        let (rank, ranks) = (group.rank(), group.size());
        let mut piece_bytes = pool.map_or(config.buffer_bytes, Pool::chunk_bytes).min(PIECE_BYTES_MAX);
        let of = |rank| aggregator_of(rank, ranks, config.aggregators as usize);
        if (0..ranks).all(|rank| of(rank) == rank) {
            return Ok(Aggregators { are_used: false, part: Part::Alone, piece_bytes });
        }
        agree(group, check_can_send(group).and_then(|()| check_in_sight(rank, of(rank), domain)))?;
        let mut rest = [u64::MAX - piece_bytes];
        group.all_max(&mut rest)?;
        piece_bytes = u64::MAX - rest[0];
        let members: Vec<usize> = (0..ranks).filter(|other| *other != rank && of(*other) == rank).collect();
        let part = if of(rank) != rank {
            Ok(Part::Member { aggregator: of(rank), waits: false })
        } else if members.is_empty() {
            Ok(Part::Alone)
        } else {
            Duty::new(&members, pool, piece_bytes).map(Part::Aggregator)
        };
        Ok(Aggregators { are_used: true, part: agree(group, part)?, piece_bytes })
    }

    /// Whether another rank writes for this one.
    pub(super) fn is_member(&self) -> bool {
        matches!(self.part, Part::Member { .. })
    }

    /// How many shards this rank puts into its pool: its own, and those of its members, which are taken to be like it.
    pub(super) fn shards(&self) -> u64 {
        match &self.part {
            Part::Aggregator(duty) => 1 + duty.members.len() as u64,
            Part::Alone => 1,
            Part::Member { .. } => 0,
        }
    }

    pub(super) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Opens the portions of the members in a layout. `file_of`: the file that a rank's portion lies in. Collective.
    pub(super) fn open(
        &mut self,
        group: &dyn Group,
        device: &dyn Device,
        file_of: impl Fn(usize) -> Option<String>,
    ) -> Result<()> {
        let opened = match &mut self.part {
            Part::Aggregator(duty) => duty.open(device, file_of),
            _ => Ok(()),
        };
        if self.are_used { agree(group, opened) } else { Ok(()) }
    }
}

impl Inner {
    /// Has what was begun saved, by this rank or by the one that writes for it, and takes what others hand over.
    /// Collective.
    pub(super) fn stage_together(&mut self, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        let told = match &mut self.epoch.aggregators.part {
            Part::Member { aggregator, waits } => {
                *waits = true;
                let aggregator = *aggregator;
                self.hand_over(aggregator, staging, ready)
            }
            _ => self.stage_here(staging, ready),
        };
        let served = self.epoch.serve(&self.means, &self.levels);
        told.and(served)
    }

    /// Waits for this rank's part of the last revision, and for those that it has under way for others; all ranks
    /// learn what became of theirs. Collective.
    pub(super) fn settle_together(&mut self) -> Result<()> {
        self.epoch.exchange_news(self.levels.nearest(), true)?;
        match &self.epoch.aggregators.part {
            // Its aggregator is in a call that waits for nothing, as the all-reduce is going to tell.
            Part::Member { waits: true, .. } => Ok(()),
            _ => self.levels.nearest_mut().settle(),
        }
    }
}

impl Epoch {
    /// Who was served learns what became of it; `waits_for_all`: once it has come to its end. Collective.
    pub(super) fn exchange_news(&mut self, level: &Level, waits_for_all: bool) -> Result<()> {
        match &mut self.aggregators.part {
            Part::Member { aggregator, waits } if *waits => {
                *waits = !level.hear_news(self.group.between_two(), *aggregator);
                Ok(())
            }
            Part::Member { .. } | Part::Alone => Ok(()),
            Part::Aggregator(duty) => duty.tell_news(self.group.between_two(), waits_for_all),
        }
    }
}

/// The rank that writes for `rank`: the first of as many neighbours as come to one of `aggregators`, so that the
/// ranks of a node tend to have the same.
fn aggregator_of(rank: usize, ranks: usize, aggregators: usize) -> usize {
    if aggregators == 0 || aggregators >= ranks {
        return rank;
    }
    let group = ((rank + 1) * aggregators - 1) / ranks;
    group * ranks / aggregators
}

fn check_can_send(group: &dyn Group) -> Result<()> {
    let why = "the group of this session has no send and receive, which those use that write for others; give it both, \
                or let each rank write for itself";
    if group.can_send() { Ok(()) } else { Err(Error::argument("aggregators", why)) }
}

fn check_in_sight(rank: usize, aggregator: usize, domain: &Domain) -> Result<()> {
    if domain.contains(aggregator) {
        return Ok(());
    }
    let why = format!(
        "rank {aggregator} would write for rank {rank}, and does not see its files; give each node an aggregator of its \
         own, or the space a directory that all nodes see"
    );
    Err(Error::argument("aggregators", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_an_aggregator() {
        let of = |ranks, aggregators| -> Vec<usize> {
            (0..ranks).map(|rank| aggregator_of(rank, ranks, aggregators)).collect()
        };
        assert_eq!(of(5, 2), [0, 0, 2, 2, 2]);
        assert_eq!(of(8, 3), [0, 0, 2, 2, 2, 5, 5, 5]);
        assert_eq!(of(4, 1), [0; 4]);
        assert_eq!(of(4, 3), [0, 1, 2, 2]);
        for each_for_itself in [0, 4, 5] {
            assert_eq!(of(4, each_for_itself), [0, 1, 2, 3]);
        }
    }
}
