//! How hosts reach each other: an adapter implements this.

use mainstay_engine::Result;

/// The processes of the job, by the same numbers as in the session. After a recovery they are others, and a message that
/// was sent before does not arrive. An error means that the processes can no longer reach each other.
pub trait Wire {
    fn process(&self) -> usize;
    fn processes(&self) -> usize;
    /// Sends a message. The adapter keeps its own copy. Does not wait. Messages between two processes arrive in
    /// order.
    fn send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<()>;
    /// Takes a message that has arrived, and passes it to `takes` with its sender. False: there is none.
    fn receive(&mut self, takes: &mut dyn FnMut(usize, &[u8])) -> Result<bool>;
    /// Adds up the words of all processes. Collective.
    fn sum(&mut self, words: &mut [u64]) -> Result<()>;
}

/// The wire of a job that is one process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Wire for Alone {
    fn process(&self) -> usize {
        0
    }

    fn processes(&self) -> usize {
        1
    }

    fn send(&mut self, _: usize, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: &mut dyn FnMut(usize, &[u8])) -> Result<bool> {
        Ok(false)
    }

    fn sum(&mut self, _: &mut [u64]) -> Result<()> {
        Ok(())
    }
}
