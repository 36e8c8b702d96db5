//! An epoch: the ranks and the facts that they have agreed on, until a rank fails or the program goes back.

use super::{
    copies::Post,
    ranks::{Entered, Ranks},
};
use crate::{
    commit::RevisionKey,
    error::{Error, Result},
    group::{Group, agree},
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
        self.next_number += 1;
        self.attempted = true;
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
    Ok(Lineage { number: before + 1, id: same_id(group)? })
}

/// An id that rank 0 draws. Collective.
pub(super) fn same_id(group: &dyn Group) -> Result<[u8; 16]> {
    let mut id = agree(group, draw_id())?.to_vec();
    group.broadcast(0, &mut id)?;
    id.try_into().map_err(|_| Error::GroupFailed { what: "an id of another length".to_owned() })
}
