//! Calls with which the program lets Mainstay work between its steps.

use super::{
    changed::ChangeTracker,
    program::Program,
    speculative::{Early, Speculation},
    state::SessionState,
};
use crate::{
    error::{Error, Result},
    predict::Moment,
};

impl SessionState {
    /// Advances the exchange between this rank and others. An error means that the session is over. Local, never waits.
    pub(super) fn move_on(&mut self) -> Result<()> {
        self.epoch.over.clone().map_or(Ok(()), Err)?;
        self.progress().map(drop)
    }

    /// Marks a moment between two ends of a step.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.epoch.over.clone().map_or(Ok(()), Err)?;
        let Program { tracing, regions, .. } = &mut self.program;
        tracing.iter_mut().for_each(|tracing| tracing.at(Moment::Tick, regions.all()));
        if let Some(early) = early(&mut self.resources.changing) {
            early.tick(regions.all());
        }
        Ok(())
    }

    /// Notes that the program will not write these bytes again before its next checkpoint.
    pub(super) fn settled(&mut self, name: &str, offset: u64, bytes: u64) -> Result<()> {
        let region = self.program.regions.all().iter().find(|region| region.description.name == name);
        let missing =
            || Error::RegionMissing { name: name.to_owned(), why: "is not protected; give a name that is".to_owned() };
        let region = region.ok_or_else(missing)?;
        let all = region.description.bytes;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > all && !self.program.regions.is_followed(name)) {
            let why =
                format!("{bytes} bytes from byte {offset} of region {name:?}, which has {all}; give bytes that it has");
            return Err(Error::argument("settled", why));
        }
        // A followed region may have grown since `look` was last called. The new bytes have no known place yet.
        let known = bytes.min(all.saturating_sub(offset));
        if let Some(early) = early(&mut self.resources.changing).filter(|_| known > 0) {
            early.settled(region, offset, known);
        }
        Ok(())
    }

    /// Statistics of the speculative saving.
    pub(super) fn speculation(&mut self) -> Speculation {
        let off = || Speculation {
            off: "nothing was asked to be saved early, or nothing can be".to_owned(),
            ..Speculation::default()
        };
        early(&mut self.resources.changing).map_or_else(off, |early| early.speculation())
    }
}

pub(super) fn early(changing: &mut Option<ChangeTracker>) -> Option<&mut Early> {
    changing.as_mut()?.early.as_mut()
}
