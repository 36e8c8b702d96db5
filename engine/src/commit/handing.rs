//! A ledger on its way to the rank that writes for its owner, and back.
//!
//! What must hold: the ledger is with one of the two. What comes back is what the slots say.

use super::{Kept, Ledger, RevisionKey, ledger::Root};
use crate::{
    error::{Error, Failure, Result},
    space::{
        Portion,
        format::{Lineage, Slot},
        free::Blocks,
    },
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a ledger knows, to be told to another rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HandedLedger {
    lineage: Lineage,
    held: Vec<RevisionKey>,
    slots: [Option<HandedRoot>; 2],
    /// Why nothing may be written to the portion any more.
    stopped: Option<Failure>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct HandedRoot {
    slot: Slot,
    kept: Vec<Kept>,
    catalogue: Option<Blocks>,
}

impl Ledger {
    /// What the ledger knows, for rank `to`, which writes from now on. Until the ledger has come back nothing is
    /// written here.
    pub(crate) fn hand_over(&mut self, to: usize) -> HandedLedger {
        let handed = self.give_back();
        let what = format!("rank {to}, which writes for this one, has not said what became of the last revision");
        self.stopped = Some(Error::GroupFailed { what });
        handed
    }

    /// The ledger of `portion`, with what the portion's owner knows of it.
    pub(crate) fn handed(portion: Portion, handed: HandedLedger) -> Ledger {
        let slots = handed.slots.map(|root| root.map(Root::from));
        Ledger {
            portion,
            lineage: handed.lineage,
            slots,
            held: handed.held,
            passing: Vec::new(),
            stopped: None,
            is_tended: false,
        }
    }

    /// What the ledger knows, for its owner.
    pub(crate) fn give_back(&self) -> HandedLedger {
        let root = |root: &Root| HandedRoot {
            slot: root.slot.clone(),
            kept: root.kept.iter().map(|kept| Kept::clone(kept)).collect(),
            catalogue: root.catalogue,
        };
        HandedLedger {
            lineage: self.lineage,
            held: self.held.clone(),
            slots: self.slots.each_ref().map(|slot| slot.as_ref().map(root)),
            stopped: self.stopped.as_ref().map(Failure::from),
        }
    }

    /// Takes back the ledger that was handed over to rank `from`.
    pub(crate) fn take_back(&mut self, from: usize, handed: HandedLedger) {
        self.slots = handed.slots.map(|root| root.map(Root::from));
        self.stopped = handed.stopped.map(|failure| failure.on(from));
    }

    /// Whether the medium shows a root of this lineage with `sequence` or a higher one, whoever wrote it.
    pub(crate) fn shows(&self, sequence: u64) -> Result<bool> {
        for index in 0..2 {
            match self.portion.read_slot(index) {
                Ok(slot) if slot.lineage == self.lineage && slot.sequence >= sequence => return Ok(true),
                // The slot may be in the middle of a write.
                Ok(_) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

impl From<HandedRoot> for Root {
    fn from(HandedRoot { slot, kept, catalogue }: HandedRoot) -> Root {
        Root { slot, kept: kept.into_iter().map(Arc::new).collect(), catalogue }
    }
}
