//! An aggregator: saves the shards of its members, one after another, as its own.

use super::{
    Part,
    words::{Answer, News, Word},
};
use crate::{
    capture::Contents,
    device::{Access, Device},
    error::{Error, Failure, Result},
    ground::Instant,
    group::{Group, hear, tell},
    place::{Load, Order, Shard, segments_at_most},
    pool::{Pool, Record},
    session::{epoch::Epoch, level::Levels, means::Means, settle::Attempt},
    space::{Aligned, Portion, format::BLOCK_BYTES, open_layout},
    stage::{Hands, Publisher, Way, conclude},
};
use std::{io, sync::Arc};

/// What an aggregator does for others.
pub(super) struct Duty {
    pub(super) members: Vec<Member>,
    /// What it has under way for them.
    served: Vec<Served>,
    /// For pieces that go to no chunk.
    piece: Aligned,
}

pub(super) struct Member {
    rank: usize,
    /// By a file of its own: of two that sync one file the first is told of an error, and both must be.
    portion: Option<Portion>,
    /// From which another process could complete its shard; where there is a pool.
    record: Option<Record>,
}

struct Served {
    rank: usize,
    saving: Taken,
}

/// A shard that was taken on; or what to answer, as it was not.
type Taken = std::result::Result<Arc<Shard>, Box<Answer>>;

impl Duty {
    pub(super) fn new(members: &[usize], pool: Option<&Pool>, piece_bytes: u64) -> Result<Duty> {
        let member = |&rank: &usize| {
            let record = pool.map(|pool| Record::create(pool, rank as u32)).transpose()?;
            Ok(Member { rank, portion: None, record })
        };
        let no_memory = || Error::io("allocating", "room for the pieces of others", io::ErrorKind::OutOfMemory.into());
        let piece = Aligned::zeroed(piece_bytes).ok_or_else(no_memory)?;
        Ok(Duty { members: members.iter().map(member).collect::<Result<_>>()?, served: Vec::new(), piece })
    }

    /// Opens the portions of the members. `file_of`: the file that a rank's portion lies in.
    pub(super) fn open(&mut self, device: &dyn Device, file_of: impl Fn(usize) -> Option<String>) -> Result<()> {
        for member in &mut self.members {
            let missing = || Error::Internal { what: format!("a layout without rank {}", member.rank) };
            let layout = open_layout(device, file_of(member.rank).ok_or_else(missing)?, Access::Write)?;
            let portion = layout.portions().find(|portion| portion.rank() as usize == member.rank);
            let portion = portion.ok_or_else(missing)?;
            portion.stay_open()?;
            member.portion = Some(portion);
        }
        Ok(())
    }

    /// Tells its members what became of what it has under way for them; `waits`: once it has come to its end. Collective.
    pub(super) fn tell_news(&mut self, group: &dyn Group, waits: bool) -> Result<()> {
        for Served { rank, saving } in std::mem::take(&mut self.served) {
            let news = match saving {
                Ok(saving) if !waits && saving.poll().is_none() => {
                    self.served.push(Served { rank, saving: Ok(saving) });
                    News::UnderWay
                }
                Ok(saving) => {
                    let outcome = saving.wait().map_err(|error| Failure::from(&error));
                    News::Ended(Box::new(Answer { outcome, ledger: Some(saving.give_back()) }))
                }
                Err(answer) => News::Ended(answer),
            };
            tell(group, rank, &news)?;
        }
        Ok(())
    }
}

impl Epoch {
    /// Takes what the members hand over, if this is an aggregator. An error is one of the group: what fails of a
    /// member's shard is told to the member. Collective.
    pub(super) fn serve(&mut self, means: &Means, levels: &Levels) -> Result<()> {
        let Part::Aggregator(duty) = &mut self.aggregators.part else { return Ok(()) };
        let level = levels.nearest();
        let started = match &level.saving {
            Some(Attempt::Running(saving)) => saving.started(),
            _ => Instant::now(),
        };
        let (group, device, publisher) = (self.group.between_two(), &*level.device, means.policy.publisher);
        means.with_hands(levels, Way::Space, |hands| {
            let desk = Desk { group, device, hands, publisher, started };
            for member in &mut duty.members {
                let saving = desk.serve(member, &mut duty.piece)?;
                duty.served.push(Served { rank: member.rank, saving });
            }
            Ok(())
        })
    }
}

/// What serving needs of the session.
struct Desk<'a> {
    group: &'a dyn Group,
    device: &'a dyn Device,
    hands: &'a Hands<'a>,
    publisher: Publisher,
    /// t1.
    started: Instant,
}

