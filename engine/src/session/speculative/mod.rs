//! Speculative checkpointing, with a `predictor` (paper 004). Mainstay saves memory that the program will probably not
//! write again before its next checkpoint. It does so while the program goes on, into free blocks. The next revision
//! then refers to these blocks.
//!
//! Invariants: the contents of a revision never depend on a predictor. A page is protected again before it is copied,
//! so a write during the copy is reported. A report of written pages is noted before the tracker's lock is released.
//! Nothing is saved early from t1 until the revision is finished here, nor while another writer writes a root.

mod blocks;
mod budget;
mod gate;
mod guess;
mod recorded;
mod speculation_state;
#[cfg(test)]
mod tests;
mod turns;

use crate::{
    capture::{self, Changes, Region, WrittenOf, unseen_writer},
    config::{Config, Predictor as Wanted, Stagger, Track},
    error::{Error, Result},
    ground::{Condvar, Instant, Thread, files, lock, spawn, thread_time},
    place::SpeculativePart,
    space::{
        Aligned,
        format::{BLOCK, BLOCK_BYTES, EarlyOff, SavedEarly},
    },
};
use blocks::Blocks;
use budget::Budget;
use gate::Gate;
use guess::Guess;
use recorded::Recorded;
pub use speculation_state::Speculation;
pub(super) use speculation_state::WaitForDurable;
use speculation_state::{LastInterval, Room, SpeculationState};
use std::{
    fs::File,
    os::unix::fs::FileExt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};
use turns::Turns;

/// The tracker of changes, which also looks at ticks.
pub(super) type Way = Arc<Mutex<Box<dyn Changes>>>;

/// Ends its thread when dropped.
#[derive(Debug)]
pub(super) struct Early {
    shared: Arc<Shared>,
    thread: Option<Thread<()>>,
    /// Whether the clock triggers looks, at moments that the program does not know.
    pub(super) looks_by_clock: bool,
    /// Whether the program calls `due`, which ends a step. Then a checkpoint does not end one.
    says_steps: bool,
}

#[derive(Debug)]
struct Shared {
    // Lock order: `way`, then `live`.
    way: Way,
    live: Mutex<SpeculationState>,
    changed: Condvar,
    /// The memory of this process. An address without memory causes a read error, and no harm.
    memory: File,
    /// The user asserts that nothing writes past the pages.
    trusts_pages: bool,
    rank: usize,
}

impl Early {
    /// The error says why nothing can be saved early.
    pub(super) fn new(config: &Config, way: Way, (rank, ranks): (usize, usize)) -> std::result::Result<Early, String> {
        let memory = files::kernel_file("/proc/self/mem").map_err(|error| format!("/proc/self/mem: {error}"))?;
        let predictor = Guess::by_name(config);
        let folder = config.oracle.as_ref().filter(|_| config.predictor == Wanted::Oracle);
        let recorded = folder.map(|folder| Recorded::open(folder, rank)).transpose()?;
        let live = SpeculationState {
            blocks: Blocks::default(),
            guess: Guess::new(predictor, recorded),
            gate: Gate::default(),
            budget: Budget::new(),
            turns: Turns::new(rank, ranks, config.stagger == Stagger::On),
            room: Room::None,
            is_full: false,
            remarked_full: false,
            has_begun: false,
            is_stopped: true,
            is_writing: false,
            has_ended: false,
            totals: Speculation::default(),
            off: EarlyOff::No,
            last: LastInterval::default(),
        };
        let trusts_pages = config.track == Track::Pages;
        let shared = Shared { way, live: Mutex::new(live), changed: Condvar::new(), memory, trusts_pages, rank };
        let shared = Arc::new(shared);
        let every = Some(config.tick_every).filter(|every| *every > Duration::ZERO);
        let at_work = shared.clone();
        let thread =
            spawn("mainstay-early".to_owned(), move || at_work.run(every)).map_err(|error| error.to_string())?;
        Ok(Early { shared, thread: Some(thread), looks_by_clock: every.is_some(), says_steps: false })
    }

    /// Replaces the predictor.
    #[cfg(test)]
    fn predict_by(&self, predictor: Box<dyn crate::predict::Predictor>) {
        lock(&self.shared.live).guess = Guess::new(Some(predictor), None);
    }

    /// Marks a moment between two ends of a step.
    pub(super) fn tick(&self, regions: &[Region]) {
        self.shared.tick(Some(regions), false);
    }

