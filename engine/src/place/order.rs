//! A shard that another rank saves for its owner: its plan, as it is told.

use super::{Plan, Saving, lock};
use crate::{
    capture::{Marked, Size},
    commit::{Allocation, Handed, Ledger, RevisionKey},
    device::Device,
    error::{Error, Result},
    space::{Portion, format::PhaseRecord},
};
use serde::{Deserialize, Serialize};
use std::{ffi::OsString, os::unix::ffi::OsStringExt, time::Instant};

/// What to save, and where.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    layout_id: [u8; 16],
    key: RevisionKey,
    shards: u32,
    /// Of the log, at most.
    blocks: u64,
    allocation: Allocation,
    retained: Vec<RevisionKey>,
    /// Paths of the output files, which the owner syncs.
    outputs: Vec<Vec<u8>>,
    /// As far as they are known at t1.
    pub(crate) phases: PhaseRecord,
    pub(crate) ledger: Handed,
}

impl Saving {
    /// The order to save this shard, for rank `to`, with its ledger.
    pub(crate) fn order(&self, to: usize) -> Order {
        let plan = &self.plan;
        let outputs = plan.outputs.iter().map(|output| output.path().to_owned().into_os_string().into_vec());
        Order {
            layout_id: self.portion.layout_id(),
            key: plan.key,
            shards: plan.shards,
            blocks: plan.size.blocks(),
            allocation: plan.allocation.clone(),
            retained: plan.retained.clone(),
            outputs: outputs.collect(),
            phases: *lock(&self.phases),
            ledger: lock(&self.ledger).hand_over(to),
        }
    }

    /// What the ledger knows after it has ended, for its owner.
    pub(crate) fn give_back(&self) -> Handed {
        lock(&self.ledger).give_back()
    }
}

impl Order {
    /// The plan and the ledger of the shard, in `portion` of the space on `device`.
    pub(crate) fn take_on(self, portion: &Portion, device: &dyn Device, started: Instant) -> Result<(Plan, Ledger)> {
        if self.layout_id != portion.layout_id() || !self.allocation.is_inside(portion) {
            let what = format!("rank {} orders what does not lie in its portion", portion.rank());
            return Err(Error::Internal { what });
        }
        let plan = Plan {
            key: self.key,
            shards: self.shards,
            size: Size::measured(self.blocks),
            outputs: self.outputs.into_iter().map(|path| Marked::synced(OsString::from_vec(path).into())).collect(),
            allocation: self.allocation,
            retained: self.retained,
            space: device.directory(),
            file_system: device.device_number(),
            started,
        };
        let ledger = Ledger::handed(portion.clone(), self.ledger);
        ledger.check().map(|()| (plan, ledger))
    }
}
