//! Speculative checkpointing, with a `predictor` (paper 004). Mainstay saves memory that the program will probably not
//! write again before its next checkpoint. It does so while the program goes on, into free blocks. The next revision
//! then refers to these blocks.
//!
//! Invariants: the contents of a revision never depend on a predictor. A page is protected again before it is copied,
//! so a write during the copy is reported. Reports made under the tracker's lock are noted under it. Nothing is written
//! from t1 of a revision until that is finished here, nor while another writer writes a root.

mod blocks;
mod budget;
mod gate;
mod guess;
mod recorded;
#[cfg(test)]
mod tests;
mod turns;

use crate::{
    capture::{self, Changes, Region, WrittenOf, unseen_writer},
    commit::{Ledger, Need},
    config::{Config, Predictor as Wanted, Stagger, Track},
    error::{Error, Result},
    ground::{Instant, files, lock, spawn},
    place::{Shard, SpeculativePart},
    remark::remark,
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
use std::{
    fs::File,
    os::unix::fs::FileExt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};
use turns::Turns;

/// Blocks written at once. A checkpoint waits for one such batch at most.
const BATCH: usize = 64;
/// Time between two polls of the previous revision, until it is durable.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_secs(1);

/// The tracker of changes, which also looks at ticks.
pub(super) type Way = Arc<Mutex<Box<dyn Changes>>>;

/// Statistics of early saving on this rank since its session was opened, in blocks of 4 KiB.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Blocks that the program had written when a checkpoint began.
    pub dirty: u64,
    /// Those of them that the checkpoint did not have to write.
    pub early: u64,
    /// Blocks that were saved early.
    pub saved: u64,
    /// Blocks that were saved in vain, or about to be: the program wrote them again.
    pub wasted: u64,
    /// Blocks that will be saved early as soon as possible.
    pub waiting: u64,
    /// The reason why nothing is saved early now; empty if early saving is on.
    pub off: String,
}

/// Ends its thread when dropped.
#[derive(Debug)]
pub(super) struct Early {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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

#[derive(Debug)]
struct SpeculationState {
    blocks: Blocks,
    guess: Guess,
    gate: Gate,
    budget: Budget,
    turns: Turns,
    room: Room,
    /// Whether the room ran out in this interval, and whether a remark said so.
    is_full: bool,
    told_full: bool,
    /// Whether a checkpoint was taken. Written pages are looked for from then on.
    has_begun: bool,
    /// Nothing is written until the next interval begins.
    is_stopped: bool,
    /// The thread is writing, and has the room meanwhile.
    is_writing: bool,
    has_ended: bool,
    told: Speculation,
    /// The reason why nothing more is saved early, if it is not the gate.
    off: EarlyOff,
    last: LastInterval,
}

#[derive(Debug, Default)]
struct LastInterval {
    outcome: SavedEarly,
    /// Number of saved blocks when it ended.
    saved: u64,
}

#[derive(Debug)]
enum Room {
    None,
    /// The search for room begins once this revision is durable.
    WaitForDurable(WaitForDurable),
    Found(SpeculativePart),
}

/// The revision that must be durable first, the ledger in which room is then searched, and the most that the next
/// revision needs.
#[derive(Debug)]
pub(super) struct WaitForDurable {
    pub(super) shard: Arc<Shard>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) whole: Need,
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
            told_full: false,
            has_begun: false,
            is_stopped: true,
            is_writing: false,
            has_ended: false,
            told: Speculation::default(),
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
        let told = way.told();
        let mut live = lock(&self.shared.live);
        live.blocks.told(&told);
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
            live = self.shared.changed.wait(live).unwrap_or_else(PoisonError::into_inner);
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

