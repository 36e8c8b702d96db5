//! What a ward does: hands its shard over to its holders while it is staged, and learns what became of it.

use super::words::{Answer, Failed, News, Word};
use crate::{
    capture::Contents,
    error::{Error, Result},
    group::{Group, hear, tell},
    place::{Shard, Staged, Writer},
    space::Aligned,
    stage::{Full, Outlet},
};
use std::{sync::Arc, time::Instant};

/// To all holders of this rank.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// Of the pieces that go from rank to rank, whole blocks.
    piece_bytes: u64,
    /// The holders listen.
    are_open: bool,
    /// What waits until they do.
    waiting: Vec<Full>,
}

/// To one of them.
struct Lane {
    holder: usize,
    /// Which of the shard's holders that is.
    number: usize,
    /// It was handed something that it has not answered yet.
    waits: bool,
}

impl Lanes {
    pub(super) fn new(holders: &[usize], piece_bytes: u64) -> Lanes {
        let lane = |(number, &holder): (usize, &usize)| Lane { holder, number, waits: false };
        let lanes = holders.iter().enumerate().map(lane).collect();
        Lanes { lanes, piece_bytes, are_open: false, waiting: Vec::new() }
    }

    pub(super) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Who writes for a rank that does not.
    pub(super) fn writer(&self) -> Writer {
        Writer::Rank(self.lanes[0].holder)
    }

    /// Whatever is handed over now is answered.
    pub(super) fn await_news(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.waits = true);
    }

    /// There is nothing to save. Collective.
    pub(super) fn decline(&mut self, group: &dyn Group, error: &Error) -> Result<()> {
        self.close();
        self.lanes.iter().try_for_each(|lane| tell(group, lane.holder, &Word::GivenUp(Failed::of(error))))
    }

    /// What those holders know that `are_now`, of what was handed over: `shard`, if there was one. Collective.
    pub(super) fn hear_news(&mut self, group: &dyn Group, shard: Option<&Shard>, are_now: impl Fn(usize) -> bool) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.waits && are_now(lane.holder)) {
            lane.waits = !lane.hear_news(group, shard);
        }
    }

    fn close(&mut self) {
        (self.are_open, self.waiting) = (false, Vec::new());
    }
}

impl Lane {
    /// Sends `blocks` of the log, from `at` on, piece by piece.
    fn send(&self, group: &dyn Group, at: u64, blocks: &[u8], piece_bytes: u64) -> Result<()> {
        let mut at = at;
        blocks.chunks(piece_bytes as usize).try_for_each(|piece| {
            let bytes = piece.len() as u64;
            tell(group, self.holder, &Word::Piece { at, bytes })?;
            at += bytes;
            group.send(self.holder, piece)
        })
    }

    /// Does what hands `shard` over, unless that has failed.
    fn hand_over(&self, shard: &Shard, work: impl FnOnce(&Lane) -> Result<()>) {
        if shard.failure_of_held(self.number).is_none() {
            work(self).unwrap_or_else(|error| shard.fail_held(self.number, error));
        }
    }

    /// Tells the holder why nothing more comes, if it cannot be saved there.
    fn give_up(&self, group: &dyn Group, shard: &Shard) {
        match shard.failure_of_held(self.number) {
            // Nobody listens.
            None | Some(Error::GroupFailed { .. }) => {}
            // What fails now fails the next call, too.
            Some(error) => drop(tell(group, self.holder, &Word::GivenUp(Failed::of(error)))),
        }
    }

    /// Whether what was handed over has come to its end.
    fn hear_news(&self, group: &dyn Group, shard: Option<&Shard>) -> bool {
        let (told, ledger) = match hear(group, self.holder) {
            Ok(News::UnderWay) => return false,
            Ok(News::Ended(answer)) => {
                let Answer { outcome, ledger } = *answer;
                (outcome.map_err(|failed| failed.on(self.holder)), ledger)
            }
            Err(error) => (Err(error), None),
        };
        shard.inspect(|shard| shard.end_as_told(self.number, told, ledger));
        true
    }
}

/// To the targets that this rank writes, and to the holders of the others.
pub(super) struct Fork<'a> {
    pub(super) here: &'a mut dyn Outlet,
    pub(super) group: &'a dyn Group,
    pub(super) lanes: &'a mut Lanes,
}

impl Fork<'_> {
    fn send(&self, shard: &Shard, at: u64, blocks: &[u8]) {
        for lane in &self.lanes.lanes {
            lane.hand_over(shard, |lane| lane.send(self.group, at, blocks, self.lanes.piece_bytes));
        }
    }
}

impl Outlet for Fork<'_> {
    fn open(&mut self, shard: &Arc<Shard>) {
        for lane in self.lanes.lanes.iter().filter(|_| !shard.has_failed()) {
            let order = |lane: &Lane| Word::Order(Box::new(shard.order(lane.number)));
            lane.hand_over(shard, |lane| tell(self.group, lane.holder, &order(lane)));
        }
        self.lanes.are_open = true;
        for full in std::mem::take(&mut self.lanes.waiting) {
            let (at, blocks) = full.blocks();
            self.send(shard, at, blocks);
        }
    }

    fn straight_bytes(&self) -> Option<u64> {
        match &*self.lanes {
            Lanes { lanes, .. } if lanes.is_empty() => self.here.straight_bytes(),
            // Where it gets to, a part of a piece takes as much room as a whole one.
            Lanes { are_open, piece_bytes, .. } => are_open.then_some(*piece_bytes),
        }
    }

    fn carry(&mut self, shard: &Arc<Shard>, at: u64, blocks: &[u8]) -> Result<()> {
        self.send(shard, at, blocks);
        self.here.carry(shard, at, blocks)
    }

    fn take(&mut self, shard: &Arc<Shard>, full: Full) -> Result<Option<Aligned>> {
        let (at, blocks) = full.blocks();
        if self.lanes.are_open || self.lanes.lanes.is_empty() {
            self.send(shard, at, blocks);
            return self.here.take(shard, full);
        }
        match &full {
            Full::Own { .. } => self.here.carry(shard, at, blocks)?,
            Full::Load(load) => drop(self.here.take(shard, Full::Load(load.clone()))?),
        }
        self.lanes.waiting.push(full);
        Ok(None)
    }

    fn end(&mut self, shard: &Arc<Shard>, contents: Contents, staged: Staged) {
        if self.lanes.lanes.is_empty() {
            return self.here.end(shard, contents, staged);
        }
        let (staged_at, encoded) = (Instant::now(), contents.encode());
        for lane in &self.lanes.lanes {
            let told = || Word::Staged { contents: encoded.clone(), staged };
            // A holder publishes without asking back.
            lane.hand_over(shard, |lane| shard.sync_outputs().and_then(|()| tell(self.group, lane.holder, &told())));
            lane.give_up(self.group, shard);
        }
        self.here.end(shard, contents, staged);
        shard.note_resumed(staged_at.elapsed());
        self.lanes.close();
    }

    fn give_up(&mut self, shard: &Arc<Shard>) {
        self.lanes.lanes.iter().for_each(|lane| lane.give_up(self.group, shard));
        self.here.give_up(shard);
        self.lanes.close();
    }
}
