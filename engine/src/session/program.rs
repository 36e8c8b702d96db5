//! What the program has said: what is to be saved, when, and what it has asked to read.

use super::{checkpoint::Begun, due::Due, reading::Reading};
use crate::{
    capture::{Notes, Outputs, Regions},
    config::Config,
    error::{Error, Result},
};

pub(super) struct Program {
    /// Between t1 and t2.
    pub(super) begun: Option<Begun>,
    pub(super) regions: Regions,
    pub(super) notes: Notes,
    pub(super) outputs: Outputs,
    pub(super) due: Due,
    pub(super) reading: Reading,
    /// Whether earlier jobs left something that this session has not read, and may not push out unread.
    pub(super) unread: bool,
    /// Why the next collective call is to do nothing, if it is.
    pub(super) refused: Option<Error>,
    pub(super) config: Config,
}

impl Program {
    /// What it may change with `call`: nothing once a checkpoint has begun, which has its items already.
    pub(super) fn not_begun(&mut self, call: &str) -> Result<&mut Program> {
        if self.begun.is_none() {
            return Ok(self);
        }
        let why = "a checkpoint has begun; finish it with checkpoint, or give it up with abandon, first";
        Err(Error::argument(call, why))
    }

    pub(super) fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// Whether the call that begins now may do anything: all ranks are told if not.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Where a stream of the checkpoint that has begun ends so far.
    pub(super) fn written_bytes(&self, name: &str) -> Result<u64> {
        match &self.begun {
            Some(Begun { staging, .. }) => {
                staging.as_ref().map(|staging| staging.stream_bytes(name)).map_err(Error::clone)
            }
            None => Err(Error::argument("written_bytes", "no checkpoint has begun; call begin first, on all ranks")),
        }
    }
}
