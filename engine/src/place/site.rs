//! A site: the destination of a shard, which is a portion of one space, with the room of the shard in it.

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
    /// The number of the file system that holds the space, as reported by its device.
    file_system: u64,
    /// Number of revisions kept there, if the shard may share blocks with them.
    pub(super) keep: Option<usize>,
    /// For a shard that another space has, taken over unchanged.
    pub(super) taken_over: Option<TakenOver>,
    /// State of the ledger at t1.
    pub(super) found: FoundLedger,
}

/// A shard that another space has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenOver {
    /// Its times, which it keeps.
    pub(crate) phases: PhaseRecord,
    /// Whether the blocks that it shares with older ones are read back as well.
    pub(crate) reads_shared: bool,
}

impl Site {
    /// A site at `allocation`, in the portion of `ledger` of the space on `device`, beside the revisions `retained`.
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
        let directory = device.directory();
        let (space, file_system) = (directory.to_path_buf(), directory.device_number());
        Site { portion, ledger, allocation, retained, space, file_system, keep: None, taken_over: None, found }
    }

    /// The same, if the shard may share blocks with the `keep` revisions that are kept there.
    pub(crate) fn sharing(self, keep: usize) -> Site {
        Site { keep: Some(keep), ..self }
    }

    /// The same, for a shard that another space has. All written data is read back from the medium before the shard is
    /// published.
    pub(crate) fn taking_over(self, shard: TakenOver) -> Site {
        Site { taken_over: Some(shard), ..self }
    }

    /// Whether the portion's memory is still being allocated.
    pub(crate) fn awaits_memory(&self) -> bool {
        self.portion.is_mapping_awaited()
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
