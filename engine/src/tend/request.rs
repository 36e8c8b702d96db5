//! Asking a running job for a checkpoint, or to move all objects off a node before it.

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
    /// Asks the job that has the space in `directory` open for a checkpoint at its next safe point. Needs write
    /// permission there. The same checkpoint meets other open requests too.
    pub fn send(directory: &Path) -> Result<Request> {
        Request::of_node(directory, String::new())
    }

    /// The same, after all objects have left `node`, named as `mainstay status` prints it; `CheckpointAnswer::emptied`
    /// has the result. `InvalidArgument`: it is no name of a node.
    pub fn evacuate(directory: &Path, node: &str) -> Result<Request> {
        if node.is_empty() || node.len() > NODE_BYTES_MAX {
            let why = format!("it has {} bytes; a name of a node has 1 to {NODE_BYTES_MAX}", node.len());
            return Err(Error::argument("node", why));
        }
        Request::of_node(directory, node.to_owned())
    }

    fn of_node(directory: &Path, node: String) -> Result<Request> {
        let device = Disk::existing(directory);
        let path = format!("{}/{LOCK_FILE}", device.directory().printable());
        let blocks = LockBlocks::open(&device).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                Error::NotASpace { path: device.directory().printable(), why: "no job has opened it".to_owned() }
            }
            _ => Error::io("opening", &path, e),
        })?;
        let asked = CheckpointRequest { ticket: draw_id()?, asked_unix_ns: unix_ns(), node };
        let request = Request { blocks, path, asked: RefCell::new(asked) };
        request.ask().map_err(|e| Error::io("writing to", &request.path, e))?;
        Ok(request)
    }

    /// Identifies the request to the job. It changes if a failure has removed the revision that met the request,
    /// because the request is then sent again.
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
            // The answer to another request does not cover the node. If a request that had replaced this one was
            // answered, this one is sent again.
            let answer = self.blocks.answer();
            let answered = answer.as_ref().map(|answer| answer.ticket);
            if answered != Some(ticket) && newest.is_none_or(|newest| answered == Some(newest)) {
                let _ = self.ask();
            }
            return answer.filter(|_| answered == Some(ticket));
        }
        // A later request of another process is met later still: the answer to it answers this one too.
        let answer = self.blocks.answer().filter(|answer| [newest, Some(ticket)].contains(&Some(answer.ticket)));
        if newest.is_none() && answer.is_none() {
            // A process that had asked after this one has withdrawn, and its request had replaced ours: send ours
            // again.
            let _ = self.ask();
        }
        answer
    }

    fn ask(&self) -> io::Result<()> {
        self.blocks.write_request(Some(&self.asked.borrow()))
    }

    /// The lineage of the job that looked for requests last; `None` if no job ever did, or if the job that has the
    /// space open has not looked yet.
    pub fn listener(&self) -> Option<Lineage> {
        self.blocks.answer().map(|answer| answer.lineage).filter(|lineage| lineage.number > 0)
    }

    /// Withdraws the request, unless another has replaced it.
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
