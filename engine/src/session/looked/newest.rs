//! Chooses the layout with which the ranks go on. It is the newest layout that all writing ranks see, or one with lost
//! portions, which are then made again.
//!
//! Invariant: all ranks choose the same layout, from the reports of all.

use super::super::level::Writers;
use crate::restore::ShardSet;
use serde::{Deserialize, Serialize};

/// A rank's findings in the newest layout that it sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Newest {
    pub(super) layout_number: u64,
    pub(super) layout_id: [u8; 16],
    /// This rank may go on writing into the layout.
    pub(super) writable: bool,
    /// One of this rank's portions has saved data, or another job has gone on there.
    pub(super) is_used: bool,
    /// The shards with a portion in sight, on one of the ranks that see the same files. They are gathered apart from
    /// the rest, which is mostly the same on all ranks.
    #[serde(skip)]
    pub(super) seen: ShardSet,
}

impl Newest {
    pub(super) fn is_of(&self, other: &Newest) -> bool {
        (self.layout_number, self.layout_id) == (other.layout_number, other.layout_id)
    }

    /// Each rank's findings in its newest layout. `reported` has all layouts of each rank, the newest last. Leaves out a
    /// layout without saved data that not all ranks can write to. A job that was killed while it made a larger layout
    /// leaves such a one. Then the layout before it is used.
    pub(super) fn of_all(mut reported: Vec<Vec<Newest>>, writers: &Writers) -> Vec<Newest> {
        loop {
            let last: Vec<Newest> = reported.iter().map(|own| own.last().cloned().unwrap_or_default()).collect();
            let newest = last.iter().max_by_key(|newest| (newest.layout_number, newest.layout_id)).cloned();
            let Some(newest) = newest.filter(|newest| newest.layout_number > 0) else { return last };
            if last.iter().any(|own| own.is_of(&newest) && own.is_used) || Newest::is_shared(&last, writers) {
                return last;
            }
            reported.iter_mut().for_each(|own| drop(own.pop_if(|own| own.is_of(&newest))));
        }
    }

    /// Whether all writing ranks go on with one layout. `reported` has the findings of all ranks, or of one rank if all
    /// are the same: then either all ranks write, or none can.
    pub(super) fn is_shared(reported: &[Newest], writers: &Writers) -> bool {
        let mut found = writing(reported, writers).map(|(_, newest)| newest);
        let Some(first) = found.next() else { return false };
        first.writable && found.all(|other| other.writable && other.is_of(first))
    }

    /// The newest layout that a rank may go on writing into, if no rank has another one that is as new. With this
    /// layout the ranks may go on once missing portions are made again.
    pub(super) fn to_mend(reported: &[Newest]) -> Option<Newest> {
        let newest = reported.iter().filter(|newest| newest.writable).max_by_key(|newest| newest.layout_number)?;
        let is_older = |other: &Newest| other.layout_number < newest.layout_number;
        reported.iter().all(|other| other.is_of(newest) || is_older(other)).then(|| newest.clone())
    }

    /// Whether all ranks go on with this layout once missing portions are made again: those that no rank sees. They were
    /// lost with their nodes. The other portions are unchanged. `seen`: the shards with portions that any rank sees.
    pub(super) fn can_be_mended(&self, reported: &[Newest], seen: &ShardSet, writers: &Writers) -> bool {
        let goes_on = |rank: usize| reported.get(rank).is_none_or(|own| own.writable && own.is_of(self));
        seen.stretches().flatten().all(|shard| goes_on(writers.of(shard as usize)))
    }
}

/// The findings of the ranks that write shards.
fn writing<'a>(reported: &'a [Newest], writers: &Writers) -> impl Iterator<Item = (usize, &'a Newest)> {
    let writing = writers.writing(reported.len());
    reported.iter().enumerate().filter(move |(rank, _)| writing.contains(rank))
}
