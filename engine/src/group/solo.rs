//! A job of one rank.

use super::{Divided, Group, Incoming, Message, Outgoing};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, Default)]
pub struct Solo;

impl Group for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn ranks_here(&self) -> usize {
        1
    }

    fn all_max(&self, _values: &mut [u64]) -> Result<()> {
        Ok(())
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }

    fn broadcast(&self, _root: usize, _bytes: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn start_send(&self, _to: usize, _bytes: Outgoing) -> Result<Message> {
        Err(alone())
    }

    fn start_receive(&self, _from: usize, _into: Incoming) -> Result<Message> {
        Err(alone())
    }

    fn failed(&self) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    fn shrink(&self, _divided: Divided) -> Result<Box<dyn Group>> {
        Ok(Box::new(Solo))
    }
}

fn alone() -> Error {
    Error::Internal { what: "a message to another rank in a job of one".to_owned() }
}
