//! What a rank and the holder that saves its shard tell each other: the order, with the plan of the shard and the ledger
//! of its portion, and in the end what became of the shard.

use super::{Intent, Shard, Site, held::HeldTarget};
use crate::{
    capture::{Marked, Size},
    commit::{Allocation, HandedLedger, Ledger, RevisionKey},
    device::Device,
    error::{Error, Result},
    ground::{Instant, lock},
    space::{Portion, format::PhaseRecord},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    sync::{Arc, Mutex},
};

/// What a holder is to save, and where.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    layout_id: [u8; 16],
    key: RevisionKey,
    shards: u32,
    /// Blocks of the log, at most.
    blocks: u64,
    allocation: Allocation,
    retained: Vec<RevisionKey>,
    /// Paths of the output files, which the owner syncs.
    outputs: Vec<Vec<u8>>,
    /// Times, as far as they are known at t1.
    pub(crate) phases: PhaseRecord,
    pub(crate) ledger: HandedLedger,
}

impl Shard {
    /// The order to save the shard, for its holder number `held`. The ledger goes with it.
    pub(crate) fn order(&self, held: usize) -> Order {
        let (intent, HeldTarget { holder, site, .. }) = (&self.intent, &self.held[held]);
        let outputs = intent.outputs.iter().map(|output| output.path().to_owned().into_os_string().into_vec());
        Order {
            layout_id: site.portion.layout_id(),
            key: intent.key,
            shards: intent.shards,
            blocks: intent.size.blocks(),
            allocation: site.allocation.clone(),
            retained: site.retained.clone(),
            outputs: outputs.collect(),
            phases: self.phases(),
            ledger: lock(&site.ledger).hand_over(*holder),
        }
    }

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
    pub(crate) fn end_as_told(&self, held: usize, told: Result<PhaseRecord>, ledger: Option<HandedLedger>) {
        let HeldTarget { holder, site, ending } = &self.held[held];
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

    /// The ledger to give back to the owner, after a shard that was ordered has ended.
    pub(crate) fn give_back(&self) -> HandedLedger {
        lock(&self.nearest().ledger).give_back()
    }
}

impl Order {
    /// Turns the order into what is to be saved, and the place for it: in `portion` of the space on `device`.
    pub(crate) fn take_on(self, portion: &Portion, device: &dyn Device, started: Instant) -> Result<(Intent, Site)> {
        if self.layout_id != portion.layout_id() || !self.allocation.is_inside(portion) {
            let what = format!("rank {} orders blocks that do not lie in its portion", portion.rank());
            return Err(Error::Internal { what });
        }
        let intent = Intent {
            key: self.key,
            shards: self.shards,
            shard: portion.rank(),
            size: Size::measured(self.blocks),
            outputs: self.outputs.into_iter().map(|path| Marked::synced(OsString::from_vec(path).into())).collect(),
            started,
        };
        let ledger = Ledger::handed(portion.clone(), self.ledger);
        ledger.check()?;
        Ok((intent, Site::new(device, Arc::new(Mutex::new(ledger)), self.allocation, self.retained)))
    }
}
