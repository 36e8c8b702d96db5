//! Runs the predictor of a session, and protects the session from its failures.

use super::recorded::Recorded;
use crate::{
    capture::Region,
    config::{Config, Predictor as Wanted},
    ground::{Instant, processor_us},
    predict::{Kind, Page, Predictor, Tick},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

pub(super) struct Guess {
    /// `None`: only the program names settled memory, or the predictor has failed.
    predictor: Option<Box<dyn Predictor>>,
    /// The knowledge of a recorded run.
    recorded: Option<Recorded>,
    /// Blocks saved per microsecond so far.
    rate: Option<f64>,
    last: Instant,
}

impl Guess {
    pub(super) fn new(predictor: Option<Box<dyn Predictor>>, recorded: Option<Recorded>) -> Guess {
        Guess { predictor, recorded, rate: None, last: Instant::now() }
    }

    /// The configured predictor; `None` for those that the session handles itself.
    pub(super) fn by_name(config: &Config) -> Option<Box<dyn Predictor>> {
        let kind = match config.predictor {
            Wanted::Off | Wanted::Told | Wanted::Oracle => return None,
            Wanted::Auto => Kind::Auto,
            Wanted::Infrequent => Kind::Infrequent,
            Wanted::Idle => Kind::Idle,
            Wanted::Phase => Kind::Phase,
            Wanted::Count => Kind::Count,
        };
        kind.predictor(Some(config.infrequent_after).filter(|after| *after > Duration::ZERO))
    }

    /// Gives the predictor the written pages. Returns how many blocks can have been saved since the last tick, and the
    /// settled pages. Error: the predictor panicked, and was dropped.
    pub(super) fn tick(
        &mut self,
        written: &[Page],
        addresses: impl Fn(Page) -> usize,
        is_mark: bool,
    ) -> Result<(u64, Vec<Page>), ()> {
        let elapsed = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        let most = |rate: f64| (rate * elapsed.as_micros() as f64) as u64;
        let capacity = self.rate.map_or(u64::from(u32::MAX), most);
        let tick = Tick { at_us: processor_us(), is_mark, written, capacity };
        let mut settled = Vec::new();
        self.guarded(|predictor| predictor.tick(&tick, &mut settled))?;
        if let Some(recorded) = &self.recorded {
            recorded.settled(written.iter().map(|page| (*page, addresses(*page))), &mut settled);
        }
        Ok((capacity, settled))
    }

    /// Counts a tick, with or without a look, at which these regions are protected.
    pub(super) fn count(&mut self, regions: Option<&[Region]>) {
        if let Some(recorded) = &mut self.recorded {
            recorded.see(regions.unwrap_or_default());
            recorded.tick();
        }
    }

    /// Begins another interval, with these regions. Error: the recorded run is of no further use.
    pub(super) fn begin(&mut self, regions: &[Region]) -> Result<(), String> {
        let Some(recorded) = &mut self.recorded else { return Ok(()) };
        recorded.see(regions);
        recorded.begin()
    }

    /// Notes that a checkpoint was taken at the last tick.
    pub(super) fn checkpoint(&mut self) -> Result<(), ()> {
        self.guarded(|predictor| predictor.checkpoint())
    }

    fn guarded(&mut self, work: impl FnOnce(&mut dyn Predictor)) -> Result<(), ()> {
        let Some(predictor) = &mut self.predictor else { return Ok(()) };
        // A predictor that panicked is dropped, in whatever state it is.
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut **predictor)));
        worked.map_err(|_| self.predictor = None)
    }

    /// Notes the time to save this number of blocks.
    pub(super) fn saved(&mut self, blocks: usize, took: Duration) {
        let now = blocks as f64 / (took.as_micros() as f64).max(1.0);
        self.rate = Some(self.rate.map_or(now, |rate| 0.75 * rate + 0.25 * now));
    }
}

impl std::fmt::Debug for Guess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guess").field("rate", &self.rate).finish_non_exhaustive()
    }
}
