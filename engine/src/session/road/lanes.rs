//! What a ward does: hands its shard over to its holders while it is staged, and learns what became of it.

use super::words::{Answer, News, Word};
use crate::{
    capture::Contents,
    error::{Error, Failure, Result},
    ground::Instant,
    group::{Group, hear, tell},
    place::{IoThreads, Shard, StagingTime, Writer},
    space::Aligned,
    stage::{Full, Outlet},
};
use std::sync::Arc;

/// The lanes to all holders of this rank.
pub(in crate::session) struct Lanes {
    lanes: Vec<Lane>,
    /// Bytes of the pieces that go from rank to rank: whole blocks.
    piece_bytes: u64,
    /// The order is out, and pieces are sent as they come. Before that they wait.
    are_open: bool,
    waiting: Vec<Arc<Full>>,
}

/// The lane to one holder.
struct Lane {
    holder: usize,
    /// The number of this holder among the holders of the shard.
    number: usize,
    /// The holder was handed something that it has not answered yet.
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

    /// The holder that writes for this rank, which writes nothing itself.
    pub(super) fn writer(&self) -> Writer {
        Writer::Rank(self.lanes[0].holder)
    }

    /// Notes that each holder has to answer what it is handed now.
    pub(in crate::session) fn await_news(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.waits = true);
    }

    /// Tells all holders that there is nothing to save, because of `error`. Collective.
    pub(in crate::session) fn decline(&mut self, group: &dyn Group, error: &Error) -> Result<()> {
        self.close();
        self.lanes.iter_mut().try_for_each(|lane| tell(group, lane.holder, &Word::GivenUp(Failure::from(error))))
    }

    /// Hears from the holders whose turn it is what became of `shard`, or of whatever else they were handed.
    /// Collective.
    pub(in crate::session) fn hear_news(
        &mut self,
        group: &dyn Group,
        shard: Option<&Shard>,
        has_turn: impl Fn(usize) -> bool,
    ) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.waits && has_turn(lane.holder)) {
            lane.waits = !lane.hear_news(group, shard);
        }
    }

    fn close(&mut self) {
        (self.are_open, self.waiting) = (false, Vec::new());
    }
}

impl Lane {
    /// Sends `blocks` of the log, from `at` on, piece by piece.
    fn send(&mut self, group: &dyn Group, at: u64, blocks: &[u8], piece_bytes: u64) -> Result<()> {
        pieces_of(blocks, piece_bytes).try_for_each(|(from, bytes)| {
            tell(group, self.holder, &Word::Pieces(vec![(at + from, bytes)]))?;
            group.send(self.holder, &blocks[from as usize..][..bytes as usize])
        })
    }

    /// Does `work`, a part of handing `shard` over, unless the shard has failed on this lane.
    fn hand_over(&mut self, shard: &Shard, work: impl FnOnce(&mut Lane) -> Result<()>) {
        if shard.failure_of_held(self.number).is_none() {
            work(self).unwrap_or_else(|error| shard.fail_held(self.number, error));
        }
    }

    /// If the shard has failed on this lane, tells the holder why nothing more comes.
    fn give_up(&mut self, group: &dyn Group, shard: &Shard) {
        match shard.failure_of_held(self.number) {
            // Nothing has failed, or nobody listens.
            None | Some(Error::GroupFailed { .. }) => {}
            // A failure to tell this fails the next call, too.
            Some(error) => drop(tell(group, self.holder, &Word::GivenUp(Failure::from(error)))),
        }
    }

    /// Hears what became of `shard`. Returns whether it has come to its end.
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

/// Where in `blocks` pieces begin, and how long they are.
fn pieces_of(blocks: &[u8], piece_bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
    let end = blocks.len() as u64;
    (0..end).step_by(piece_bytes as usize).map(move |from| (from, piece_bytes.min(end - from)))
}

/// The way to the targets that this rank writes, and to the holders of the others.
pub(in crate::session) struct Fork<'a> {
    pub(in crate::session) here: &'a mut dyn Outlet,
    pub(in crate::session) group: &'a dyn Group,
    pub(in crate::session) lanes: &'a mut Lanes,
}

impl Fork<'_> {
    fn send(&mut self, shard: &Shard, at: u64, blocks: &[u8]) {
        let Lanes { lanes, piece_bytes, .. } = &mut *self.lanes;
        for lane in lanes {
            lane.hand_over(shard, |lane| lane.send(self.group, at, blocks, *piece_bytes));
        }
    }
}

impl Outlet for Fork<'_> {
    fn open(&mut self, shard: &Arc<Shard>) {
        for lane in self.lanes.lanes.iter_mut().filter(|_| !shard.has_failed()) {
            let order = |number| Word::Order(Box::new(shard.order(number)));
            lane.hand_over(shard, |lane| tell(self.group, lane.holder, &order(lane.number)));
        }
        self.lanes.are_open = true;
        for full in std::mem::take(&mut self.lanes.waiting) {
            let (at, blocks) = full.blocks();
            self.send(shard, at, blocks);
        }
    }

    fn later(&self) -> Option<&IoThreads> {
        if self.lanes.lanes.is_empty() { self.here.later() } else { None }
    }

    fn straight_bytes(&self) -> Option<u64> {
        match &*self.lanes {
            Lanes { lanes, .. } if lanes.is_empty() => self.here.straight_bytes(),
            // At the holder, a part of a piece takes as much room as a whole one.
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
        self.lanes.waiting.push(Arc::new(full));
        Ok(None)
    }

    fn end(&mut self, shard: &Arc<Shard>, contents: Contents, staged: StagingTime) {
        if self.lanes.lanes.is_empty() {
            return self.here.end(shard, contents, staged);
        }
        let (staged_at, encoded) = (Instant::now(), contents.encode());
        for lane in &mut self.lanes.lanes {
            let told = || Word::Staged { contents: encoded.clone(), led: shard.led_late().to_vec(), staged };
            lane.hand_over(shard, |lane| {
                // The outputs are synced here: a holder publishes without asking back.
                shard.sync_outputs()?;
                tell(self.group, lane.holder, &told())
            });
            lane.give_up(self.group, shard);
        }
        self.here.end(shard, contents, staged);
        shard.note_resumed(staged_at.elapsed());
        self.lanes.close();
    }

    fn give_up(&mut self, shard: &Arc<Shard>) {
        self.lanes.lanes.iter_mut().for_each(|lane| lane.give_up(self.group, shard));
        self.here.give_up(shard);
        self.lanes.close();
    }
}
