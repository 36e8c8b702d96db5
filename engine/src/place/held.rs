//! A target that another rank writes, its *holder*: the holder has the ledger of the portion meanwhile, and saves the
//! shard there as one of its own.
//!
//! What must hold: from the order to the answer this rank writes nothing to the portion.

use super::{Shard, Site, ending::Ending};
use crate::{
    commit::Handed,
    error::{Error, Result},
    ground::lock,
    space::format::PhaseRecord,
};

#[derive(Debug)]
pub(super) struct Held {
    pub(super) holder: usize,
    pub(super) site: Site,
    pub(super) ending: Ending,
}

impl Held {
    pub(super) fn new(holder: usize, site: Site) -> Held {
        Held { holder, site, ending: Ending::default() }
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

impl Shard {
    /// The shard cannot be saved by its holder number `held`.
    pub(crate) fn fail_held(&self, held: usize, error: Error) {
        self.held[held].ending.fail(error);
    }

    /// Why the shard cannot be saved by its holder number `held`; `None` if it can.
    pub(crate) fn failure_of_held(&self, held: usize) -> Option<&Error> {
        self.failure_in(&self.held[held].ending)
    }

    /// Holder number `held` tells what became of the shard: its times, but for those known here. It gives the ledger
    /// back, if it was given one.
    pub(crate) fn end_as_told(&self, held: usize, told: Result<PhaseRecord>, ledger: Option<Handed>) {
        let Held { holder, site, ending } = &self.held[held];
        let mut here = lock(&site.ledger);
        if let Some(ledger) = ledger {
            here.take_back(*holder, ledger);
        }
        ending.tell(match self.failure_in(ending) {
            Some(error) => Err(self.not_saved(error.clone())),
            // The error names the revision already.
            None => told.map(|told| {
                let PhaseRecord { perceived_ns, resume_ns, .. } = self.phases();
                let phases = PhaseRecord { perceived_ns, resume_ns, ..told };
                here.note(self.key(), phases);
                phases
            }),
        });
    }
}
