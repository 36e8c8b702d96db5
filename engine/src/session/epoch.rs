//! An epoch: the ranks and the facts that they have agreed on, until a rank fails or the program goes back.

use super::{
    copies::Post,
    ranks::{Entered, Ranks},
};
use crate::{
    commit::RevisionKey,
    error::{Error, Result},
    group::{Group, agree},
    mutant::{self, Mutant},
    space::{draw_id, format::Lineage},
};

pub(super) struct Epoch {
    /// Messages between the owners of shards and the holders of copies.
    pub(super) post: Post,
    /// The lowest rank of this node.
    pub(super) node: u32,
    pub(super) lineage: Lineage,
    /// Whether this lineage has begun a revision.
    pub(super) attempted: bool,
    /// Whether this session has begun a revision, also before it went back.
    pub(super) has_saved: bool,
    pub(super) next_number: u64,
    /// The number of spare ranks, if none of them fails.
    pub(super) spares_left: u32,
    /// The reason why no collective call is possible any more: a rank has closed the session alone.
    pub(super) over: Option<Error>,
    pub(super) group: Ranks,
}

impl Epoch {
    /// Begins the next revision of this lineage, and returns its key.
    pub(super) fn next(&mut self) -> RevisionKey {
        let key = RevisionKey::new(self.lineage, self.next_number);
        self.next_number += if mutant::is(Mutant::NumberUsedAgain) { self.next_number % 2 } else { 1 };
        (self.attempted, self.has_saved) = (true, true);
        key
    }

    /// Begins a new lineage: later revisions never mix with earlier ones. Collective.
    pub(super) fn renew(&mut self, entry: &Entered) -> Result<()> {
        self.lineage = next_lineage(self.group.with(entry), self.lineage.number)?;
        self.attempted = false;
        Ok(())
    }
}

/// A lineage after `before`, with an id drawn by rank 0. Collective.
pub(super) fn next_lineage(group: &dyn Group, before: u64) -> Result<Lineage> {
    let number = if mutant::is(Mutant::LineageNotRenewed) { before.max(1) } else { before + 1 };
    Ok(Lineage { number, id: same_id(group)? })
}

/// An id that rank 0 draws. Collective.
pub(super) fn same_id(group: &dyn Group) -> Result<[u8; 16]> {
    let mut id = agree(group, draw_id())?.to_vec();
    group.broadcast(0, &mut id)?;
    id.try_into().map_err(|_| Error::GroupFailed { what: "an id of another length".to_owned() })
}
