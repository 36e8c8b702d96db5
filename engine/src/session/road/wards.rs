//! What a holder does: saves the shards of its wards, one after another, as its own.

use super::words::{Answer, News, Word};
use crate::{
    device::{Access, Device},
    error::{Error, Failure, Result},
    ground::Instant,
    group::{Group, hear, tell},
    place::{Load, Order, Shard, Writer, segments_at_most},
    pool::{Chunk, Pool, RankRecord},
    space::{Aligned, Portion, format::BLOCK_BYTES, open_layout},
    stage::{Full, Hands},
};
use std::{io, sync::Arc};

/// All wards of this rank.
pub(in crate::session) struct Wards {
    wards: Vec<Ward>,
    /// Bytes of the pieces that go from rank to rank: whole blocks.
    piece_bytes: u64,
    /// Memory for a piece that goes to no chunk.
    spare: Option<Aligned>,
}

struct Ward {
    rank: usize,
    /// Opened as a file of its own: of two that sync through one open file the first alone is told of an error, and
    /// both must be.
    portion: Option<Portion>,
    /// The record from which another process could complete the ward's shard; `None` without a pool.
    record: Option<RankRecord>,
    /// It has not said yet that all is staged, or that it gives up.
    is_awaited: bool,
    /// How many pieces the ward has announced.
    pieces: u64,
    /// The shard that the ward handed over, until the ward was told what became of it.
    taken: Option<Taken>,
}

/// A shard that was taken on, or what to answer because it was not.
type Taken = std::result::Result<Arc<Shard>, Box<Answer>>;

impl Wards {
    pub(super) fn new(ranks: &[usize], pool: Option<&Pool>, piece_bytes: u64) -> Result<Wards> {
        let ward = |&rank: &usize| {
            let record = pool.map(|pool| RankRecord::create(pool, rank as u32)).transpose()?;
            Ok(Ward { rank, portion: None, record, is_awaited: false, pieces: 0, taken: None })
        };
        let spare = if ranks.is_empty() { None } else { Some(room_for(piece_bytes)?) };
        Ok(Wards { wards: ranks.iter().map(ward).collect::<Result<_>>()?, piece_bytes, spare })
    }

    pub(super) fn count(&self) -> u64 {
        self.wards.len() as u64
    }

    /// Opens the portions of the wards. `file_of`: the file that a rank's portion lies in.
    pub(super) fn open(&mut self, device: &dyn Device, file_of: impl Fn(usize) -> Option<String>) -> Result<()> {
        for ward in &mut self.wards {
            let missing = || Error::Internal { what: format!("a layout without rank {}", ward.rank) };
            let layout = open_layout(device, file_of(ward.rank).ok_or_else(missing)?, Access::Write)?;
            let portion = layout.portions().find(|portion| portion.rank() as usize == ward.rank);
            let portion = portion.ok_or_else(missing)?;
            portion.stay_open()?;
            ward.portion = Some(portion);
        }
        Ok(())
    }

    pub(in crate::session) fn are_there(&self) -> bool {
        !self.wards.is_empty()
    }

    /// Tells the wards what became of the shards that they handed over; with `waits`, once those have come to their
    /// end. Collective.
    pub(in crate::session) fn tell_news(&mut self, group: &dyn Group, waits: bool) -> Result<()> {
        for Ward { rank, taken, is_awaited, .. } in &mut self.wards {
            let news = match taken.take() {
                None if !*is_awaited => continue,
                None => News::UnderWay,
                Some(Ok(saving)) if *is_awaited || (!waits && saving.poll().is_none()) => {
                    *taken = Some(Ok(saving));
                    News::UnderWay
                }
                Some(Ok(saving)) => {
                    let outcome = saving.wait().map(Option::unwrap_or_default).map_err(|error| Failure::from(&error));
                    News::Ended(Box::new(Answer { outcome, ledger: Some(saving.give_back()) }))
                }
                Some(Err(answer)) => News::Ended(answer),
            };
            tell(group, *rank, &news)?;
        }
        Ok(())
    }

