//! The predictor of a session, from which nothing can come that harms it.

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
    /// `None`: the program alone tells, or the predictor has failed.
    predictor: Option<Box<dyn Predictor>>,
    /// What a recorded run knows.
    recorded: Option<Recorded>,
    /// Blocks in a microsecond, as they were saved so far.
    rate: Option<f64>,
    last: Instant,
}

impl Guess {
    pub(super) fn new(predictor: Option<Box<dyn Predictor>>, recorded: Option<Recorded>) -> Guess {
        Guess { predictor, recorded, rate: None, last: Instant::now() }
    }

    /// The predictor that is set; `None` of those that the session knows itself.
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

    /// Tells the predictor what was written, and gives how many blocks can have been saved since the tick before, and which
    /// are settled. An error: it has panicked, and is gone.
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

    /// The program is at a tick, at which it is looked at or not, with these regions.
    pub(super) fn count(&mut self, regions: Option<&[Region]>) {
        if let Some(recorded) = &mut self.recorded {
            recorded.see(regions.unwrap_or_default());
            recorded.tick();
        }
    }

    /// Another interval begins, with these regions. An error: the recorded run tells no more.
    pub(super) fn begin(&mut self, regions: &[Region]) -> Result<(), String> {
        let Some(recorded) = &mut self.recorded else { return Ok(()) };
        recorded.see(regions);
        recorded.begin()
    }

    /// A checkpoint has been taken at the last tick.
    pub(super) fn checkpoint(&mut self) -> Result<(), ()> {
        self.guarded(|predictor| predictor.checkpoint())
    }

    fn guarded(&mut self, work: impl FnOnce(&mut dyn Predictor)) -> Result<(), ()> {
        let Some(predictor) = &mut self.predictor else { return Ok(()) };
        // A predictor that panicked is dropped, whatever it has become.
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut **predictor)));
        worked.map_err(|_| self.predictor = None)
    }

    /// So many blocks took so long to save.
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
