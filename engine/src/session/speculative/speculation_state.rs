//! The state that the program and the thread which saves early share.

use super::{blocks::Blocks, budget::Budget, gate::Gate, guess::Guess, turns::Turns};
use crate::{
    commit::{Ledger, Need},
    error::{Error, Result},
    place::{Shard, SpeculativePart},
    remark::remark,
    space::format::{EarlyOff, SavedEarly},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Blocks written at once. A checkpoint waits for one such batch at most.
const BATCH: usize = 64;
/// Time between two polls of the previous revision, until it is durable.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_secs(1);

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

#[derive(Debug)]
pub(super) struct SpeculationState {
    pub(super) blocks: Blocks,
    pub(super) guess: Guess,
    pub(super) gate: Gate,
    pub(super) budget: Budget,
    pub(super) turns: Turns,
    pub(super) room: Room,
    /// Whether the room ran out in this interval, and whether a remark said so.
    pub(super) is_full: bool,
    pub(super) remarked_full: bool,
    /// Whether a checkpoint was taken. Written pages are looked for from then on.
    pub(super) has_begun: bool,
    /// Nothing is written until the next interval begins.
    pub(super) is_stopped: bool,
    /// The thread is writing, and has the room meanwhile.
    pub(super) is_writing: bool,
    pub(super) has_ended: bool,
    pub(super) totals: Speculation,
    /// The reason why nothing more is saved early, if it is not the gate.
    pub(super) off: EarlyOff,
    pub(super) last: LastInterval,
}

#[derive(Debug, Default)]
pub(super) struct LastInterval {
    pub(super) outcome: SavedEarly,
    /// Number of saved blocks when it ended.
    pub(super) saved: u64,
}

#[derive(Debug)]
pub(super) enum Room {
    None,
    /// The search for room begins once this revision is durable.
    WaitForDurable(WaitForDurable),
    Found(SpeculativePart),
}

/// The revision that must be durable first, the ledger in which room is then searched, and the most that the next
/// revision needs.
#[derive(Debug)]
pub(in crate::session) struct WaitForDurable {
    pub(in crate::session) shard: Arc<Shard>,
    pub(in crate::session) ledger: Arc<Mutex<Ledger>>,
    pub(in crate::session) whole: Need,
}

impl SpeculationState {
    pub(super) fn is_looking(&self) -> bool {
        self.has_begun && !self.is_stopped && self.totals.off.is_empty()
    }

    /// Gives the predictor the newly written pages, and queues the pages that it predicts to be settled.
    pub(super) fn predict(&mut self, is_mark: bool, rank: usize) {
        let written = self.blocks.take_written();
        let blocks = &self.blocks;
        match self.guess.tick(&written, |page| blocks.address(page), is_mark) {
            Ok((_, settled)) if self.gate.is_open() => self.blocks.settled(&settled),
            Ok((capacity, settled)) => self.gate.rehearse(capacity, &written, &settled),
            Err(()) => self.has_panicked(rank),
        }
    }

    pub(super) fn has_panicked(&mut self, rank: usize) {
        self.off(
            rank,
            EarlyOff::PredictorFailed,
            "its predictor has failed; set another one, and report this".to_owned(),
        );
    }

    pub(super) fn off(&mut self, rank: usize, off: EarlyOff, why: String) {
        if self.totals.off.is_empty() {
            self.off = off;
            remark(0, &format!("nothing more is saved early on rank {rank}: {why}"));
            self.totals.off = why;
        }
    }

    /// The checkpoint saves everything. After that there may be room.
    pub(super) fn has_no_room(&mut self, rank: usize) {
        if !std::mem::replace(&mut self.is_full, true) && !std::mem::replace(&mut self.remarked_full, true) {
            remark(
                0,
                &format!(
                    "the portion of rank {rank} has too little room beside its revisions to save more pages early; the checkpoint \
                     saves the rest. A space made with a predictor, or reserved with `--keep` one higher, has more room"
                ),
            );
        }
    }

    /// The blocks written early are in doubt, so the checkpoint saves them.
    pub(super) fn say(&mut self, rank: usize, error: &Error) {
        self.off(rank, EarlyOff::WriteFailed, error.to_string());
        self.blocks.give_up();
    }

    pub(super) fn end_interval(&mut self, early: u64, rank: usize) {
        let Blocks { dirty, wasted, .. } = self.blocks;
        let (saved, is_open) = (self.totals.saved - self.last.saved, self.gate.is_open());
        let off = match self.off {
            EarlyOff::No if !is_open => EarlyOff::InVain,
            EarlyOff::No if self.is_full => EarlyOff::NoRoom,
            off => off,
        };
        self.last = LastInterval { outcome: SavedEarly { dirty, early, saved, wasted, off }, saved: self.totals.saved };
        self.totals.dirty += dirty;
        self.totals.early += early;
        self.totals.wasted += wasted;
        if self.gate.end(early, wasted) {
            let why = format!(
                "the program wrote {wasted} saved pages again before the checkpoint, and left {early} alone; Mainstay watches for a change"
            );
            remark(rank, &format!("nothing is saved early for now: {why}"));
        }
        if self.guess.checkpoint().is_err() {
            self.has_panicked(rank);
        }
    }

    /// The next blocks to write, and the room for them. Otherwise the time to wait.
    pub(super) fn next(&mut self, rank: usize) -> std::result::Result<(Vec<(u32, usize)>, SpeculativePart), Duration> {
        if self.is_stopped || !self.totals.off.is_empty() {
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
    pub(super) fn saved(
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
                self.totals.saved += batch.len() as u64;
                self.guess.saved(batch.len(), took);
                self.turns.took(took);
                self.room = Room::Found(part);
            }
            Err(error) => self.say(rank, &error),
        }
    }
}
