//! Asking a running job for a checkpoint from outside: a request in the lock file, which the job's rank 0
//! looks at when the ranks meet, and its answer there.
//!
//! What must hold: a request that cannot be read is none, and no failure here stops a job.

use crate::{
    device::{Access, Device, Disk, File},
    error::{Error, Result},
    space::{
        Aligned, LOCK_FILE,
        format::{BLOCK, BLOCK_BYTES, CheckpointAnswer, CheckpointRequest, Lineage, Ticket},
    },
};
use std::{
    io,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

const REQUEST_AT: u64 = 0;
const ANSWER_AT: u64 = BLOCK_BYTES;

/// The job's side, on rank 0.
#[derive(Debug)]
pub(crate) struct Listener {
    file: Arc<dyn File>,
    lineage: Lineage,
    /// The last request that was met.
    answered: Ticket,
    /// One that waits for the next checkpoint.
    pending: Option<Ticket>,
    announced: bool,
}

impl Listener {
    /// `None` where the lock file cannot be read: then nobody can ask.
    pub(crate) fn new(device: &dyn Device, lineage: Lineage) -> Option<Listener> {
        let file = device.open(LOCK_FILE, Access::Write).ok()?;
        let answered = read(&*file, ANSWER_AT).and_then(|block| CheckpointAnswer::parse(&block));
        let answered = answered.map_or([0; 16], |answer| answer.ticket);
        Some(Listener { file, lineage, answered, pending: None, announced: false })
    }

    /// Whether someone waits for a checkpoint. The first call tells those who ask that the job looks.
    pub(crate) fn is_asked(&mut self) -> bool {
        if !self.announced {
            self.announced = true;
            self.write(CheckpointAnswer { ticket: self.answered, lineage: self.lineage, number: 0 });
        }
        let request = read(&*self.file, REQUEST_AT).and_then(|block| CheckpointRequest::parse(&block));
        self.pending = request.map(|request| request.ticket).filter(|ticket| *ticket != self.answered);
        self.pending.is_some()
    }

    /// The revision that was just begun is the one that was asked for.
    pub(crate) fn answer(&mut self, lineage: Lineage, number: u64) {
        if let Some(ticket) = self.pending.take() {
            (self.answered, self.lineage) = (ticket, lineage);
            self.write(CheckpointAnswer { ticket, lineage, number });
        }
    }

    fn write(&self, answer: CheckpointAnswer) {
        // Who asked waits in vain, and says so; the job goes on.
        let _ = write(&*self.file, ANSWER_AT, &answer.build());
    }
}

/// The side of those who ask.
#[derive(Debug)]
pub struct Asked {
    file: Arc<dyn File>,
    path: String,
    ticket: Ticket,
}

impl Asked {
    /// Asks the job that has the space in `directory` open for a checkpoint at its next safe point.
    /// Needs the right to write there. Another one's request that is still open is met by the same.
    pub fn ask(directory: &Path) -> Result<Asked> {
        let device = Disk::existing(directory);
        let path = format!("{}/{LOCK_FILE}", device.path());
        let file = device.open(LOCK_FILE, Access::Write).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::NotASpace { path: device.path(), why: "no job has opened it".to_owned() },
            _ => Error::io("opening", &path, e),
        })?;
        let mut ticket = [0; 16];
        getrandom::fill(&mut ticket).map_err(|e| Error::io("drawing a random number from", "the system", e.into()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let request = CheckpointRequest { ticket, asked_unix_ns: now.as_nanos() as u64 };
        write(&*file, REQUEST_AT, &request.build()).map_err(|e| Error::io("writing to", &path, e))?;
        Ok(Asked { file, path, ticket })
    }

    /// The answer, once the job has begun the checkpoint.
    pub fn answer(&self) -> Option<CheckpointAnswer> {
        // A later request of someone else is met later still: its answer is one to this too.
        let newest = self.newest().unwrap_or(self.ticket);
        let answer = read(&*self.file, ANSWER_AT).and_then(|block| CheckpointAnswer::parse(&block))?;
        (answer.ticket == newest).then_some(answer)
    }

    fn newest(&self) -> Option<Ticket> {
        read(&*self.file, REQUEST_AT).and_then(|block| CheckpointRequest::parse(&block)).map(|request| request.ticket)
    }

    /// The run that looked for requests last; `None` if none ever did.
    pub fn listener(&self) -> Option<Lineage> {
        read(&*self.file, ANSWER_AT).and_then(|block| CheckpointAnswer::parse(&block)).map(|answer| answer.lineage)
    }

    /// Takes the request back, if nobody has asked since.
    pub fn withdraw(self) -> Result<()> {
        if self.newest() != Some(self.ticket) {
            return Ok(());
        }
        write(&*self.file, REQUEST_AT, &[0; BLOCK]).map_err(|e| Error::io("writing to", &self.path, e))
    }
}

fn read(file: &dyn File, at: u64) -> Option<[u8; BLOCK]> {
    let mut block = Aligned::zeroed(BLOCK_BYTES)?;
    crate::device::read_full(file, &mut block, at).ok()?;
    block[..BLOCK].try_into().ok()
}

fn write(file: &dyn File, at: u64, block: &[u8; BLOCK]) -> io::Result<()> {
    let block = Aligned::holding(block).ok_or(io::ErrorKind::OutOfMemory)?;
    crate::device::write_full(file, &block, at).map(drop)
}
