//! Asking a job at work for a checkpoint, or to have all objects leave a node before it.

use crate::{
    device::{Device, Disk},
    error::{Error, Result},
    ground::unix_ns,
    space::{
        LOCK_FILE, LockBlocks, draw_id,
        format::{CheckpointAnswer, CheckpointRequest, Lineage, NODE_BYTES_MAX, Ticket},
    },
};
use std::{cell::RefCell, io, path::Path};

/// A request that was sent.
#[derive(Debug)]
pub struct Request {
    blocks: LockBlocks,
    path: String,
    asked: RefCell<CheckpointRequest>,
}

impl Request {
    /// Asks the job that has the space in `directory` open for a checkpoint at its next safe point. Needs the right to
    /// write there. A request of somebody else that is still open is met by the same checkpoint.
    pub fn send(directory: &Path) -> Result<Request> {
        Request::of_node(directory, String::new())
    }

    /// The same, and that all objects leave `node` before, named as `mainstay status` has it: what
    /// `CheckpointAnswer::emptied` tells of. `InvalidArgument`: it is no name of a node.
    pub fn evacuate(directory: &Path, node: &str) -> Result<Request> {
        if node.is_empty() || node.len() > NODE_BYTES_MAX {
            let why = format!("it has {} bytes; a name of a node has 1 to {NODE_BYTES_MAX}", node.len());
            return Err(Error::argument("node", why));
        }
        Request::of_node(directory, node.to_owned())
    }

    fn of_node(directory: &Path, node: String) -> Result<Request> {
        let device = Disk::existing(directory);
        let path = format!("{}/{LOCK_FILE}", device.path());
        let blocks = LockBlocks::open(&device).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::NotASpace { path: device.path(), why: "no job has opened it".to_owned() },
            _ => Error::io("opening", &path, e),
        })?;
        let asked = CheckpointRequest { ticket: draw_id()?, asked_unix_ns: unix_ns(), node };
        let request = Request { blocks, path, asked: RefCell::new(asked) };
        request.ask().map_err(|e| Error::io("writing to", &request.path, e))?;
        Ok(request)
    }

    /// By what the job knows the request: another one once a failure has taken the revision that had met it, so that it is
    /// sent again.
    pub fn ticket(&self) -> Ticket {
        self.asked.borrow().ticket
    }

    /// The answer, once the job has begun the checkpoint.
    pub fn answer(&self) -> Option<CheckpointAnswer> {
        let (newest, ticket) = (self.newest(), self.ticket());
        let lost = self.blocks.answer().is_some_and(|answer| answer.ticket == ticket && answer.number == 0);
        if lost && let Ok(again) = draw_id() {
            // The job has recovered, or was started again, and no revision is left that met the request.
            self.asked.borrow_mut().ticket = again;
            let _ = self.ask();
            return None;
        }
        if !self.asked.borrow().node.is_empty() {
            // No answer to another request tells of the node; one that lay on top of this and was answered leaves it to be
            // sent again.
            let answer = self.blocks.answer();
            let answered = answer.as_ref().map(|answer| answer.ticket);
            if answered != Some(ticket) && newest.is_none_or(|newest| answered == Some(newest)) {
                let _ = self.ask();
            }
            return answer.filter(|_| answered == Some(ticket));
        }
        // A later request of somebody else is met later still: the answer to it is an answer to this one too.
        let answer = self.blocks.answer().filter(|answer| [newest, Some(ticket)].contains(&Some(answer.ticket)));
        if newest.is_none() && answer.is_none() {
            // Whoever asked after this request has withdrawn, and that one lay on top of ours: it is sent again.
            let _ = self.ask();
        }
        answer
    }

    fn ask(&self) -> io::Result<()> {
        self.blocks.write_request(Some(&self.asked.borrow()))
    }

    /// The lineage of the job that looked for requests last; `None` if none ever did, or if the job that has the space
    /// open has not looked yet.
    pub fn listener(&self) -> Option<Lineage> {
        self.blocks.answer().map(|answer| answer.lineage).filter(|lineage| lineage.number > 0)
    }

    /// Takes the request back, if nobody has asked since.
    pub fn withdraw(self) -> Result<()> {
        if self.newest() != Some(self.ticket()) {
            return Ok(());
        }
        self.blocks.write_request(None).map_err(|e| Error::io("writing to", &self.path, e))
    }

    fn newest(&self) -> Option<Ticket> {
        self.blocks.request().map(|request| request.ticket)
    }
}
