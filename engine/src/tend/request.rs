//! Asking a job at work for a checkpoint.

use crate::{
    device::{Device, Disk},
    error::{Error, Result},
    ground::unix_ns,
    space::{
        LOCK_FILE, RequestBlocks, draw_id,
        format::{CheckpointAnswer, CheckpointRequest, Lineage, Ticket},
    },
};
use std::{io, path::Path};

/// A request that was sent.
#[derive(Debug)]
pub struct Request {
    blocks: RequestBlocks,
    path: String,
    ticket: Ticket,
    asked_unix_ns: u64,
}

impl Request {
    /// Asks the job that has the space in `directory` open for a checkpoint at its next safe point. Needs the right to
    /// write there. A request of somebody else that is still open is met by the same checkpoint.
    pub fn send(directory: &Path) -> Result<Request> {
        let device = Disk::existing(directory);
        let path = format!("{}/{LOCK_FILE}", device.path());
        let blocks = RequestBlocks::open(&device).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::NotASpace { path: device.path(), why: "no job has opened it".to_owned() },
            _ => Error::io("opening", &path, e),
        })?;
        let ticket = draw_id()?;
        let request = Request { blocks, path, ticket, asked_unix_ns: unix_ns() };
        request.ask().map_err(|e| Error::io("writing to", &request.path, e))?;
        Ok(request)
    }

    /// The answer, once the job has begun the checkpoint.
    pub fn answer(&self) -> Option<CheckpointAnswer> {
        let newest = self.newest();
        // A later request of somebody else is met later still: the answer to it is an answer to this one too.
        let answer = self.blocks.answer().filter(|answer| [newest, Some(self.ticket)].contains(&Some(answer.ticket)));
        if newest.is_none() && answer.is_none() {
            // Whoever asked after this request has withdrawn, and that one lay on top of ours: it is sent again.
            let _ = self.ask();
        }
        answer
    }

    fn ask(&self) -> io::Result<()> {
        let request = CheckpointRequest { ticket: self.ticket, asked_unix_ns: self.asked_unix_ns };
        self.blocks.write_request(Some(&request))
    }

    /// The lineage of the job that looked for requests last; `None` if none ever did, or if the job that has the space
    /// open has not looked yet.
    pub fn listener(&self) -> Option<Lineage> {
        self.blocks.answer().map(|answer| answer.lineage).filter(|lineage| lineage.number > 0)
    }

    /// Takes the request back, if nobody has asked since.
    pub fn withdraw(self) -> Result<()> {
        if self.newest() != Some(self.ticket) {
            return Ok(());
        }
        self.blocks.write_request(None).map_err(|e| Error::io("writing to", &self.path, e))
    }

    fn newest(&self) -> Option<Ticket> {
        self.blocks.request().map(|request| request.ticket)
    }
}