    /// Marks the end of a step.
    pub(super) fn step(&mut self, regions: &[Region]) {
        self.says_steps = true;
        self.shared.tick(Some(regions), true);
    }

    /// Notes that the program will not write these bytes of `region` again before its next checkpoint.
    pub(super) fn settled(&self, region: &Region, offset: u64, bytes: u64) {
        let Some(row) = region.row() else { return };
        let start = row.as_ptr().addr();
        let mut way = lock(&self.shared.way);
        if !lock(&self.shared.live).is_looking() || self.shared.may_be_passed_by() {
            return;
        }
        way.tick_at(region);
        let written = way.take_written();
        let mut live = lock(&self.shared.live);
        live.blocks.note_written(&written);
        if live.gate.is_open() {
            live.blocks.settled_between(start, start + offset as usize..start + (offset + bytes) as usize);
        }
        drop(live);
        self.shared.changed.notify_all();
    }

    /// Stops all writes, after the one under way. Returns the place of the written blocks.
    pub(super) fn stop(&self) -> Option<SpeculativePart> {
        let mut live = lock(&self.shared.live);
        live.is_stopped = true;
        while live.is_writing {
            live = self.shared.changed.wait(&self.shared.live, live);
        }
        match std::mem::replace(&mut live.room, Room::None) {
            Room::Found(part) => Some(part),
            Room::None | Room::WaitForDurable(_) => None,
        }
    }

    /// Gives up the early-saved blocks, until the next interval begins.
    pub(super) fn forget(&self) {
        drop(self.stop());
        lock(&self.shared.live).blocks.give_up();
    }

    /// The average time of a batch since the ranks last met, in microseconds; 0: none was written.
    pub(super) fn batch_us(&self) -> u64 {
        lock(&self.shared.live).turns.batch_us()
    }

    /// Starts the turns when all ranks meet. On the slowest rank a batch takes `batch_us`.
    pub(super) fn begin_turns(&self, batch_us: u64) {
        lock(&self.shared.live).turns.begin(batch_us);
    }

    /// Ends the interval at a checkpoint. `written` is the report of its look at the changes. Returns the blocks that were
    /// saved and not written since; `None` if there are none.
    pub(super) fn end_interval(
        &self,
        written: &[WrittenOf],
        part: Option<SpeculativePart>,
    ) -> Option<capture::SpeculativeBlocks> {
        let mut live = lock(&self.shared.live);
        if !live.has_begun {
            return None;
        }
        debug_assert!(live.is_stopped && !live.is_writing, "blocks are written while a checkpoint is under way");
        live.blocks.note_written(written);
        live.predict(!self.says_steps, self.shared.rank);
        let saved = live.blocks.saved();
        let early = part.filter(|_| !saved.is_empty()).and_then(|part| match part.finish() {
            Ok((runs, rows)) => Some(capture::SpeculativeBlocks::new(runs, rows, saved)),
            Err(error) => {
                live.say(self.shared.rank, &error);
                None
            }
        });
        let count = early.as_ref().map_or(0, capture::SpeculativeBlocks::count);
        live.end_interval(count, self.shared.rank);
        early
    }

    /// Begins an interval when a revision has been staged. From then on blocks are saved early for the next one, once
    /// room is found `after` it.
    pub(super) fn begin_interval(&self, after: Option<WaitForDurable>, regions: &[Region]) {
        let mut live = lock(&self.shared.live);
        if let Err(why) = live.guess.begin(regions) {
            live.off(self.shared.rank, EarlyOff::Recording, why);
        }
        debug_assert!(!live.is_writing, "blocks are written while a checkpoint is under way");
        live.blocks.begin();
        live.room = after.map_or(Room::None, Room::WaitForDurable);
        live.is_full = false;
        (live.has_begun, live.is_stopped) = (true, false);
        drop(live);
        self.shared.changed.notify_all();
    }

    /// The outcome of the last interval.
    pub(super) fn last(&self) -> SavedEarly {
        lock(&self.shared.live).last.outcome
    }

