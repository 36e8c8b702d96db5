//! The holder's side: receives the shard of an owner, straight into the portion if it can be mapped, and publishes it
//! there.

use super::{
    post::{Piece, room_for_piece},
    words::Announced,
};
use crate::{
    capture::{Contents, Delta, Size},
    commit::{Kept, Ledger, Need, RUNS, RevisionKey},
    device::Device,
    error::{Error, Result},
    feed::{Arrived, Feeder, Landing, Older},
    ground::Instant,
    mutant::{self, Mutant},
    place::{Shard, ShardSpec, Site, portion_blocks},
    restore::base_of,
    space::{Portion, anonymous_portion, format::BLOCK_BYTES},
};
use std::sync::{Arc, Mutex};

/// Far more blocks than any memory has.
const BLOCKS_MAX: u64 = 1 << 40;

/// A shard that another rank sends: the copy of an owner's shard on one level, or a shard that this rank wants to read.
pub(in crate::session) struct ArrivingReplica {
    pub(in crate::session) from: usize,
    shard: u32,
    state: ReplicaState,
}

enum ReplicaState {
    PendingSegment(Place),
    ArrivingShard(Box<ArrivingShard>),
    /// All pieces have come; the I/O thread of the level publishes the shard.
    Publishing(Arc<Shard>),
    Failed(Error),
    /// The owner has nothing to send.
    GivenUp(Error),
}

/// The destination of the shard.
enum Place {
    /// The site found at t1, with room for a shard of this size.
    Level(Box<(Site, Size)>),
    /// Memory for a shard of any size; at most this number of threads make it.
    Memory(Arc<dyn Device>, usize),
}

struct ArrivingShard {
    copy: Result<Arc<Shard>>,
    arrived: Arrived,
    /// The older blocks of the shard, if the copy cannot refer to them.
    older: Option<Arc<Older>>,
    /// The number of pieces still under way.
    lacking: usize,
}

impl ArrivingReplica {
    /// Expects the shard of an owner, to be saved at `site`.
    pub(in crate::session) fn new(owner: usize, site: Site, size: Size) -> ArrivingReplica {
        ArrivingReplica {
            from: owner,
            shard: owner as u32,
            state: ReplicaState::PendingSegment(Place::Level(Box::new((site, size)))),
        }
    }

    /// Expects a shard from the rank `from`, of the level on `device`, for reading. At most `threads` threads make its
    /// memory.
    pub(in crate::session) fn to_read(
        from: usize,
        shard: u32,
        device: Arc<dyn Device>,
        threads: usize,
    ) -> ArrivingReplica {
        ArrivingReplica { from, shard, state: ReplicaState::PendingSegment(Place::Memory(device, threads)) }
    }

    pub(in crate::session) fn give_up(&mut self, error: Error) {
        self.state = ReplicaState::GivenUp(error);
    }

    /// The failure to report. If the owner gave up, the owner reports it.
    pub(in crate::session) fn failure(&self) -> Result<()> {
        match &self.state {
            ReplicaState::GivenUp(_) => Ok(()),
            _ => self.poll().unwrap_or(Ok(())),
        }
    }

    /// Whether the destination is still getting its memory. A caller of `take_on` would wait for that.
    pub(in crate::session) fn awaits_memory(&self) -> bool {
        matches!(&self.state, ReplicaState::PendingSegment(Place::Level(found)) if found.0.awaits_memory())
    }