    /// Takes what the wards hand over. An error is one of the group; a failure of a ward's shard is told to the ward.
    /// `started`: t1. Collective.
    pub(in crate::session) fn serve(
        &mut self,
        group: &dyn Group,
        device: &dyn Device,
        hands: &mut Hands<'_>,
        started: Instant,
    ) -> Result<()> {
        let Wards { wards, piece_bytes, spare } = self;
        let mut desk = Desk { group, device, hands, piece_bytes: *piece_bytes, spare, started };
        for ward in &mut *wards {
            (ward.taken, ward.pieces, ward.is_awaited) = (None, 0, true);
            if let Err(error) = desk.hear(ward) {
                if let Some(Ok(saving)) = ward.taken.take() {
                    saving.fail(error.clone());
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Memory for a piece.
enum PieceBuffer {
    Own(Aligned),
    Chunk(Chunk),
}

impl PieceBuffer {
    fn first(&mut self, bytes: u64) -> &mut [u8] {
        match self {
            PieceBuffer::Own(own) => &mut own[..bytes as usize],
            PieceBuffer::Chunk(chunk) => &mut chunk.bytes_mut()[..bytes as usize],
        }
    }
}

fn room_for(piece_bytes: u64) -> Result<Aligned> {
    let no_memory = || Error::io("allocating", "room for the pieces of others", io::ErrorKind::OutOfMemory.into());
    Aligned::zeroed(piece_bytes).ok_or_else(no_memory)
}

/// What serving a ward needs of the session.
struct Desk<'a, 'h> {
    group: &'a dyn Group,
    device: &'a dyn Device,
    hands: &'a mut Hands<'h>,
    piece_bytes: u64,
    spare: &'a mut Option<Aligned>,
    /// t1 of the holder's own shard.
    started: Instant,
}

impl Desk<'_, '_> {
    /// Hears what one ward says, until nothing more comes.
    fn hear(&mut self, ward: &mut Ward) -> Result<()> {
        while ward.is_awaited {
            let word = hear(self.group, ward.rank)?;
            self.heed(ward, word)?;
        }
        Ok(())
    }

    /// Does what a ward says. Nothing more comes from a ward once all of its shard is staged, or given up.
    fn heed(&mut self, ward: &mut Ward, word: Word) -> Result<()> {
        let from = ward.rank;
        let internal = |what: &str| Error::Internal { what: format!("rank {from} {what}") };
        let saving = ward.taken.as_ref().and_then(|taken| taken.as_ref().ok()).cloned();
        let failed = match word {
            Word::Order(order) => {
                ward.taken = Some(self.take_on(ward, *order));
                return Ok(());
            }
            Word::Pieces(pieces) => {
                ward.pieces += pieces.len() as u64;
                if let Some(saving) = &saving
                    && ward.pieces > segments_at_most(saving.size().bytes(), self.piece_bytes).into()
                {
                    saving.fail(internal("sends more pieces than it can have"));
                }
                for (at, bytes) in pieces {
                    let mut memory = self.memory_for(ward, at, bytes, saving.as_ref())?;
                    self.group.receive(from, memory.first(bytes))?;
                    self.take(ward, at, bytes, memory);
                }
                return Ok(());
            }
            Word::Staged { contents, led, staged } => {
                if let Some(saving) = &saving {
                    match saving.decode_led(&contents, &led) {
                        Some(contents) => {
                            self.hands.outlet.end(saving, contents, staged);
                            self.hands.pool.inspect(|pool| pool.tell_copied());
                        }
                        None => self.give_up(saving, internal("describes a shard that cannot have been staged")),
                    }
                }
                Failure::from(&internal("staged what it had not ordered"))
            }
            Word::GivenUp(failed) => {
                saving.inspect(|saving| self.give_up(saving, failed.clone().on(from)));
                failed
            }
        };
        ward.is_awaited = false;
        ward.taken.get_or_insert_with(|| Err(Box::new(Answer { outcome: Err(failed), ledger: None })));
        Ok(())
    }

    fn take_on(&self, ward: &mut Ward, order: Order) -> Taken {
        let ledger = Some(order.ledger.clone());
        let begun = self.begin(ward, order);
        begun.map_err(|error| Box::new(Answer { outcome: Err(Failure::from(&error)), ledger }))
    }

    fn begin(&self, ward: &mut Ward, order: Order) -> Result<Arc<Shard>> {
        let lost = || Error::Internal { what: format!("the portion of rank {} was not opened", ward.rank) };
        let (portion, phases) = (ward.portion.as_ref().ok_or_else(lost)?, order.phases);
        let (intent, site) = order.take_on(portion, self.device, self.started)?;
        let record = ward.record.as_mut().map(|record| (record, self.piece_bytes));
        Shard::new(intent, vec![(Writer::Here, site)], record, phases)
    }

    /// Memory for a piece. A piece that is of no use any more is received all the same.
    fn memory_for(&mut self, ward: &Ward, at: u64, bytes: u64, saving: Option<&Arc<Shard>>) -> Result<PieceBuffer> {
        let from = ward.rank;
        if bytes > self.piece_bytes {
            return Err(Error::GroupFailed { what: format!("a piece of {bytes} bytes from rank {from}") });
        }
        if let Some(saving) = saving.filter(|saving| !saving.has_failed()) {
            let is_whole = at.is_multiple_of(BLOCK_BYTES) && bytes.is_multiple_of(BLOCK_BYTES);
            let parts = Error::Internal { what: format!("rank {from} sends parts of blocks") };
            let fits = if is_whole { saving.has_room(at, bytes) } else { Err(parts) };
            match fits.and_then(|()| self.chunk()) {
                Ok(Some(chunk)) => return Ok(PieceBuffer::Chunk(chunk)),
                Ok(None) => {}
                Err(error) => saving.fail(error),
            }
        }
        self.spare.take().map_or_else(|| room_for(self.piece_bytes), Ok).map(PieceBuffer::Own)
    }

    fn chunk(&self) -> Result<Option<Chunk>> {
        self.hands.pool.map(|pool| pool.take(self.hands.reclaim)).transpose()
    }

    /// Has a piece written that has come.
    fn take(&mut self, ward: &Ward, at: u64, bytes: u64, memory: PieceBuffer) {
        let saving = ward.taken.as_ref().and_then(|taken| taken.as_ref().ok()).filter(|saving| !saving.has_failed());
        let outlet = &mut self.hands.outlet;
        let taken = match memory {
            PieceBuffer::Own(own) => {
                let taken = saving.map(|saving| outlet.carry(saving, at, &own[..bytes as usize]));
                *self.spare = Some(own);
                taken
            }
            PieceBuffer::Chunk(chunk) => saving.map(|saving| {
                let load = Load::new(chunk, saving.clone(), at, bytes)?;
                outlet.take(saving, Full::Load(Arc::new(load))).map(drop)
            }),
        };
        if let (Some(Err(error)), Some(saving)) = (taken, saving) {
            saving.fail(error);
        }
    }

    fn give_up(&mut self, saving: &Arc<Shard>, error: Error) {
        saving.fail(error);
        self.hands.outlet.give_up(saving);
    }
}
