//! What is under way between the ranks goes on where the program says so, between its steps.

use super::{inner::Inner, program::Program};
use crate::{error::Result, predict::Moment};

impl Inner {
    /// Moves on what is under way between this rank and others. An error if the session is over. Local, never waits.
    pub(super) fn move_on(&mut self) -> Result<()> {
        self.epoch.over.clone().map_or(Ok(()), Err)?;
        self.progress().map(drop)
    }

    /// A moment that the program names, between two ends of a step.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.epoch.over.clone().map_or(Ok(()), Err)?;
        let Program { tracing, regions, .. } = &mut self.program;
        tracing.iter_mut().for_each(|tracing| tracing.at(Moment::Tick, regions.all()));
        Ok(())
    }
}
