//! Replays a trace: computes which pages predictors would have saved early in the recorded run (the oracle simulator of
//! paper 004, section 4.2).

use super::{Kind, Moment, Numbering, Page, Predictor, Tick, Written, oracle::Oracle, tally::SpeculativeTally};
use crate::{
    error::{Error, Result},
    ground::{control_group, kernel_text},
};
use std::{ops::Range, time::Duration};

pub use super::tally::Outcome;

/// Bytes that all predictors together keep for a page, approximately.
const PAGE_BYTES: u64 = 1024;
/// Bytes for a page of an interval: as found, and as predictors pass it on.
const HELD_BYTES: u64 = 16;

/// The ends of intervals.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The number of iterations in an interval.
    pub iterations: usize,
    /// Whether intervals end half-way through an iteration.
    pub inside: bool,
    /// The maximum number of ticks of an interval, besides the ends of iterations.
    pub ticks: Option<usize>,
}

/// The speed of saving pages in the background.
#[derive(Debug, Clone, Copy)]
pub enum Speed {
    /// Saving the writes of an interval takes this fraction of its time.
    Share(f64),
    /// Pages in a second.
    Rate(f64),
}

/// A replay of one trace with several predictors beside one another. Holds one interval in memory.
pub struct Replay {
    ends: Ends,
    writer: Speed,
    /// Intervals for learning before counting begins.
    learn: usize,
    tried: Vec<ReplayedPredictor>,
    oracle: Oracle,
    pages: Numbering,
    has_started: bool,
    begun_us: Option<u64>,
    interval: Vec<Ticked>,
    intervals: usize,
    /// Number of pages held for the current interval and iteration, once for each tick.
    held: usize,
    /// The memory that the replay may take, in bytes.
    room: u64,
    /// The ticks of an iteration, until its end, and so its middle, is known.
    iteration: Vec<Ticked>,
    iterations: usize,
}

struct ReplayedPredictor {
    kind: Kind,
    predictor: Option<Box<dyn Predictor>>,
    early: SpeculativeTally,
    total: Outcome,
}

#[derive(Debug)]
struct Ticked {
    at_us: u64,
    is_mark: bool,
    written: Vec<Page>,
}

impl Replay {
    /// `after`: as for `Kind::predictor`.
    pub fn new(ends: Ends, writer: Speed, learn: usize, kinds: &[Kind], after: Option<Duration>) -> Result<Replay> {
        let share = match writer {
            Speed::Share(share) => share,
            Speed::Rate(rate) => rate,
        };
        if ends.iterations == 0 || ends.ticks == Some(0) || share.is_nan() || share <= 0.0 {
            let why = "an interval needs an iteration, a tick and a writer; give numbers above 0";
            return Err(Error::InvalidArgument { what: "replay".to_owned(), why: why.to_owned() });
        }
        let tried = kinds.iter().map(|kind| ReplayedPredictor {
            kind: *kind,
            predictor: kind.predictor(after),
            early: SpeculativeTally::default(),
            total: Outcome::default(),
        });
        Ok(Replay {
            ends,
            writer,
            learn,
            tried: tried.collect(),
            oracle: Oracle::default(),
            pages: Numbering::default(),
            has_started: false,
            begun_us: None,
            interval: Vec::new(),
            intervals: 0,
            held: 0,
            room: memory_free() / 2,
            iteration: Vec::new(),
            iterations: 0,
        })
    }

    /// The next record of the trace.
    pub fn record(&mut self, record: &Written) -> Result<()> {
        if record.moment == Moment::Checkpoint && record.stretches.is_empty() {
            return Ok(());
        }
        let is_mark = record.moment == Moment::Iteration;
        let ticked = Ticked { at_us: record.at_us, is_mark, written: self.numbered(record)? };
        if !std::mem::replace(&mut self.has_started, true) {
            if !self.ends.inside {
                self.begin(record.at_us, is_mark);
            }
            return Ok(());
        }
        self.iteration.push(ticked);
        if is_mark {
            self.end_iteration();
        }
        Ok(())
    }

    fn numbered(&mut self, record: &Written) -> Result<Vec<Page>> {
        let too_many = || Error::InvalidArgument {
            what: "trace".to_owned(),
            why:
                "its replay takes more memory than this machine has free; record less memory, or replay it on a larger \
                  machine"
                    .to_owned(),
        };
        let mut written = Vec::new();
        for Range { start, end } in merged(&record.stretches) {
            for page in start..end {
                written.push(self.pages.number(page).ok_or_else(too_many)?);
                let held = (self.held + written.len()) as u64 * HELD_BYTES;
                if u64::from(self.pages.count()) * PAGE_BYTES + held > self.room {
                    return Err(too_many());
                }
            }
        }
        written.sort_unstable();
        self.held += written.len();
        Ok(written)
    }

