//! The oracle in a real program: a recorded run shows which pages are not written again (paper 004, section 4.2).
//!
//! Intervals and ticks are counted from checkpoint to checkpoint. Regions are matched by the order of their first
//! protection, because their addresses differ in each run.

use crate::{
    capture::Region,
    ground::files::{Open, read_from},
    predict::{Moment, Page, Reader},
    space::format::BLOCK,
};
use std::{collections::HashMap, fs::File, io::BufReader, ops::Range, path::Path};

/// Limit for the list of regions, more than any program protects.
const REGIONS_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Recorded {
    trace: Reader<BufReader<File>>,
    /// The regions of the recorded run and of this run: address and bytes.
    then: Vec<(u64, u64)>,
    now: Vec<(u64, u64)>,
    has_begun: bool,
    /// For each page in the current interval: the number of the last tick that found it written.
    last: HashMap<u64, u64>,
    ticks: u64,
}

impl Recorded {
    /// Opens the recording of `trace` for this rank in `folder`. The error names the missing part.
    pub(super) fn open(folder: &Path, rank: usize) -> Result<Recorded, String> {
        let path = folder.join(format!("rank-{rank}.trace"));
        let wrong = |path: &Path, why: String| format!("{}: {why}", path.display());
        let open = |path: &Path| Open::to_read().through_links().file(path);
        let file = open(&path).map_err(|error| wrong(&path, error.to_string()))?;
        let trace = Reader::new(BufReader::new(file), &path.display().to_string());
        let path = path.with_extension("regions");
        let bytes = open(&path).and_then(|file| read_from(file, REGIONS_BYTES_MAX));
        let bytes = bytes.map_err(|error| wrong(&path, error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let line = |line: &str| {
            let (at, bytes) = line.split_once(' ')?;
            Some((at.parse().ok()?, bytes.parse().ok()?))
        };
        let then = text.lines().map(line).collect::<Option<_>>();
        let then = then.ok_or_else(|| wrong(&path, "a line of it is no region; record the run anew".to_owned()))?;
        Ok(Recorded { trace, then, now: Vec::new(), has_begun: false, last: HashMap::new(), ticks: 0 })
    }

    /// Notes protected `regions`.
    pub(super) fn see(&mut self, regions: &[Region]) {
        for row in regions.iter().filter_map(Region::row) {
            let lies = (row.as_ptr().addr() as u64, row.len() as u64);
            if !self.now.contains(&lies) {
                self.now.push(lies);
            }
        }
    }

    /// Begins the next interval after a checkpoint. An error ends the prediction.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.last.clear();
        let skipped = if std::mem::replace(&mut self.has_begun, true) { 0 } else { 1 };
        let known = self.known_pages();
        for pass in 0..=skipped {
            self.ticks = 0;
            let is_wanted = pass == skipped;
            for record in self.trace.by_ref() {
                let record = record.map_err(|error| error.to_string())?;
                if is_wanted {
                    let tick = self.ticks;
                    for (first, count) in &record.stretches {
                        let end = first.saturating_add(*count);
                        // Only known pages are kept: a damaged trace may name any number of others.
                        let pages = known.iter().flat_map(|pages| pages.start.max(*first)..pages.end.min(end));
                        self.last.extend(pages.map(|page| (page, tick)));
                    }
                }
                if record.moment == Moment::Checkpoint {
                    break;
                }
                self.ticks += 1;
            }
        }
        self.ticks = 0;
        Ok(())
    }

    /// The recorded pages of the regions that are protected now.
    fn known_pages(&self) -> Vec<Range<u64>> {
        let both = self.now.iter().zip(&self.then).filter(|((_, bytes), (_, as_many))| bytes == as_many);
        let page = BLOCK as u64;
        both.map(|(_, (then, bytes))| then / page..then.saturating_add(*bytes).div_ceil(page) + 1).collect()
    }

    /// Counts a tick.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Adds those of the blocks `written`, at these addresses, that the interval does not write after this tick.
    pub(super) fn settled(&self, written: impl Iterator<Item = (Page, usize)>, settled: &mut Vec<Page>) {
        let now = self.ticks.saturating_sub(1);
        let is_over = |address: usize| {
            let first = self.then_at(address as u64)?;
            let pages = first / BLOCK as u64..=first.div_ceil(BLOCK as u64);
            let last = pages.filter_map(|page| self.last.get(&page)).max()?;
            Some(*last <= now)
        };
        settled.extend(written.filter(|(_, address)| is_over(*address) == Some(true)).map(|(page, _)| page));
    }

    /// The address in the recorded run for this `address`.
    fn then_at(&self, address: u64) -> Option<u64> {
        let lies = |((now, bytes), (then, as_many)): (&(u64, u64), &(u64, u64))| {
            let inside = address.checked_sub(*now).filter(|inside| inside < bytes && bytes == as_many)?;
            then.checked_add(inside)
        };
        self.now.iter().zip(&self.then).find_map(lies)
    }
}