    /// The memory for the pieces that the owner announces.
    pub(in crate::session) fn take_on(&mut self, announced: Announced, key: RevisionKey) -> Result<Vec<Piece>> {
        let Announced { level, shards, contents, hash, phases, carried, pieces, .. } = announced;
        let unasked =
            || Error::Internal { what: format!("rank {} sends a shard that it was not asked for", self.from) };
        let ReplicaState::PendingSegment(place) = std::mem::replace(&mut self.state, ReplicaState::Failed(unasked()))
        else {
            return Err(unasked());
        };
        let blocks_max = if let Place::Level(found) = &place { found.1.blocks() } else { BLOCKS_MAX };
        let decoded = Contents::decode(&contents, blocks_max);
        let begun = decoded.filter(|_| announced.key == key).ok_or_else(unasked).and_then(|contents| {
            let size = Size::measured(contents.blocks);
            let site = match place {
                Place::Level(found) => found.0,
                Place::Memory(device, threads) => in_memory(&*device, key, (self.shard, shards), &contents, threads)?,
            };
            let (shard, started) = (self.shard, Instant::now());
            let intent = ShardSpec { key, shards, shard, size, outputs: Vec::new(), started };
            let copy = Shard::new(intent, vec![site], None, phases)?;
            let delta = carried.map(|carried| delta_of(&copy, &contents, carried)).transpose()?;
            let (delta, older) = delta.unwrap_or_default();
            let comes = pieces.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
            let own = delta.as_ref().map_or(contents.blocks, |delta| delta.contents.blocks);
            let expected = older.as_ref().map_or(own, |older| older.comes()) * BLOCK_BYTES;
            if comes == expected { Ok((copy, (contents, delta), older)) } else { Err(unasked()) }
        });
        let (copy, contents, older) = match begun {
            Ok((copy, contents, older)) => (Ok(copy), Some(contents), older),
            Err(error) => (Err(error), None, None),
        };
        if let Ok(copy) = &copy {
            pieces.iter().try_for_each(|&(at, bytes)| copy.has_room(at, bytes))?;
        }
        let room = |&(at, bytes): &(u64, u64)| -> Result<Piece> {
            // With older blocks in the shard, the pieces do not map to stretches of the portion.
            let mapped = copy.as_ref().ok().filter(|_| older.is_none()).and_then(|copy| copy.map(at, bytes).ok());
            let mapped = mapped.filter(|mapped| mapped.as_ref().len() as u64 == bytes);
            let memory = match mapped {
                Some(mapped) => Landing::Portion(mapped),
                None => Landing::Own(room_for_piece(bytes, self.from)?, bytes),
            };
            Ok(Piece { level, at, memory })
        };
        let expected = pieces.iter().map(room).collect::<Result<Vec<_>>>()?;
        let lacking = expected.len();
        let arrived = Arrived::new(contents, hash, older.clone());
        self.state = ReplicaState::ArrivingShard(Box::new(ArrivingShard { copy, arrived, older, lacking }));
        Ok(expected)
    }

    /// Hands a piece that has come to `feeder`.
    pub(in crate::session) fn take(&mut self, Piece { at, memory, .. }: Piece, feeder: &Feeder) {
        if let ReplicaState::ArrivingShard(coming) = &mut self.state {
            coming.lacking -= 1;
            let memory = match (memory, &coming.older) {
                (Landing::Own(memory, bytes), Some(older)) => {
                    Landing::Spread(memory, bytes, older.clone(), at / BLOCK_BYTES)
                }
                (memory, _) => memory,
            };
            if let Ok(copy) = &coming.copy {
                feeder.take(copy, at, memory);
            }
        }
    }

    /// Lets `feeder` publish the copy once all pieces have come.
    pub(in crate::session) fn finish(&mut self, feeder: &Feeder) {
        if !matches!(&self.state, ReplicaState::ArrivingShard(coming) if coming.lacking == 0) {
            return;
        }
        let gone = Error::Internal { what: "a copy is finished that was not begun".to_owned() };
        if let ReplicaState::ArrivingShard(coming) = std::mem::replace(&mut self.state, ReplicaState::Failed(gone)) {
            let ArrivingShard { copy, arrived, .. } = *coming;
            self.state = match copy {
                Ok(copy) => {
                    if !mutant::is(Mutant::CopyNotPublished) {
                        feeder.finish(copy.clone(), arrived);
                    }
                    ReplicaState::Publishing(copy)
                }
                Err(error) => ReplicaState::Failed(error),
            };
        }
    }