impl Desk<'_> {
    /// Hears one member to its end.
    fn serve(&self, member: &mut Member, piece: &mut Aligned) -> Result<Taken> {
        let mut taken = None;
        let served = self.hear_out(member, piece, &mut taken);
        if let (Err(error), Some(Ok(saving))) = (&served, &taken) {
            saving.fail(error.clone());
        }
        let failed = served?;
        Ok(taken.unwrap_or_else(|| Err(Box::new(Answer { outcome: Err(failed), ledger: None }))))
    }

    /// Until all of the shard is staged, or given up: why.
    fn hear_out(&self, member: &mut Member, piece: &mut Aligned, taken: &mut Option<Taken>) -> Result<Failure> {
        let (from, mut pieces) = (member.rank, 0);
        loop {
            let saving = match taken {
                Some(Ok(saving)) => Some(&*saving),
                _ => None,
            };
            match hear(self.group, from)? {
                Word::Order(order) => *taken = Some(self.take_on(member, *order, piece.len() as u64)),
                Word::Piece { at, bytes } => {
                    pieces += 1;
                    if let Some(saving) = saving
                        && pieces > segments_at_most(saving.size().bytes(), piece.len() as u64)
                    {
                        saving
                            .fail(Error::Internal { what: format!("rank {from} sends more pieces than it can have") });
                    }
                    self.take_piece(from, at, bytes, saving, piece)?;
                }
                Word::Staged { contents, staged } => {
                    if let Some(saving) = saving {
                        match Contents::decode(&contents, saving.size().blocks()) {
                            Some(contents) => {
                                conclude(saving, contents, staged, self.publisher, self.hands.threads);
                                self.hands.pool.inspect(|pool| pool.tell_copied());
                            }
                            None => {
                                let what = format!("rank {from} tells of what cannot have been staged");
                                self.give_up(saving, Error::Internal { what });
                            }
                        }
                    }
                    return Ok(Failure::from(&Error::Internal {
                        what: format!("rank {from} staged what it had not ordered"),
                    }));
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

    fn take_on(&self, member: &mut Member, order: Order, piece_bytes: u64) -> Taken {
        let ledger = Some(order.ledger.clone());
        let begun = self.begin(member, order, piece_bytes);
        begun.map_err(|error| Box::new(Answer { outcome: Err(Failure::from(&error)), ledger }))
    }

    fn begin(&self, member: &mut Member, order: Order, piece_bytes: u64) -> Result<Arc<Shard>> {
        let lost = || Error::Internal { what: format!("the portion of rank {} was not opened", member.rank) };
        let (portion, phases) = (member.portion.as_ref().ok_or_else(lost)?, order.phases);
        let (intent, target) = order.take_on(portion, self.device, self.started)?;
        Shard::new(intent, vec![target], member.record.as_mut().map(|record| (record, piece_bytes)), phases)
    }

    /// Takes a piece, and has it written. What nobody can use any more is taken all the same.
    fn take_piece(
        &self,
        from: usize,
        at: u64,
        bytes: u64,
        saving: Option<&Arc<Shard>>,
        piece: &mut Aligned,
    ) -> Result<()> {
        if bytes > piece.len() as u64 {
            return Err(Error::GroupFailed { what: format!("a piece of {bytes} bytes from rank {from}") });
        }
        let is_whole = at.is_multiple_of(BLOCK_BYTES) && bytes.is_multiple_of(BLOCK_BYTES);
        let fits = |saving: &Arc<Shard>| match saving.has_room(at, bytes) {
            _ if !is_whole => Err(Error::Internal { what: format!("rank {from} sends parts of blocks") }),
            told => told,
        };
        let saving = saving.filter(|saving| !saving.has_failed());
        let chunk = match (saving.map(fits), self.hands.pool) {
            (Some(Ok(())), Some(pool)) => Some(pool.take(self.hands.reclaim)).transpose(),
            (Some(Err(error)), _) => Err(error),
            _ => Ok(None),
        };
        if let Ok(Some(mut chunk)) = chunk {
            self.group.receive(from, &mut chunk.bytes_mut()[..bytes as usize])?;
            if let Some(saving) = saving {
                match Load::new(chunk, saving.clone(), at, bytes) {
                    Ok(load) => self.hands.threads.carry(load),
                    Err(error) => saving.fail(error),
                }
            }
            return Ok(());
        }
        let piece = &mut piece[..bytes as usize];
        self.group.receive(from, piece)?;
        let Some(saving) = saving else { return Ok(()) };
        if let Err(error) = chunk.and_then(|_| saving.carry(at, piece)) {
            saving.fail(error);
        }
        Ok(())
    }

    fn give_up(&self, saving: &Arc<Shard>, error: Error) {
        saving.fail(error);
        self.hands.threads.all_staged(saving);
    }
}