    fn end_iteration(&mut self) {
        let mut iteration = std::mem::take(&mut self.iteration);
        let middle = iteration.len().div_ceil(2);
        let is_last =
            self.iterations % self.ends.iterations == if self.ends.inside { 0 } else { self.ends.iterations - 1 };
        self.iterations += 1;
        if !self.ends.inside {
            self.interval.append(&mut iteration);
            if is_last {
                self.end_interval();
            }
            return;
        }
        let rest = iteration.split_off(if is_last { middle } else { 0 });
        if self.begun_us.is_some() {
            self.interval.extend(iteration);
        } else if let Some(last) = iteration.last().filter(|_| is_last) {
            self.begin(last.at_us, last.is_mark);
        }
        if is_last && !self.interval.is_empty() {
            self.end_interval();
        }
        if self.begun_us.is_some() {
            self.interval.extend(rest);
        }
    }

    /// Begins counting; earlier writes do not count.
    fn begin(&mut self, at_us: u64, is_mark: bool) {
        self.begun_us = Some(at_us);
        for tried in &mut self.tried {
            if let Some(predictor) = &mut tried.predictor {
                predictor.tick(&Tick { at_us, is_mark, written: &[], capacity: 0 }, &mut Vec::new());
            }
        }
    }

    fn end_interval(&mut self) {
        let mut interval = std::mem::take(&mut self.interval);
        if let Some(most) = self.ends.ticks {
            thin(&mut interval, most);
        }
        let (Some(begun), Some(last)) = (self.begun_us, interval.last()) else { return };
        let ended = last.at_us;
        let rate = self.rate(&interval, ended.saturating_sub(begun));
        self.oracle.learn(interval.iter().map(|ticked| &ticked.written[..]));
        for tried in &mut self.tried {
            let outcome = tried.interval(&interval, begun, rate, &mut self.oracle);
            if self.intervals >= self.learn {
                tried.total.dirty += outcome.dirty;
                tried.total.early += outcome.early;
                tried.total.wasted += outcome.wasted;
            }
        }
        self.intervals += 1;
        self.begun_us = Some(ended);
        self.held = 0;
    }

    /// Pages in a microsecond.
    fn rate(&self, interval: &[Ticked], took_us: u64) -> f64 {
        match self.writer {
            Speed::Rate(pages) => pages / 1e6,
            Speed::Share(share) => {
                let mut dirty: Vec<Page> = interval.iter().flat_map(|ticked| &ticked.written).copied().collect();
                dirty.sort_unstable();
                dirty.dedup();
                dirty.len() as f64 / (share * took_us.max(1) as f64)
            }
        }
    }

    /// The number of counted intervals.
    pub fn counted(&self) -> usize {
        self.intervals.saturating_sub(self.learn)
    }

    /// The result of each predictor over all counted intervals.
    pub fn outcomes(&self) -> impl Iterator<Item = (Kind, Outcome)> + '_ {
        self.tried.iter().map(|tried| (tried.kind, tried.total))
    }
}

impl ReplayedPredictor {
    fn interval(&mut self, interval: &[Ticked], begun_us: u64, rate: f64, oracle: &mut Oracle) -> Outcome {
        let (mut before_us, mut left, mut settled) = (begun_us, 0.0, Vec::new());
        for (index, Ticked { at_us, is_mark, written }) in interval.iter().enumerate() {
            // The unfinished part of a page is carried over.
            left = f64::min(left, 1.0) + rate * at_us.saturating_sub(before_us) as f64;
            let capacity = left as u64;
            left -= capacity as f64;
            before_us = *at_us;
            self.early.save(capacity);
            self.early.written(written);
            settled.clear();
            match &mut self.predictor {
                Some(predictor) => {
                    let tick = Tick { at_us: *at_us, is_mark: *is_mark, written, capacity };
                    predictor.tick(&tick, &mut settled);
                }
                None if self.kind == Kind::Oracle => oracle.tick(index, written, &mut settled),
                None => {}
            }
            self.early.settled(&settled);
        }
        if let Some(predictor) = &mut self.predictor {
            predictor.checkpoint();
        }
        self.early.end()
    }
}

/// The pages of stretches, each once, in ascending ranges that do not touch.
fn merged(stretches: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = stretches.iter().map(|(first, pages)| *first..first + pages).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let touches = next.start <= before.end;
        if touches {
            before.end = before.end.max(next.end);
        }
        touches
    });
    ranges
}

/// The memory available to programs, in bytes; no limit if the system does not say.
fn memory_free() -> u64 {
    let text = kernel_text("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024)).min(control_group::free_bytes())
}

/// Merges ticks until about `most` are left; the ends of iterations stay.
fn thin(ticks: &mut Vec<Ticked>, most: usize) {
    let count = ticks.len();
    if count <= most {
        return;
    }
    let mut thinned: Vec<Ticked> = Vec::with_capacity(most);
    let (mut open, mut kept) = (None::<Ticked>, 0);
    for (index, ticked) in ticks.drain(..).enumerate() {
        let mut now = match open.take() {
            Some(mut before) => {
                before.written.extend(&ticked.written);
                Ticked { at_us: ticked.at_us, is_mark: ticked.is_mark, ..before }
            }
            None => ticked,
        };
        if now.is_mark || (index + 1) * most / count > kept {
            kept = (index + 1) * most / count;
            now.written.sort_unstable();
            now.written.dedup();
            thinned.push(now);
        } else {
            open = Some(now);
        }
    }
    thinned.extend(open);
    *ticks = thinned;
}
