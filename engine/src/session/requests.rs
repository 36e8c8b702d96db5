//! Requests from outside for a checkpoint, and for objects to leave a node before it. Rank 0 looks for a request when
//! the ranks meet, and answers it.
//!
//! Invariants: a request that cannot be read counts as none. No failure here stops a job.

use crate::{
    device::Device,
    space::{
        LockBlocks,
        format::{CheckpointAnswer, CheckpointRequest, Emptied, Lineage, Ticket},
    },
};

/// The lineage in an answer until the job has looked for requests.
const NOBODY: Lineage = Lineage { number: 0, id: [0; 16] };

#[derive(Debug)]
pub(super) struct Listener {
    blocks: LockBlocks,
    lineage: Lineage,
    /// The last request that a revision answered.
    answered: Ticket,
    /// The request that waits for the next checkpoint.
    pending: Option<CheckpointRequest>,
    /// The result of the request that objects leave a node.
    emptied: Emptied,
    announced: bool,
}

impl Listener {
    /// Begins to listen on rank 0. `None` if the lock file cannot be opened; then no request can arrive.
    pub(super) fn begin(rank: usize, device: &dyn Device, lineage: Lineage) -> Option<Listener> {
        if rank == 0 { Self::new(device, lineage) } else { None }
    }

    /// Goes on listening under another lineage, which the next look announces. Forgets the pending request: it is read
    /// again, because the new lineage may have objects on that node.
    pub(super) fn renew(&mut self, lineage: Lineage) {
        (self.lineage, self.announced) = (lineage, false);
        (self.pending, self.emptied) = (None, Emptied::No);
    }

    fn new(device: &dyn Device, lineage: Lineage) -> Option<Listener> {
        let blocks = LockBlocks::open(device).ok()?;
        let before = blocks.answer();
        let answered = before.as_ref().map_or([0; 16], |answer| answer.ticket);
        let listener = Listener { blocks, lineage, answered, pending: None, emptied: Emptied::No, announced: false };
        if before.is_some() {
            // An earlier job looked for requests. The first look of this job shows that it looks, too.
            listener.write(CheckpointAnswer { ticket: answered, lineage: NOBODY, number: 0, emptied: Emptied::No });
        }
        Some(listener)
    }

    /// Whether a request for a checkpoint waits. The first call announces to requesters that the job looks.
    pub(super) fn is_asked(&mut self) -> bool {
        if !self.announced {
            self.announced = true;
            let (ticket, lineage) = (self.answered, self.lineage);
            self.write(CheckpointAnswer { ticket, lineage, number: 0, emptied: Emptied::No });
        }
        self.pending = self.blocks.request().filter(|request| request.ticket != self.answered);
        self.pending.is_some()
    }

    /// Whether the last look found a request that waits.
    pub(super) fn has_found(&self) -> bool {
        self.pending.is_some()
    }

    /// The node that all objects are to leave before the next checkpoint, if a request says so.
    pub(super) fn node_to_leave(&self) -> Option<&str> {
        self.pending.as_ref().map(|request| request.node.as_str()).filter(|node| !node.is_empty())
    }

    /// Notes the result of leaving the node. It is sent with the answer to the request.
    pub(super) fn has_emptied(&mut self, emptied: Emptied) {
        self.emptied = emptied;
    }

    /// Answers the waiting request with the revision that was just begun.
    pub(super) fn answer(&mut self, lineage: Lineage, number: u64) {
        let emptied = std::mem::take(&mut self.emptied);
        if let Some(CheckpointRequest { ticket, .. }) = self.pending.take() {
            (self.answered, self.lineage) = (ticket, lineage);
            self.write(CheckpointAnswer { ticket, lineage, number, emptied });
        }
    }

    fn write(&self, answer: CheckpointAnswer) {
        // If this fails, the requester waits in vain and says so. The job goes on.
        let _ = self.blocks.write_answer(&answer);
    }
}
