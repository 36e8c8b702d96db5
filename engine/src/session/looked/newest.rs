//! Which layout the ranks go on with: the newest that all who write see, or one of which the portions that went with their nodes are
//! made again.
//!
//! What must hold: all ranks come to the same layout from what all have told.

use super::super::level::Writers;
use serde::{Deserialize, Serialize};

/// What a rank found in the newest layout that it sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Newest {
    pub(super) layout_number: u64,
    pub(super) layout_id: [u8; 16],
    /// This rank may go on writing into the layout.
    pub(super) writable: bool,
    /// Something was saved in one of the portions that this rank looks after, or a job has gone on there.
    pub(super) is_used: bool,
    /// The shards whose portions in it are in sight, told by one of the ranks that see the same files.
    pub(super) seen: Vec<u32>,
}

impl Newest {
    pub(super) fn is_of(&self, other: &Newest) -> bool {
        (self.layout_number, self.layout_id) == (other.layout_number, other.layout_id)
    }

    /// What each rank has found in the newest layout of those that it sees, which `told` has, the newest last: without layouts in which
    /// nobody has saved anything, and which not all can write to. A job that was killed while it made a larger one leaves such,
    /// and the one before goes on.
    pub(super) fn of_all(mut told: Vec<Vec<Newest>>, writers: &Writers) -> Vec<Newest> {
        loop {
            let last: Vec<Newest> = told.iter().map(|own| own.last().cloned().unwrap_or_default()).collect();
            let newest = last.iter().max_by_key(|newest| (newest.layout_number, newest.layout_id)).cloned();
            let Some(newest) = newest.filter(|newest| newest.layout_number > 0) else { return last };
            if last.iter().any(|own| own.is_of(&newest) && own.is_used) || Newest::is_shared(&last, writers) {
                return last;
            }
            told.iter_mut().for_each(|own| drop(own.pop_if(|own| own.is_of(&newest))));
        }
    }

    /// Whether those that write, of which `told` has what they found, all go on with one layout.
    pub(super) fn is_shared(told: &[Newest], writers: &Writers) -> bool {
        let mut found = writing(told, writers).map(|(_, newest)| newest);
        let Some(first) = found.next() else { return false };
        first.writable && found.all(|other| other.writable && other.is_of(first))
    }

    /// The layout that all ranks go on with once the portions that some of them lack are made: those went with their
    /// nodes, as nobody sees them, and the others are as they were. `None`: there is no such layout.
    pub(super) fn mended(told: &[Newest], writers: &Writers) -> Option<Newest> {
        let newest = told.iter().filter(|newest| newest.writable).max_by_key(|newest| newest.layout_number)?;
        let is_older = |other: &Newest| other.layout_number < newest.layout_number;
        let here: Vec<&Newest> = told.iter().filter(|other| other.is_of(newest)).collect();
        let is_seen = |shard: usize| here.iter().any(|other| other.seen.contains(&(shard as u32)));
        let goes_on = |(rank, own): (usize, &Newest)| {
            own.writable && own.is_of(newest) || !writers.shards_of(rank).into_iter().any(is_seen)
        };
        let fits = told.iter().all(|other| other.is_of(newest) || is_older(other));
        (fits && writing(told, writers).all(goes_on)).then(|| Newest { seen: Vec::new(), ..newest.clone() })
    }
}

/// What the ranks that write shards have told.
fn writing<'a>(told: &'a [Newest], writers: &Writers) -> impl Iterator<Item = (usize, &'a Newest)> {
    told.iter().enumerate().filter(|(rank, _)| !writers.shards_of(*rank).is_empty())
}
