//! Requests for a checkpoint from outside: rank 0 looks for one when the ranks meet, and answers.
//!
//! What must hold: a request that cannot be read counts as none, and no failure here stops a job.

use crate::{
    device::Device,
    group::Group,
    space::{
        RequestBlocks,
        format::{CheckpointAnswer, Lineage, Ticket},
    },
};

/// Stands in an answer for the lineage of the job until the job has looked for requests.
const NOBODY: Lineage = Lineage { number: 0, id: [0; 16] };

#[derive(Debug)]
pub(super) struct Listener {
    blocks: RequestBlocks,
    lineage: Lineage,
    /// The last request that a revision answered.
    answered: Ticket,
    /// The request that waits for the next checkpoint.
    pending: Option<Ticket>,
    announced: bool,
}

impl Listener {
    /// Begins to listen on rank 0. `None` if the lock file cannot be opened: then nobody can ask.
    pub(super) fn begin(group: &dyn Group, device: &dyn Device, lineage: Lineage) -> Option<Listener> {
        if group.rank() == 0 { Self::new(device, lineage) } else { None }
    }

    /// Goes on listening under another lineage, which the next look tells.
    pub(super) fn renew(&mut self, lineage: Lineage) {
        (self.lineage, self.announced) = (lineage, false);
    }

    fn new(device: &dyn Device, lineage: Lineage) -> Option<Listener> {
        let blocks = RequestBlocks::open(device).ok()?;
        let before = blocks.answer();
        let answered = before.map_or([0; 16], |answer| answer.ticket);
        let listener = Listener { blocks, lineage, answered, pending: None, announced: false };
        if before.is_some() {
            // An earlier job looked for requests; whether this one does, its first look will tell.
            listener.write(CheckpointAnswer { ticket: answered, lineage: NOBODY, number: 0 });
        }
        Some(listener)
    }

    /// Whether someone waits for a checkpoint. The first call tells those who ask that the job looks.
    pub(super) fn is_asked(&mut self) -> bool {
        if !self.announced {
            self.announced = true;
            self.write(CheckpointAnswer { ticket: self.answered, lineage: self.lineage, number: 0 });
        }
        self.pending = self.blocks.request().map(|request| request.ticket).filter(|ticket| *ticket != self.answered);
        self.pending.is_some()
    }

    /// Answers the request that waits: the revision that was just begun is the one asked for.
    pub(super) fn answer(&mut self, lineage: Lineage, number: u64) {
        if let Some(ticket) = self.pending.take() {
            (self.answered, self.lineage) = (ticket, lineage);
            self.write(CheckpointAnswer { ticket, lineage, number });
        }
    }

    fn write(&self, answer: CheckpointAnswer) {
        // If this fails, whoever asked waits in vain, and says so; the job goes on.
        let _ = self.blocks.write_answer(&answer);
    }
}
