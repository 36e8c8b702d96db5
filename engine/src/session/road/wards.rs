//! What a holder does: saves the shards of its wards, one after another, as its own.

use super::words::{Answer, Failed, News, Word};
use crate::{
    capture::Contents,
    device::{Access, Device},
    error::{Error, Result},
    group::{Group, hear, tell},
    place::{Load, Order, Shard, Writer, segments_at_most},
    pool::{Pool, Record},
    session::{epoch::Epoch, level::Levels, means::Means, settle::Attempt},
    space::{Aligned, Portion, format::BLOCK_BYTES, open_layout},
    stage::{Full, Hands},
};
use std::{io, sync::Arc, time::Instant};

/// All wards of this rank.
pub(super) struct Wards {
    wards: Vec<Ward>,
    /// For pieces that go to no chunk.
    piece: Aligned,
}

struct Ward {
    rank: usize,
    /// By a file of its own: of two that sync one file the first is told of an error, and both must be.
    portion: Option<Portion>,
    /// From which another process could complete its shard; where there is a pool.
    record: Option<Record>,
    /// What it has handed over, until it was told what became of that.
    taken: Option<Taken>,
}

/// A shard that was taken on; or what to answer, as it was not.
type Taken = std::result::Result<Arc<Shard>, Box<Answer>>;

impl Wards {
    pub(super) fn new(ranks: &[usize], pool: Option<&Pool>, piece_bytes: u64) -> Result<Wards> {
        let ward = |&rank: &usize| {
            let record = pool.map(|pool| Record::create(pool, rank as u32)).transpose()?;
            Ok(Ward { rank, portion: None, record, taken: None })
        };
        let no_memory = || Error::io("allocating", "room for the pieces of others", io::ErrorKind::OutOfMemory.into());
        let piece = Aligned::zeroed(if ranks.is_empty() { 0 } else { piece_bytes }).ok_or_else(no_memory)?;
        Ok(Wards { wards: ranks.iter().map(ward).collect::<Result<_>>()?, piece })
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

    /// Tells the wards what became of what they handed over; `waits`: once it has come to its end. Collective.
    pub(super) fn tell_news(&mut self, group: &dyn Group, waits: bool) -> Result<()> {
        for Ward { rank, taken, .. } in &mut self.wards {
            let news = match taken.take() {
                None => continue,
                Some(Ok(saving)) if !waits && saving.poll().is_none() => {
                    *taken = Some(Ok(saving));
                    News::UnderWay
                }
                Some(Ok(saving)) => {
                    let outcome = saving.wait().map(Option::unwrap_or_default).map_err(|error| Failed::of(&error));
                    News::Ended(Box::new(Answer { outcome, ledger: Some(saving.give_back()) }))
                }
                Some(Err(answer)) => News::Ended(answer),
            };
            tell(group, *rank, &news)?;
        }
        Ok(())
    }
}

impl Epoch {
    /// Takes what the wards hand over. An error is one of the group: what fails of a ward's shard is told to the ward.
    /// Collective.
    pub(super) fn serve(&mut self, means: &Means, levels: &Levels) -> Result<()> {
        let level = levels.nearest();
        let started = match &level.saving {
            Some(Attempt::Running(saving)) => saving.started(),
            _ => Instant::now(),
        };
        let (group, Wards { wards, piece }) = (self.group.between_two(), &mut self.road.wards);
        means.with_hands(levels, |hands| {
            let mut desk = Desk { group, device: &*level.device, hands, piece, started };
            wards.iter_mut().try_for_each(|ward| desk.serve(ward))
        })
    }
}

/// What serving needs of the session.
struct Desk<'a, 'h> {
    group: &'a dyn Group,
    device: &'a dyn Device,
    hands: &'a mut Hands<'h>,
    /// For pieces that go to no chunk.
    piece: &'a mut Aligned,
    /// t1.
    started: Instant,
}

impl Desk<'_, '_> {
    /// Hears one ward to its end.
    fn serve(&mut self, ward: &mut Ward) -> Result<()> {
        let mut taken = None;
        let served = self.hear_out(ward, &mut taken);
        if let (Err(error), Some(Ok(saving))) = (&served, &taken) {
            saving.fail(error.clone());
        }
        let failed = served?;
        ward.taken = Some(taken.unwrap_or_else(|| Err(Box::new(Answer { outcome: Err(failed), ledger: None }))));
        Ok(())
    }

