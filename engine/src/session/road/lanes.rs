//! What a ward does: hands its shard over to its holders while it is staged, and learns what became of it.

use super::{
    post::{Exchange, Outbox},
    words::{Answer, News, Word},
};
use crate::{
    capture::Contents,
    error::{Error, Failure, Result},
    ground::Instant,
    group::{Group, hear},
    place::{Shard, Staged, Writer},
    space::Aligned,
    stage::{Full, Outlet},
};
use std::sync::Arc;

/// The lanes to all holders of this rank.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    exchange: Exchange,
    /// Bytes of the pieces that go from rank to rank: whole blocks.
    piece_bytes: u64,
    /// Pieces are sent as they come. Otherwise they wait; in the background, until all of them are staged.
    are_open: bool,
    waiting: Vec<Arc<Full>>,
}

/// The lane to one holder.
struct Lane {
    outbox: Outbox,
    /// The number of this holder among the holders of the shard.
    number: usize,
    /// The holder was handed something that it has not answered yet.
    waits: bool,
}

impl Lanes {
    pub(super) fn new(holders: &[usize], piece_bytes: u64, exchange: Exchange) -> Lanes {
        let lane =
            |(number, &holder): (usize, &usize)| Lane { outbox: Outbox::new(holder, exchange), number, waits: false };
        let lanes = holders.iter().enumerate().map(lane).collect();
        Lanes { lanes, exchange, piece_bytes, are_open: false, waiting: Vec::new() }
    }

    pub(super) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// The holder that writes for this rank, which writes nothing itself.
    pub(super) fn writer(&self) -> Writer {
        Writer::Rank(self.lanes[0].outbox.to())
    }

    /// Notes that each holder has to answer what it is handed now.
    pub(super) fn await_news(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.waits = true);
    }

    /// Tells all holders that there is nothing to save, because of `error`. Collective.
    pub(super) fn decline(&mut self, group: &dyn Group, error: &Error) -> Result<()> {
        self.close();
        self.lanes.iter_mut().try_for_each(|lane| lane.outbox.tell(group, &Word::GivenUp(Failure::from(error))))
    }

    /// Whether all that was handed over is through. A failure is one of `shard`, if there is one. Never waits.
    pub(super) fn progress(&mut self, group: &dyn Group, shard: Option<&Shard>) -> Result<bool> {
        let through = |lane: &mut Lane| {
            lane.outbox.is_through(group).inspect_err(|error| {
                shard.inspect(|shard| shard.fail_held(lane.number, error.clone()));
            })
        };
        self.lanes.iter_mut().map(through).try_fold(true, |all, is_through| Ok(all & is_through?))
    }

    /// Hears from the holders whose turn it is what became of `shard`, or of whatever else they were handed.
    /// Collective.
    pub(super) fn hear_news(&mut self, group: &dyn Group, shard: Option<&Shard>, has_turn: impl Fn(usize) -> bool) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.waits && has_turn(lane.outbox.to())) {
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
            self.outbox.tell(group, &Word::Pieces(vec![(at + from, bytes)]))?;
            group.send(self.outbox.to(), &blocks[from as usize..][..bytes as usize])
        })
    }

    /// Starts to send all pieces that have waited.
    fn start(&mut self, group: &dyn Group, waiting: &[Arc<Full>], piece_bytes: u64) -> Result<()> {
        let pieces =
            || waiting.iter().flat_map(|full| pieces_of(full.blocks().1, piece_bytes).map(move |of| (full, of)));
        let told = pieces().map(|(full, (from, bytes))| (full.blocks().0 + from, bytes));
        self.outbox.tell(group, &Word::Pieces(told.collect()))?;
        pieces().try_for_each(|(full, (from, bytes))| {
            self.outbox.start(group, Box::new(Piece { full: full.clone(), from, bytes }))
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
            Some(error) => drop(self.outbox.tell(group, &Word::GivenUp(Failure::from(error)))),
        }
    }

    /// Hears what became of `shard`. Returns whether it has come to its end.
    fn hear_news(&self, group: &dyn Group, shard: Option<&Shard>) -> bool {
        let (told, ledger) = match hear(group, self.outbox.to()) {
            Ok(News::UnderWay) => return false,
            Ok(News::Ended(answer)) => {
                let Answer { outcome, ledger } = *answer;
                (outcome.map_err(|failed| failed.on(self.outbox.to())), ledger)
            }
            Err(error) => (Err(error), None),
        };
        shard.inspect(|shard| shard.end_as_told(self.number, told, ledger));
        true
    }
}

/// A piece of a buffer that has waited. The buffer is kept until the piece is through.
struct Piece {
    full: Arc<Full>,
    from: u64,
    bytes: u64,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.full.blocks().1[self.from as usize..][..self.bytes as usize]
    }
}

/// Where in `blocks` pieces begin, and how long they are.
fn pieces_of(blocks: &[u8], piece_bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
    let end = blocks.len() as u64;
    (0..end).step_by(piece_bytes as usize).map(move |from| (from, piece_bytes.min(end - from)))
}

/// The way to the targets that this rank writes, and to the holders of the others.
pub(super) struct Fork<'a> {
    pub(super) here: &'a mut dyn Outlet,
    pub(super) group: &'a dyn Group,
    pub(super) lanes: &'a mut Lanes,
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
            lane.hand_over(shard, |lane| lane.outbox.tell(self.group, &order(lane.number)));
        }
        self.lanes.are_open = self.lanes.exchange == Exchange::Blocking;
        if self.lanes.are_open {
            for full in std::mem::take(&mut self.lanes.waiting) {
                let (at, blocks) = full.blocks();
                self.send(shard, at, blocks);
            }
        }
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

    fn end(&mut self, shard: &Arc<Shard>, contents: Contents, staged: Staged) {
        if self.lanes.lanes.is_empty() {
            return self.here.end(shard, contents, staged);
        }
        let (staged_at, encoded) = (Instant::now(), contents.encode());
        let Lanes { lanes, waiting, piece_bytes, .. } = &mut *self.lanes;
        for lane in lanes {
            let told = || Word::Staged { contents: encoded.clone(), staged };
            lane.hand_over(shard, |lane| {
                if !waiting.is_empty() {
                    lane.start(self.group, waiting, *piece_bytes)?;
                }
                // The outputs are synced here: a holder publishes without asking back.
                shard.sync_outputs()?;
                lane.outbox.tell(self.group, &told())
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
