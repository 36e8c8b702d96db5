//! The blocks of the lock file: a request for a checkpoint, the job's answer, and the opener of the space. Reading and
//! writing them; a block that cannot be read counts as empty.

use super::{
    Aligned, LOCK_FILE,
    format::{BLOCK, BLOCK_BYTES, CheckpointAnswer, CheckpointRequest, Opener},
};
use crate::device::{self, Access, Device, File};
use std::{io, sync::Arc};

const REQUEST_AT: u64 = 0;
const ANSWER_AT: u64 = BLOCK_BYTES;
const OPENER_AT: u64 = 2 * BLOCK_BYTES;

#[derive(Debug)]
pub(crate) struct LockBlocks {
    file: Arc<dyn File>,
}

impl LockBlocks {
    /// The blocks of a space that a job has opened before.
    pub(crate) fn open(device: &dyn Device) -> io::Result<LockBlocks> {
        Ok(LockBlocks { file: device.open(LOCK_FILE, Access::Write, None)? })
    }

    pub(crate) fn request(&self) -> Option<CheckpointRequest> {
        self.read(REQUEST_AT).and_then(|block| CheckpointRequest::parse(&block))
    }

    pub(crate) fn answer(&self) -> Option<CheckpointAnswer> {
        self.read(ANSWER_AT).and_then(|block| CheckpointAnswer::parse(&block))
    }

    /// Writes the request, or `None` in its place.
    pub(crate) fn write_request(&self, request: Option<&CheckpointRequest>) -> io::Result<()> {
        self.write(REQUEST_AT, &request.map_or([0; BLOCK], CheckpointRequest::build))
    }

    pub(crate) fn write_answer(&self, answer: &CheckpointAnswer) -> io::Result<()> {
        self.write(ANSWER_AT, &answer.build())
    }

    pub(crate) fn opener(&self) -> Option<Opener> {
        self.read(OPENER_AT).and_then(|block| Opener::parse(&block))
    }

    pub(crate) fn write_opener(&self, opener: &Opener) -> io::Result<()> {
        self.write(OPENER_AT, &opener.build())
    }

    fn read(&self, at: u64) -> Option<[u8; BLOCK]> {
        let mut block = Aligned::zeroed(BLOCK_BYTES)?;
        device::read_full(&*self.file, &mut block, at).ok()?;
        block[..BLOCK].try_into().ok()
    }

    fn write(&self, at: u64, block: &[u8; BLOCK]) -> io::Result<()> {
        let block = Aligned::holding(block).ok_or(io::ErrorKind::OutOfMemory)?;
        device::write_full(&*self.file, &block, at).map(drop)
    }
}