    /// The statistics up to now.
    pub(super) fn speculation(&self) -> Speculation {
        let live = lock(&self.shared.live);
        let off = match () {
            () if !live.totals.off.is_empty() => live.totals.off.clone(),
            () if !live.gate.is_open() => EarlyOff::InVain.why().to_owned(),
            () if live.is_full => EarlyOff::NoRoom.why().to_owned(),
            () => String::new(),
        };
        let has_room = !matches!(live.room, Room::None) && !live.is_stopped;
        let waiting = if has_room || live.is_writing { live.blocks.waiting() } else { 0 };
        Speculation { off, waiting, ..live.totals.clone() }
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        lock(&self.shared.live).has_ended = true;
        self.shared.changed.notify_all();
        // A thread that panicked has reported it.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn tick(&self, regions: Option<&[Region]>, is_mark: bool) {
        let begun = thread_time();
        let mut way = lock(&self.way);
        {
            let mut live = lock(&self.live);
            if !live.is_looking() {
                return;
            }
            live.guess.count(regions);
            if !live.budget.has_left() || self.may_be_passed_by() {
                // The end of a step is never left out.
                if is_mark {
                    live.predict(true, self.rank);
                }
                return;
            }
        }
        way.tick(regions);
        let written = way.take_written();
        let mut live = lock(&self.live);
        let pages: usize = written.iter().flat_map(|of| &of.written).map(|range| range.len() / BLOCK).sum();
        live.blocks.note_written(&written);
        live.predict(is_mark, self.rank);
        live.budget.looked(thread_time().saturating_sub(begun), pages);
        drop((live, way));
        self.changed.notify_all();
    }

    /// Whether a device or an io_uring may write past the page tables now. A look would protect the pages again, and
    /// these writes would stay unseen. Without a look, the pinned pages are reported at the first look after the device
    /// or ring is closed.
    fn may_be_passed_by(&self) -> bool {
        !self.trusts_pages && unseen_writer().is_some()
    }

    /// The thread: saves waiting blocks, and looks at intervals of `every`.
    fn run(&self, every: Option<Duration>) {
        let mut looked = Instant::now();
        let mut live = lock(&self.live);
        while !live.has_ended {
            if every.is_some_and(|every| looked.elapsed() >= every) {
                drop(live);
                looked = Instant::now();
                self.tick(None, false);
                live = lock(&self.live);
                continue;
            }
            let mut wait = match live.next(self.rank) {
                Ok((batch, part)) => {
                    drop(live);
                    let begun = Instant::now();
                    let (saved, part) = self.save(&batch, part);
                    live = lock(&self.live);
                    live.saved(&batch, saved, part, begun.elapsed(), self.rank);
                    self.changed.notify_all();
                    continue;
                }
                Err(wait) => wait,
            };
            if let Some(every) = every {
                wait = wait.min(every.saturating_sub(looked.elapsed()));
            }
            live = self.changed.wait_timeout(&self.live, live, wait).0;
        }
    }

    /// Copies blocks, and writes those that could be read. Returns the offset of each.
    fn save(&self, batch: &[(u32, usize)], mut part: SpeculativePart) -> (Result<Vec<Option<u64>>>, SpeculativePart) {
        let bytes = batch.len() as u64 * BLOCK_BYTES;
        let Some(mut copy) = Aligned::zeroed(bytes) else {
            return (
                Err(Error::io("allocating", "blocks that are saved early", std::io::ErrorKind::OutOfMemory.into())),
                part,
            );
        };
        let (mut read, mut is_read) = (0, Vec::with_capacity(batch.len()));
        for (_, address) in batch {
            // Memory that was unmapped meanwhile causes an error.
            let is_there = self.memory.read_exact_at(&mut copy[read..read + BLOCK], *address as u64).is_ok();
            read += if is_there { BLOCK } else { 0 };
            is_read.push(is_there);
        }
        // A bug here must not make the next checkpoint wait forever.
        let written = catch_unwind(AssertUnwindSafe(|| part.write(&copy[..read])));
        let written = written.unwrap_or_else(|_| Err(Error::Internal { what: "saving early panicked".to_owned() }));
        let places = written.map(|written| {
            let mut written = written.into_iter();
            is_read.into_iter().map(|is_there| if is_there { written.next() } else { None }).collect()
        });
        (places, part)
    }
}

/// The reason why early saving is impossible although the settings ask for it; `None` if it is possible.
pub(super) fn hindrance(config: &Config, is_in_memory: bool, is_by_pages: bool) -> Option<&'static str> {
    match () {
        () if !config.capture.is_incremental() => Some("that takes capture = incremental"),
        () if is_in_memory => Some("the nearest level is memory, where a checkpoint costs one copy"),
        () if !is_by_pages => Some("that needs written pages, which this system does not report, or which are traced"),
        () if config.predictor == Wanted::Oracle && config.oracle.is_none() => {
            Some("predictor = oracle takes the setting oracle, the directory with the traces")
        }
        () => None,
    }
}
