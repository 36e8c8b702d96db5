//! With `trace`: records the pages of regions that this rank writes between two moments, for `mainstay oracle`.
//!
//! Invariants: recording does not change saved data. An error ends only the recording.

use crate::{
    capture::{PageTracker, Region, page_bytes},
    config::Config,
    device::{HUGE_PAGE, Limited},
    error::Error,
    ground::{Condvar, Instant, Thread, files::Open, kernel_text, lock, spawn},
    predict::{Moment, Writer, Written},
    remark::remark,
};
use std::{
    fs,
    io::Write as _,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

const _: () = assert!(HUGE_PAGE.is_multiple_of(PAGE));
/// The page size of a trace, independent of the system's.
const PAGE: usize = 4096;

/// Ends the recording when dropped.
#[derive(Debug)]
pub(super) struct Tracing {
    shared: Arc<Shared>,
    timer: Option<Thread<()>>,
    /// Whether the program calls `due`, which ends an iteration. Then a checkpoint does not end one.
    says_steps: bool,
}

#[derive(Debug)]
struct Shared {
    /// `None` once it has ended.
    recording: Mutex<Option<Recording>>,
    ended: Condvar,
}

#[derive(Debug)]
struct Recording {
    tracker: PageTracker,
    /// Pages of regions, ascending and disjoint.
    watched: Vec<Range<usize>>,
    writer: Writer<Limited>,
    path: String,
    /// Places of regions in the order of their first protection, and the file that lists them.
    seen: Vec<(usize, usize)>,
    regions: Limited,
    has_begun: bool,
    opened: Instant,
    /// Time since `opened` that was spent in checkpoints, or waiting for them.
    left_out: Duration,
    last_us: u64,
}

impl Tracing {
    /// `None` if no trace is asked for. Also `None`, with a remark, if none can be made.
    pub(super) fn new(config: &Config, rank: usize) -> Option<Tracing> {
        let folder = config.trace.as_ref()?;
        let recording = Recording::new(folder, rank);
        let recording = recording.inspect_err(|why| remark(rank, &format!("nothing is traced: {why}"))).ok()?;
        let shared = Arc::new(Shared { recording: Mutex::new(Some(recording)), ended: Condvar::new() });
        let timer = (config.tick_every > Duration::ZERO).then(|| {
            let (shared, every) = (shared.clone(), config.tick_every);
            spawn("mainstay-tick".to_owned(), move || shared.tick_until_ended(every))
        });
        let timer = timer.transpose().inspect_err(|why| remark(rank, &format!("no tick_every: {why}"))).ok()?;
        Some(Tracing { shared, timer, says_steps: false })
    }

    /// Records `moment`, with these regions.
    pub(super) fn at(&mut self, moment: Moment, regions: &[Region]) {
        self.shared.with(|recording| {
            recording.watch(regions);
            recording.see(regions)?;
            recording.record(moment)
        });
    }

    /// Records the end of a step.
    pub(super) fn step(&mut self, regions: &[Region]) {
        self.says_steps = true;
        self.at(Moment::Iteration, regions);
    }

    /// Records a checkpoint.
    pub(super) fn checkpoint(&mut self, regions: &[Region]) {
        if !self.says_steps {
            self.at(Moment::Iteration, regions);
        }
        self.at(Moment::Checkpoint, regions);
    }

    /// Leaves out the time since `begun`. It was spent in a checkpoint, or waiting for one, and differs in a run with
    /// other checkpoints.
    pub(super) fn leave_out(&self, begun: Instant) {
        self.shared.with(|recording| {
            recording.left_out += begun.elapsed();
            Ok(())
        });
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        *lock(&self.shared.recording) = None;
        self.shared.ended.notify_all();
        // A thread that panicked has reported it.
        self.timer.take().into_iter().for_each(|timer| drop(timer.join()));
    }
}

impl Shared {
    fn with(&self, work: impl FnOnce(&mut Recording) -> Result<(), Error>) {
        let mut recording = lock(&self.recording);
        if let Some(Err(error)) = recording.as_mut().map(work) {
            remark(0, &format!("the trace ends here: {error}"));
            *recording = None;
        }
    }

    fn tick_until_ended(&self, every: Duration) {
        let mut recording = lock(&self.recording);
        while recording.is_some() {
            let waited = self.ended.wait_timeout(&self.recording, recording, every);
            recording = waited.0;
            if waited.1 {
                drop(recording);
                // A trace begins after the restore, or after a start without one.
                self.with(|recording| if recording.has_begun { recording.record(Moment::Tick) } else { Ok(()) });
                recording = lock(&self.recording);
            }
        }
    }
}

impl Recording {
    fn new(folder: &Path, rank: usize) -> Result<Recording, String> {
        let tracker = PageTracker::new()?;
        let path = folder.join(format!("rank-{rank}.trace"));
        let made = |path: &Path| Open::to_write().or_make().emptied().mode(0o666).through_links().file(path);
        let made = fs::create_dir_all(folder).and_then(|()| Ok((made(&path)?, made(&path.with_extension("regions"))?)));
        let (file, regions) = made.map_err(|error| format!("{}: {error}", path.display()))?;
        let (file, regions) = (Limited::new(file), Limited::new(regions));
        let (path, writer) = (path.display().to_string(), Writer::new(file));
        Ok(Recording {
            tracker,
            watched: Vec::new(),
            writer,
            path,
            seen: Vec::new(),
            regions,
            has_begun: false,
            opened: Instant::now(),
            left_out: Duration::ZERO,
            last_us: 0,
        })
    }

    /// Watches the pages of `regions`, and no others.
    fn watch(&mut self, regions: &[Region]) {
        let page = page_bytes();
        let mut pages: Vec<Range<usize>> = Vec::with_capacity(regions.len());
        for row in regions.iter().filter_map(Region::row).filter(|row| !row.is_empty()) {
            let start = row.as_ptr().addr();
            pages.push(start / page * page..(start + row.len()).next_multiple_of(page));
        }
        pages.sort_unstable_by_key(|range| range.start);
        pages.dedup_by(|next, last| {
            let is_one = next.start <= last.end;
            last.end = last.end.max(if is_one { next.end } else { 0 });
            is_one
        });
        if self.watched == pages {
            return;
        }
        let (stay, left): (Vec<_>, Vec<_>) = self.watched.drain(..).partition(|watched| pages.contains(watched));
        left.into_iter().for_each(|range| self.tracker.unwatch(range));
        // Pages that cannot be watched are missing from the trace.
        pages.retain(|range| stay.contains(range) || self.tracker.watch(range.clone()).is_ok());
        self.watched = pages;
    }

    /// Lists the places of regions not seen before. In a run that is compared with this one, they have other addresses.
    fn see(&mut self, regions: &[Region]) -> Result<(), Error> {
        for row in regions.iter().filter_map(Region::row) {
            let lies = (row.as_ptr().addr(), row.len());
            if !self.seen.contains(&lies) {
                self.seen.push(lies);
                let line = format!("{} {}\n", lies.0, lies.1);
                self.regions.write_all(line.as_bytes()).map_err(|error| Error::io("writing", &self.path, error))?;
            }
        }
        Ok(())
    }

    fn record(&mut self, moment: Moment) -> Result<(), Error> {
        let mut written = Vec::new();
        self.watched.retain(|range| self.tracker.written(range.clone(), &mut written).is_ok());
        // Writes before the first iteration do not count.
        let (moment, written) = if self.has_begun { (moment, written) } else { (Moment::Iteration, Vec::new()) };
        self.has_begun = true;
        let stretches = written.iter().map(|range| {
            let first = range.start / PAGE;
            (first as u64, (range.end.div_ceil(PAGE) - first) as u64)
        });
        // A record by the clock, during time that is left out later, may be later than the next record.
        let at_us = self.opened.elapsed().saturating_sub(self.left_out).as_micros() as u64;
        self.last_us = self.last_us.max(at_us);
        let record = Written { moment, at_us: self.last_us, resident: resident(), stretches: stretches.collect() };
        self.writer.write(&record).map_err(|error| Error::io("writing", &self.path, error))
    }
}

/// Pages that this process has in memory; 0 if the system does not say.
fn resident() -> u64 {
    let text = kernel_text("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * (page_bytes() / PAGE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ground::sleep, predict::Reader};
    use std::io::BufReader;

    #[test]
    fn the_time_of_a_checkpoint_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { trace: Some(folder.path().to_owned()), ..Config::default() };
        // Systems that cannot trace make a remark and record nothing.
        let Some(mut tracing) = Tracing::new(&config, 0) else { return };
        let begun = Instant::now();
        tracing.at(Moment::Iteration, &[]);
        let left_out = Duration::from_millis(20);
        let from = Instant::now();
        sleep(left_out);
        tracing.leave_out(from);
        tracing.at(Moment::Tick, &[]);
        let all = begun.elapsed();
        drop(tracing);
        let file = fs::File::open(folder.path().join("rank-0.trace")).unwrap();
        let written: Vec<Written> = Reader::new(BufReader::new(file), "").collect::<Result<_, _>>().unwrap();
        let took = Duration::from_micros(written[1].at_us - written[0].at_us);
        assert!(took <= all - left_out, "{took:?} of {all:?}");
    }
}
