//! The state that the program declared: the data to save, the times to save, and the data that it asked to read.

use super::{
    chosen::PassedOver, due::Due, open_checkpoint::OpenCheckpoint, reading::Reading, shards::Shards, tracing::Tracing,
};
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
    /// The checkpoint between t1 and t2, if any.
    pub(super) begun: Option<OpenCheckpoint>,
    /// Whether the last checkpoint failed, and its own call reported the error on this rank.
    pub(super) knows_failure: bool,
    pub(super) regions: Regions,
    pub(super) globals: Globals,
    /// The heap of the process, if this session saves it.
    pub(super) heap: Option<SavedHeap>,
    pub(super) notes: Notes,
    pub(super) allocated: Allocated,
    /// Completed steps of a program that runs in steps (`run`).
    pub(super) steps: Arc<AtomicU64>,
    pub(super) outputs: Outputs,
    pub(super) due: Due,
    pub(super) tracing: Option<Tracing>,
    /// Whether this rank is to hold copies of other ranks' shards.
    pub(super) holds_copies: bool,
    pub(super) restored: RestoredData,
    /// The reason for which the next collective call does nothing. `None` if it may proceed.
    pub(super) refused: Option<Error>,
    pub(super) config: Config,
}

/// Memory that the program got from Mainstay.
#[derive(Default)]
pub(super) struct Allocated {
    /// By region name.
    pub(super) memory: BTreeMap<String, OwnMemory>,
    /// Names in `memory` from an earlier call of the layout. The next call may allocate them anew.
    pub(super) laid_out_before: BTreeSet<String>,
}

/// The data that the program has read from earlier revisions, or may read.
#[derive(Default)]
pub(super) struct RestoredData {
    /// The division of the revision that this session began or restored last.
    pub(super) divided: Divided,
    /// The program has declared that any number of ranks can take over the shards.
    pub(super) suits_any_ranks: bool,
    pub(super) reading: Reading,
    /// Shards that the program may read until the next checkpoint begins; none before a restore.
    pub(super) shards: Shards,
    /// Damage that the program found in revisions that Mainstay had restored without error, with the level of each. The
    /// same on all ranks.
    pub(super) passed_over: Vec<PassedOver>,
    /// Whether earlier jobs left revisions that this session has not read, and so may not remove.
    pub(super) unread: bool,
}

impl Program {
    /// A program on rank `rank` that has declared nothing yet.
    pub(super) fn new(config: Config, due: Due, outputs: Outputs, rank: usize) -> Program {
        Program {
            begun: None,
            knows_failure: false,
            regions: Regions::default(),
            globals: Globals::default(),
            heap: None,
            notes: Notes::default(),
            allocated: Allocated::default(),
            steps: Arc::default(),
            outputs,
            due,
            tracing: Tracing::new(&config, rank),
            holds_copies: true,
            restored: RestoredData::default(),
            refused: None,
            config,
        }
    }

    /// The program's state, for `call` to change. Refused between `begin` and `checkpoint`, because the checkpoint has
    /// its items already.
    pub(super) fn not_begun(&mut self, call: &str) -> Result<&mut Program> {
        if self.begun.is_none() {
            return Ok(self);
        }
        let why = "a checkpoint has begun; finish it with checkpoint, or give it up with abandon, first";
        Err(Error::argument(call, why))
    }

    /// The division of the state from which the job goes on, as far as this rank knows.
    pub(super) fn divided(&self) -> Divided {
        match self.restored.divided {
            _ if self.restored.suits_any_ranks => Divided::IntoBoxes,
            // During the first calls of `protect`, or between two calls, some regions may be missing.
            Divided::Unknown if !self.regions.all().is_empty() => self.regions.divided(),
            known => known,
        }
    }

    /// Finds the current places of everything to save, at t1.
    pub(super) fn look(&mut self) -> Result<()> {
        self.regions.look()?;
        self.look_at_heap()?;
        if rehearsal::is_one() {
            self.globals.note_landmarks(&self.regions, &mut self.notes)?;
        }
        self.globals.note_addresses(&mut self.regions)
    }

    /// As `look`, for the bytes of a checkpoint that has begun.
    pub(super) fn look_again(&mut self) -> Result<()> {
        self.regions.look_again()?;
        self.heap.as_ref().map_or(Ok(()), |heap| heap.look_again(&self.regions))?;
        self.globals.note_addresses(&mut self.regions)
    }

    /// As `look`, before the regions are filled.
    pub(super) fn look_to_fill(&mut self) -> Result<()> {
        self.regions.look_to_fill()?;
        self.regions.check_writable()?;
        if let Some(heap) = &self.heap {
            heap.leave(&mut self.regions);
        }
        self.globals.note_addresses(&mut self.regions)
    }

    /// Finds the memory that the heap has now.
    pub(super) fn look_at_heap(&mut self) -> Result<()> {
        self.heap.as_ref().map_or(Ok(()), |heap| heap.look(&mut self.regions))
    }

    /// The regions to fill from a shard with these `items` and `notes`: the protected regions, and the heap as it was
    /// saved.
    pub(super) fn to_fill(&self, items: &[Item], notes: &[Note], revision: u64) -> Result<Vec<Region>> {
        let mut regions = self.regions.all().to_vec();
        if let Some(heap) = &self.heap {
            regions.extend(heap.to_fill(self.regions.all(), items, notes, revision)?);
        }
        Ok(regions)
    }

    /// Makes room for the heap among `regions`, which are filled next.
    pub(super) fn lay_out_heap(&self, regions: &[Region]) -> Result<()> {
        self.heap.as_ref().map_or(Ok(()), |heap| heap.lay_out(regions))
    }

    /// Whether this program protects its variables or its heap, and a shard with these `notes` holds some. Such state
    /// of one rank has no use on another.
    pub(super) fn is_all_in(&self, notes: &[Note]) -> bool {
        self.globals.are_in(notes) || self.heap.as_ref().is_some_and(|heap| heap.is_in(notes))
    }

    /// Resizes regions to the sizes of `items`, if the program can change their size.
    pub(super) fn resize(&mut self, items: &[Item]) -> Result<()> {
        self.regions.resize(items)?;
        self.globals.note_addresses(&mut self.regions)
    }

    pub(super) fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// Whether the call that begins now may proceed. If not, all ranks get the error.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Bytes written so far to the stream `name` of the checkpoint that has begun.
    pub(super) fn written_bytes(&self, name: &str) -> Result<u64> {
        match &self.begun {
            Some(OpenCheckpoint { staging, .. }) => {
                staging.as_ref().map(|staging| staging.stream_bytes(name)).map_err(Error::clone)
            }
            None => Err(Error::argument("written_bytes", "no checkpoint has begun; call begin first, on all ranks")),
        }
    }
}
