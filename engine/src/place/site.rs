//! A site: where a shard goes, which is a portion of one space, with the room that the shard has there.

use crate::{
    commit::{Allocation, FoundLedger, Ledger, RevisionKey},
    device::Device,
    ground::lock,
    pool::SealedTarget,
    space::{Portion, format::PhaseRecord},
};
use std::{
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{Arc, Mutex},
};

#[derive(Debug)]
pub(crate) struct Site {
    pub(super) portion: Portion,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) allocation: Allocation,
    /// The revisions that every root must keep until this one is known to be complete.
    pub(super) retained: Vec<RevisionKey>,
    /// The space's directory.
    space: PathBuf,
    /// The number of the file system that holds the space, as its device tells it.
    file_system: u64,
    /// How many revisions are kept there, if the shard may share blocks with them.
    pub(super) keep: Option<usize>,
    /// Of a shard that another space has, and that is taken over as it is.
    pub(super) taken_over: Option<TakenOver>,
    /// What the ledger said at t1.
    pub(super) found: FoundLedger,
}

/// A shard that another space has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenOver {
    /// Its times, which it keeps.
    pub(crate) phases: PhaseRecord,
    /// Whether what it shares with older ones is read as well.
    pub(crate) reads_shared: bool,
}

impl Site {
    /// A place at `allocation`, in the portion of `ledger` of the space on `device`, beside the revisions `retained`.
    pub(crate) fn new(
        device: &dyn Device,
        ledger: Arc<Mutex<Ledger>>,
        allocation: Allocation,
        retained: Vec<RevisionKey>,
    ) -> Site {
        let (portion, found) = {
            let ledger = lock(&ledger);
            (ledger.portion().clone(), FoundLedger::of(&ledger))
        };
        let (space, file_system) = (device.directory(), device.device_number());
        Site { portion, ledger, allocation, retained, space, file_system, keep: None, taken_over: None, found }
    }

    /// The same, where the shard may share blocks with the `keep` revisions that are kept there.
    pub(crate) fn sharing(self, keep: usize) -> Site {
        Site { keep: Some(keep), ..self }
    }

    /// The same, for a shard that another space has. What is written of it is read back from the medium before it is
    /// published.
    pub(crate) fn taking_over(self, shard: TakenOver) -> Site {
        Site { taken_over: Some(shard), ..self }
    }

    /// Whether the portion is still being given its memory.
    pub(crate) fn awaits_memory(&self) -> bool {
        self.portion.is_mapping_awaited()
    }

    /// The sequence of the root that publishes the shard.
    pub(super) fn sequence(&self) -> u64 {
        self.found.sequence() + self.allocation.roots()
    }

    /// The target as a salvager is told of it, in which the shard lies at `allocation`.
    pub(super) fn sealed(&self, allocation: &Allocation) -> SealedTarget {
        SealedTarget {
            space: self.space.as_os_str().as_bytes().to_vec(),
            file_system: self.file_system,
            layout_id: self.portion.layout_id(),
            sequence: self.found.sequence(),
            allocation: allocation.clone(),
            retained: self.retained.clone(),
            held: self.found.held().to_vec(),
        }
    }
}
