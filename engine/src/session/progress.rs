//! What is under way between the ranks goes on where the program says so, between its steps.

use super::inner::Inner;
use crate::error::Result;

impl Inner {
    /// Moves on what is under way between this rank and others. An error if the session is over. Local, never waits.
    pub(super) fn move_on(&mut self) -> Result<()> {
        self.epoch.over.clone().map_or(Ok(()), Err)?;
        self.progress().map(drop)
    }
}