    /// Whether all pieces have come, or no more will come.
    pub(in crate::session) fn is_there(&self) -> bool {
        !matches!(self.state, ReplicaState::PendingSegment(_) | ReplicaState::ArrivingShard(_))
    }

    /// The published shard. Waits until it is published.
    pub(in crate::session) fn published(&self) -> Result<(Portion, Arc<Kept>)> {
        match &self.state {
            ReplicaState::Publishing(copy) => copy.wait().and_then(|_| copy.kept()),
            ReplicaState::Failed(error) | ReplicaState::GivenUp(error) => Err(error.clone()),
            ReplicaState::PendingSegment(_) | ReplicaState::ArrivingShard(_) => {
                Err(Error::Internal { what: format!("shard {} has not come", self.shard) })
            }
        }
    }

    /// The outcome of the copy, without waiting; `None` while it is under way.
    pub(in crate::session) fn poll(&self) -> Option<Result<()>> {
        match &self.state {
            ReplicaState::PendingSegment(_) | ReplicaState::ArrivingShard(_) => None,
            ReplicaState::Publishing(_)
                if mutant::is(Mutant::CopyNotPublished) || mutant::is(Mutant::CopyCountsTooEarly) =>
            {
                Some(Ok(()))
            }
            ReplicaState::Publishing(copy) => copy.poll(),
            ReplicaState::Failed(error) | ReplicaState::GivenUp(error) => Some(Err(error.clone())),
        }
    }
}

/// A site in memory for a shard with these `contents`. At most `threads` threads make the memory.
fn in_memory(
    device: &dyn Device,
    key: RevisionKey,
    shard: (u32, u32),
    contents: &Contents,
    threads: usize,
) -> Result<Site> {
    let size = Size::of_items(contents.items.clone(), contents.annex.clone()).at_least(contents.blocks * BLOCK_BYTES);
    let portion = anonymous_portion(shard.0, shard.1, portion_blocks(&size, None, 1), threads)?;
    let slot = Ledger::first_slot(portion.layout_id(), shard.0, key.lineage);
    portion.write_slot(0, &slot)?;
    let ledger = Ledger::fresh(portion, slot);
    let allocation = ledger.allocate(Need::of(&size, RUNS), &[])?;
    Ok(Site::new(device, Arc::new(Mutex::new(ledger)), allocation, Vec::new()))
}

/// References of the copy into the older revision that the owner says is complete here. That revision has all blocks
/// except those that come. Without room for the references, returns the older blocks to save again.
fn delta_of(
    copy: &Shard,
    contents: &Contents,
    (old, carried): (RevisionKey, Vec<(u64, u64)>),
) -> Result<(Option<Delta>, Option<Arc<Older>>)> {
    let lacks = || Error::Internal {
        what: format!(
            "revision {} is not there with all that a copy of revision {} refers to",
            old.number,
            copy.key().number
        ),
    };
    let (portion, kept) = copy.older(Some(old)).ok_or_else(lacks)?;
    let base = base_of(&portion, &kept.entry)?.ok_or_else(lacks)?;
    let end = |(first, count): (u64, u64)| first.checked_add(count).filter(|end| *end <= contents.blocks);
    let carried = carried.into_iter().map(|blocks| Some(blocks.0..end(blocks)?)).collect::<Option<Vec<_>>>();
    let delta = carried.and_then(|carried| Delta::new(contents, &carried, &base)).ok_or_else(lacks)?;
    // Room for a whole shard afterwards is not required: a level with copies grows if it is missing.
    if copy.lead(&delta, false)? {
        Ok((Some(delta), None))
    } else {
        Ok((None, Some(Arc::new(Older::new(portion, kept.entry.clone(), delta)))))
    }
}
