//! A target that another rank writes, its *holder*: the holder has the ledger of the portion meanwhile, and saves the
//! shard there as one of its own.
//!
//! What must hold: from the order to the answer this rank writes nothing to the portion.

use super::{Site, ending::Ending};
use crate::{error::Result, ground::lock};

#[derive(Debug)]
pub(super) struct HeldTarget {
    pub(super) holder: usize,
    pub(super) site: Site,
    pub(super) ending: Ending,
}

impl HeldTarget {
    pub(super) fn new(holder: usize, site: Site) -> HeldTarget {
        HeldTarget { holder, site, ending: Ending::default() }
    }

    /// Whether the medium shows the shard published, though the holder has not told yet.
    pub(super) fn is_seen_durable(&self) -> Result<bool> {
        let ledger = lock(&self.site.ledger);
        if !ledger.shows(self.site.sequence())? {
            return Ok(false);
        }
        // The holder's sync may still be under way.
        ledger.portion().sync().map(|()| true)
    }
}
