//! What the program has said: what is to be saved, when, and what it has asked to read.

use super::{begun::Begun, chosen::PassedOver, due::Due, reading::Reading, shards::Shards, tracing::Tracing};
use crate::{
    capture::{Globals, Notes, Outputs, OwnMemory, Region, Regions, SavedHeap},
    config::Config,
    error::{Error, Result},
    group::Divided,
    rehearsal,
    space::format::{Item, Note},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicU64},
};

pub(super) struct Program {
    /// The checkpoint that is between t1 and t2, if one is.
    pub(super) begun: Option<Begun>,
    /// Whether the last checkpoint has failed, and its own call has said so on this rank.
    pub(super) knows_failure: bool,
    pub(super) regions: Regions,
    pub(super) globals: Globals,
    /// The heap of the process, if this session saves it.
    pub(super) heap: Option<SavedHeap>,
    pub(super) notes: Notes,
    /// Memory that the program had from Mainstay, by the names of its regions.
    pub(super) allocated: BTreeMap<String, OwnMemory>,
    /// The names of what of it an earlier call of the layout had, for which the next may allocate anew.
    pub(super) laid_out_before: BTreeSet<String>,
    /// How many steps are done of a program that runs in steps (`run`).
    pub(super) steps: Arc<AtomicU64>,
    pub(super) outputs: Outputs,
    pub(super) due: Due,
    pub(super) tracing: Option<Tracing>,
    /// By what the revision is divided that this session has begun or restored last.
    pub(super) divided: Divided,
    /// Whether this rank is to hold copies of other ranks' shards.
    pub(super) holds_copies: bool,
    pub(super) reading: Reading,
    /// Shards that the program may read until the next checkpoint begins; none before a restore.
    pub(super) shards: Shards,
    /// What the program has found damaged in revisions that came back whole, by the level that they came from; the same on
    /// all ranks.
    pub(super) passed_over: Vec<PassedOver>,
    /// Whether earlier jobs left revisions that this session has not read, and so may not push out.
    pub(super) unread: bool,
    /// Why the next collective call is to do nothing; `None` if it is to go on.
    pub(super) refused: Option<Error>,
    pub(super) config: Config,
}

impl Program {
    /// The program's state, for `call` to change. Refused once a checkpoint has begun, which has its items already.
    pub(super) fn not_begun(&mut self, call: &str) -> Result<&mut Program> {
        if self.begun.is_none() {
            return Ok(self);
        }
        let why = "a checkpoint has begun; finish it with checkpoint, or give it up with abandon, first";
        Err(Error::argument(call, why))
    }

    /// By what the state is divided that the job goes on from, as far as this rank knows.
    pub(super) fn divided(&self) -> Divided {
        match self.divided {
            // Of what is protected for the first time, or in between, a part may be missing.
            Divided::Unknown if !self.regions.all().is_empty() => self.regions.divided(),
            known => known,
        }
    }

    /// Finds out where all that is to be saved lies, at t1.
    pub(super) fn look(&mut self) -> Result<()> {
        self.regions.look()?;
        self.look_at_heap()?;
        if rehearsal::is_one() {
            self.globals.note_landmarks(&self.regions, &mut self.notes)?;
        }
        self.globals.note_addresses(&mut self.regions)
    }

    /// The same for the bytes of a checkpoint that has begun.
    pub(super) fn look_again(&mut self) -> Result<()> {
        self.regions.look_again()?;
        self.heap.as_ref().map_or(Ok(()), |heap| heap.look_again(&self.regions))?;
        self.globals.note_addresses(&mut self.regions)
    }

    /// The same before all are filled.
    pub(super) fn look_to_fill(&mut self) -> Result<()> {
        self.regions.look_to_fill()?;
        self.regions.check_writable()?;
        if let Some(heap) = &self.heap {
            heap.leave(&mut self.regions);
        }
        self.globals.note_addresses(&mut self.regions)
    }

    /// Finds out which memory the heap has now.
    pub(super) fn look_at_heap(&mut self) -> Result<()> {
        self.heap.as_ref().map_or(Ok(()), |heap| heap.look(&mut self.regions))
    }

    /// The regions that a shard with these `items` and `notes` is to fill: what is protected, and the heap as it was saved.
    pub(super) fn to_fill(&self, items: &[Item], notes: &[Note], revision: u64) -> Result<Vec<Region>> {
        let mut regions = self.regions.all().to_vec();
        if let Some(heap) = &self.heap {
            regions.extend(heap.to_fill(self.regions.all(), items, notes, revision)?);
        }
        Ok(regions)
    }

    /// Makes room for the heap among `regions`, which is filled next.
    pub(super) fn lay_out_heap(&self, regions: &[Region]) -> Result<()> {
        self.heap.as_ref().map_or(Ok(()), |heap| heap.lay_out(regions))
    }

    /// Whether this program protects its variables or its heap, and a shard with these `notes` holds some: what one rank had is
    /// no state of another.
    pub(super) fn is_all_in(&self, notes: &[Note]) -> bool {
        self.globals.are_in(notes) || self.heap.as_ref().is_some_and(|heap| heap.is_in(notes))
    }

    /// Has regions whose size the program can change become as large as `items` were saved.
    pub(super) fn resize(&mut self, items: &[Item]) -> Result<()> {
        self.regions.resize(items)?;
        self.globals.note_addresses(&mut self.regions)
    }

    pub(super) fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// Whether the call that begins now may do anything. All ranks are told the error if it may not.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// How far the stream `name` of the checkpoint that has begun was written.
    pub(super) fn written_bytes(&self, name: &str) -> Result<u64> {
        match &self.begun {
            Some(Begun { staging, .. }) => {
                staging.as_ref().map(|staging| staging.stream_bytes(name)).map_err(Error::clone)
            }
            None => Err(Error::argument("written_bytes", "no checkpoint has begun; call begin first, on all ranks")),
        }
    }
}