    /// Until all of the shard is staged, or given up: why.
    fn hear_out(&mut self, ward: &mut Ward, taken: &mut Option<Taken>) -> Result<Failed> {
        let (from, mut pieces) = (ward.rank, 0);
        let internal = |what: &str| Error::Internal { what: format!("rank {from} {what}") };
        loop {
            let saving = taken.as_ref().and_then(|taken| taken.as_ref().ok());
            match hear(self.group, from)? {
                Word::Order(order) => *taken = Some(self.take_on(ward, *order)),
                Word::Piece { at, bytes } => {
                    pieces += 1;
                    if let Some(saving) = saving
                        && pieces > segments_at_most(saving.size().bytes(), self.piece.len() as u64)
                    {
                        saving.fail(internal("sends more pieces than it can have"));
                    }
                    self.take_piece(from, at, bytes, saving)?;
                }
                Word::Staged { contents, staged } => {
                    if let Some(saving) = saving {
                        match Contents::decode(&contents, saving.size().blocks()) {
                            Some(contents) => {
                                self.hands.outlet.end(saving, contents, staged);
                                self.hands.pool.inspect(|pool| pool.tell_copied());
                            }
                            None => self.give_up(saving, internal("tells of what cannot have been staged")),
                        }
                    }
                    return Ok(Failed::of(&internal("staged what it had not ordered")));
                }
                Word::GivenUp(failed) => {
                    if let Some(saving) = saving {
                        self.give_up(saving, failed.clone().on(from));
                    }
                    return Ok(failed);
                }
            }
        }
    }

    fn take_on(&self, ward: &mut Ward, order: Order) -> Taken {
        let ledger = Some(order.ledger.clone());
        let begun = self.begin(ward, order);
        begun.map_err(|error| Box::new(Answer { outcome: Err(Failed::of(&error)), ledger }))
    }

    fn begin(&self, ward: &mut Ward, order: Order) -> Result<Arc<Shard>> {
        let lost = || Error::Internal { what: format!("the portion of rank {} was not opened", ward.rank) };
        let (portion, phases) = (ward.portion.as_ref().ok_or_else(lost)?, order.phases);
        let (intent, site) = order.take_on(portion, self.device, self.started)?;
        let record = ward.record.as_mut().map(|record| (record, self.piece.len() as u64));
        Shard::new(intent, vec![(Writer::Here, site)], record, phases)
    }

    /// Takes a piece, and has it written. What nobody can use any more is taken all the same.
    fn take_piece(&mut self, from: usize, at: u64, bytes: u64, saving: Option<&Arc<Shard>>) -> Result<()> {
        if bytes > self.piece.len() as u64 {
            return Err(Error::GroupFailed { what: format!("a piece of {bytes} bytes from rank {from}") });
        }
        let is_whole = at.is_multiple_of(BLOCK_BYTES) && bytes.is_multiple_of(BLOCK_BYTES);
        let fits = |saving: &Arc<Shard>| match saving.has_room(at, bytes) {
            _ if !is_whole => Err(Error::Internal { what: format!("rank {from} sends parts of blocks") }),
            told => told,
        };
        let saving = saving.filter(|saving| !saving.has_failed());
        let chunk = match (saving.map(fits), self.hands.pool) {
            (Some(Ok(())), Some(pool)) => pool.take(self.hands.reclaim).map(Some),
            (Some(Err(error)), _) => Err(error),
            _ => Ok(None),
        };
        let Hands { outlet, .. } = &mut *self.hands;
        let carried = match chunk {
            Ok(Some(mut chunk)) => {
                self.group.receive(from, &mut chunk.bytes_mut()[..bytes as usize])?;
                saving.map(|saving| {
                    let load = Load::new(chunk, saving.clone(), at, bytes)?;
                    outlet.take(saving, Full::Load(Arc::new(load))).map(drop)
                })
            }
            no_chunk => {
                let piece = &mut self.piece[..bytes as usize];
                self.group.receive(from, piece)?;
                saving.map(|saving| no_chunk.and_then(|_| outlet.carry(saving, at, piece)))
            }
        };
        if let (Some(Err(error)), Some(saving)) = (carried, saving) {
            saving.fail(error);
        }
        Ok(())
    }

    fn give_up(&mut self, saving: &Arc<Shard>, error: Error) {
        saving.fail(error);
        self.hands.outlet.give_up(saving);
    }
}