    /// Ends the interval at a checkpoint. `told` is the report of its look at the changes. Returns the blocks that were
    /// saved and not written since; `None` if there are none.
    pub(super) fn end_interval(
        &self,
        told: &[WrittenOf],
        part: Option<SpeculativePart>,
    ) -> Option<capture::SpeculativeBlocks> {
        let mut live = lock(&self.shared.live);
        if !live.has_begun {
            return None;
        }
        debug_assert!(live.is_stopped && !live.is_writing, "blocks are written while a checkpoint is under way");
        live.blocks.told(told);
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
    pub(super) fn told(&self) -> Speculation {
        let live = lock(&self.shared.live);
        let off = match () {
            () if !live.told.off.is_empty() => live.told.off.clone(),
            () if !live.gate.is_open() => EarlyOff::InVain.why().to_owned(),
            () if live.is_full => EarlyOff::NoRoom.why().to_owned(),
            () => String::new(),
        };
        let has_room = !matches!(live.room, Room::None) && !live.is_stopped;
        let waiting = if has_room || live.is_writing { live.blocks.waiting() } else { 0 };
        Speculation { off, waiting, ..live.told.clone() }
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
        let begun = Instant::now();
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
        let told = way.told();
        let mut live = lock(&self.live);
        let pages: usize = told.iter().flat_map(|told| &told.written).map(|range| range.len() / BLOCK).sum();
        live.blocks.told(&told);
        live.predict(is_mark, self.rank);
        live.budget.looked(begun.elapsed(), pages);
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
            live = self.changed.wait_timeout(live, wait).unwrap_or_else(PoisonError::into_inner).0;
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

impl SpeculationState {
    fn is_looking(&self) -> bool {
        self.has_begun && !self.is_stopped && self.told.off.is_empty()
    }

    /// Gives the predictor the newly written pages, and queues the pages that it predicts to be settled.
    fn predict(&mut self, is_mark: bool, rank: usize) {
        let written = self.blocks.take_written();
        let blocks = &self.blocks;
        match self.guess.tick(&written, |page| blocks.address(page), is_mark) {
            Ok((_, settled)) if self.gate.is_open() => self.blocks.settled(&settled),
            Ok((capacity, settled)) => self.gate.rehearse(capacity, &written, &settled),
            Err(()) => self.has_panicked(rank),
        }
    }

    fn has_panicked(&mut self, rank: usize) {
        self.off(
            rank,
            EarlyOff::PredictorFailed,
            "its predictor has failed; set another one, and report this".to_owned(),
        );
    }

    fn off(&mut self, rank: usize, off: EarlyOff, why: String) {
        if self.told.off.is_empty() {
            self.off = off;
            remark(0, &format!("nothing more is saved early on rank {rank}: {why}"));
            self.told.off = why;
        }
    }

    /// The checkpoint saves everything. After that there may be room.
    fn has_no_room(&mut self, rank: usize) {
        if !std::mem::replace(&mut self.is_full, true) && !std::mem::replace(&mut self.told_full, true) {
            remark(
                0,
                &format!(
                    "the portion of rank {rank} has too little room, beside the revisions that it keeps, for what could be saved \
                     early: the checkpoint saves the rest; a space that is made with a predictor, or reserved with a `--keep` \
                     one higher, has more"
                ),
            );
        }
    }

    /// The blocks written early are in doubt, so the checkpoint saves them.
    fn say(&mut self, rank: usize, error: &Error) {
        self.off(rank, EarlyOff::WriteFailed, error.to_string());
        self.blocks.give_up();
    }

    fn end_interval(&mut self, early: u64, rank: usize) {
        let Blocks { dirty, wasted, .. } = self.blocks;
        let (saved, is_open) = (self.told.saved - self.last.saved, self.gate.is_open());
        let off = match self.off {
            EarlyOff::No if !is_open => EarlyOff::InVain,
            EarlyOff::No if self.is_full => EarlyOff::NoRoom,
            off => off,
        };
        self.last = LastInterval { outcome: SavedEarly { dirty, early, saved, wasted, off }, saved: self.told.saved };
        self.told.dirty += dirty;
        self.told.early += early;
        self.told.wasted += wasted;
        if self.gate.end(early, wasted) {
            let why = format!(
                "{wasted} of its pages were written again before the checkpoint, and {early} were not; it is looked whether that changes"
            );
            remark(rank, &format!("nothing is saved early for now: {why}"));
        }
        if self.guess.checkpoint().is_err() {
            self.has_panicked(rank);
        }
    }

    /// The next blocks to write, and the room for them. Otherwise the time to wait.
    fn next(&mut self, rank: usize) -> std::result::Result<(Vec<(u32, usize)>, SpeculativePart), Duration> {
        if self.is_stopped || !self.told.off.is_empty() {
            return Err(IDLE);
        }
        if let Room::WaitForDurable(WaitForDurable { shard, ledger, whole }) = &self.room {
            self.room = match shard.poll() {
                None => return Err(LOOK_EVERY),
                // The caller of the checkpoint gets the error.
                Some(Err(_)) => Room::None,
                Some(Ok(())) => match SpeculativePart::find(ledger, *whole) {
                    Ok(Some(part)) => Room::Found(part),
                    Ok(None) => {
                        self.has_no_room(rank);
                        Room::None
                    }
                    Err(error) => {
                        self.say(rank, &error);
                        Room::None
                    }
                },
            };
        }
        let left = match &self.room {
            Room::Found(part) => part.left(),
            Room::None | Room::WaitForDurable(_) => 0,
        };
        if left == 0 {
            if matches!(self.room, Room::Found(_)) && self.blocks.has_waiting() {
                self.has_no_room(rank);
            }
            // The checkpoint saves them.
            self.blocks.give_up_waiting();
        }
        if !self.blocks.has_waiting() {
            return Err(IDLE);
        }
        let wait = self.turns.wait();
        if !wait.is_zero() {
            return Err(wait);
        }
        let Room::Found(part) = std::mem::replace(&mut self.room, Room::None) else { return Err(IDLE) };
        let batch = self.blocks.take_waiting(BATCH.min(usize::try_from(left).unwrap_or(BATCH)));
        if batch.is_empty() {
            // The saved blocks keep their place.
            self.room = Room::Found(part);
            return Err(IDLE);
        }
        self.is_writing = true;
        Ok((batch, part))
    }

    /// Notes the result of a batch.
    fn saved(
        &mut self,
        batch: &[(u32, usize)],
        saved: Result<Vec<Option<u64>>>,
        part: SpeculativePart,
        took: Duration,
        rank: usize,
    ) {
        self.is_writing = false;
        match saved {
            Ok(lie) => {
                batch.iter().zip(lie).for_each(|(block, lies)| self.blocks.copied(*block, lies));
                self.told.saved += batch.len() as u64;
                self.guess.saved(batch.len(), took);
                self.turns.took(took);
                self.room = Room::Found(part);
            }
            Err(error) => self.say(rank, &error),
        }
    }
}

/// The reason why early saving is impossible although the settings ask for it; `None` if it is possible.
pub(super) fn hindrance(config: &Config, is_in_memory: bool, is_by_pages: bool) -> Option<&'static str> {
    match () {
        () if !config.capture.is_incremental() => Some("that takes capture = incremental"),
        () if is_in_memory => Some("the nearest level is memory, where a checkpoint costs one copy"),
        () if !is_by_pages => Some("that takes written pages, which are not told here, or are traced"),
        () if config.predictor == Wanted::Oracle && config.oracle.is_none() => {
            Some("predictor = oracle takes the setting oracle, the directory with the traces")
        }
        () => None,
    }
}
