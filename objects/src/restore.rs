//! Bringing objects back, one by one, on any set of ranks.
//!
//! Invariant: each object of the revision is restored on one rank; messages sent before are never delivered.

use crate::{
    balance::Strategy,
    checkpoint::{DATA, INDEX, Index, Row},
    deliver::same_kinds,
    holders::{Restores, choose, share},
    index::Key,
    kind::{fault, unpack},
    mutant,
    objects::{Held, Measured, Objects},
    tree::{agree, decode, garbled, gather},
};
use mainstay_engine::{Error, ErrorKind, Restored, Result, Session};
use serde::{Deserialize, Serialize};

/// The result of restoring objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    pub restored: Restored,
    /// Number of objects that came back to this rank,
    pub here: usize,
    /// and to all ranks.
    pub objects: usize,
    /// Number of all objects that came to another rank than before.
    pub elsewhere: usize,
}

/// The data that a rank sends to the others before objects come back.
#[derive(Serialize, Deserialize)]
struct Telling {
    epoch: u64,
    rank_before: Option<u32>,
    count: u32,
    here: Vec<u32>,
    is_given_up: bool,
    kinds: Vec<String>,
}

/// Descriptions of damage found in all copies; the same on all ranks.
struct Lost(Vec<String>);

/// The inner error: skip the revision.
type Brought<T> = Result<std::result::Result<T, Lost>>;

impl Objects {
    /// Removes all objects, and fills the protected regions of `session` from the newest complete revision; makes and
    /// unpacks its objects, each on the rank that `holders::choose` names. `None`: there is no revision, and no object.
    /// Call it at the start of a program, and after `Session::recover`. If an object is damaged in all copies of a
    /// revision, all ranks take the same revision from a farther level, or an older one, and `Restored::skipped`
    /// reports it. If a failure has taken copies, a new revision is begun at once, in which every object has its copies
    /// again; if that fails, a line says so. Collective.
    pub fn restore(&mut self, session: &mut Session) -> Result<Option<Came>> {
        loop {
            match self.restore_newest(session)? {
                Ok(came) => return Ok(came),
                Err(Lost(what)) => session.pass_over(what)?,
            }
        }
    }

    fn restore_newest(&mut self, session: &mut Session) -> Brought<Option<Came>> {
        self.is_torn = true;
        self.here.clear();
        self.map.clear();
        self.fresh.clear();
        self.queue.clear();
        self.parked.clear();
        self.post.clear();
        self.leaving = vec![Vec::new(); self.ranks()];
        self.arrived = vec![Vec::new(); self.ranks()];
        self.protect_mark(session)?;
        let restored = session.restore()?;
        // From here on the session's state is back, and the objects are not yet.
        self.is_torn = restored.is_some();
        // It keeps its value until everything is back: a rank that survives a failure in between has survived the one
        // before too.
        let rank_before = match (&restored, self.saved_as) {
            (Some(restored), Some((since, rank))) if restored.revision >= since => Some(rank),
            _ => self.rank_before,
        };
        let shards = session.shards()?;
        let (epoch, is_given_up) = (self.epoch + 1, self.is_given_up);
        let telling = Telling {
            epoch,
            rank_before,
            count: shards.shard_count(),
            here: shards.here().collect(),
            is_given_up,
            kinds: self.kind_names(),
        };
        let told = gather(&*self.wire, &telling)?;
        same_kinds(&told.iter().map(|told| &told.kinds).collect::<Vec<_>>())?;
        let newest = told.iter().map(|told| told.epoch).filter(|_| !mutant::is("EpochNotAgreed")).max();
        self.epoch = newest.unwrap_or(telling.epoch);
        let Some(restored) = restored else {
            (self.steps, self.rank_before, self.saved_as, self.since_failure) = (0, None, None, None);
            return Ok(Ok(None));
        };
        let count = telling.count as usize;
        let survivors: Vec<Option<usize>> =
            (0..count).map(|shard| told.iter().position(|told| told.rank_before == Some(shard as u32))).collect();
        let goes_on = survivors.iter().any(Option::is_some);
        let mut holders: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (rank, told) in told.iter().enumerate() {
            for shard in &told.here {
                holders.get_mut(*shard as usize).ok_or_else(garbled)?.push(rank);
            }
        }
        let has_lost = goes_on && (count != self.ranks()) && holders.iter().any(|held| held.len() < 2);
        let read = self.read_indexes(session, &mut holders);
        // A revision without objects has nothing to bring back: the program may begin its objects afresh.
        self.is_torn = !read.as_ref().is_err_and(is_of_caller);
        let indexes = match read? {
            Ok(indexes) => indexes,
            Err(lost) => return Ok(Err(lost)),
        };
        let elsewhere = match self.read_objects(session, &mut holders, &indexes, &survivors, goes_on)? {
            Ok(elsewhere) => elsewhere,
            Err(lost) => return Ok(Err(lost)),
        };
        self.steps = indexes.first().map_or(0, |index| index.steps);
        // Until the next save, the revision knows this rank by its old number.
        self.rank_before = if count == self.ranks() { Some(self.rank() as u32) } else { rank_before };
        (self.saved_as, self.is_torn) = (None, false);
        // All ranks balance in the same step, also the new ones.
        if !goes_on {
            self.since_failure = None;
        } else if survivors.iter().any(Option::is_none) {
            self.since_failure = Some(0);
        }
        if told.iter().any(|told| told.is_given_up) {
            // Objects that came to a given-up rank leave it again.
            self.place_by(Ok(Strategy::None))?;
        }
        if has_lost && self.ranks() > 1 {
            match self.save(session) {
                Err(error @ Error::GroupFailed { .. }) => return Err(error),
                // All are back. If one rank alone could not save, the next collective call reports it.
                Err(error) => {
                    session.remark(&format!("objects lack some of their copies until the next checkpoint: {error}"))
                }
                Ok(_) => {}
            }
        }
        Ok(Ok(Some(Came { restored, here: self.here.len(), objects: self.map.len(), elsewhere })))
    }

    /// The contents of the shards, each read by one rank and sent to all. Collective.
    fn read_indexes(&self, session: &mut Session, holders: &mut [Vec<usize>]) -> Brought<Vec<Index>> {
        let rank = self.rank();
        let mut indexes: Vec<Option<Index>> = vec![None; holders.len()];
        loop {
            let wanted: Vec<usize> = (0..holders.len()).filter(|shard| indexes[*shard].is_none()).collect();
            if wanted.is_empty() {
                return Ok(Ok(indexes.into_iter().flatten().collect()));
            }
            let chosen = choose(holders, self.ranks());
            let mine = wanted.iter().filter(|shard| match chosen[**shard] {
                Restores::One(reader) => reader == rank,
                Restores::All => **shard % self.ranks() == rank,
                Restores::Nobody => false,
            });
            let read = mine.map(|shard| (*shard, read_index(session, *shard as u32))).collect::<Vec<_>>();
            let saved = read.iter().filter_map(|(_, index)| index.as_ref().err()).find(|error| is_of_caller(error));
            agree(&*self.wire, saved.map_or(Ok(()), |error| Err(error.clone())))?;
            let told = gather(&*self.wire, &told_of(read))?;
            let mut lost = Vec::new();
            for (reader, told) in told.into_iter().enumerate() {
                for (shard, index) in told {
                    match index {
                        Ok(index) => *indexes.get_mut(shard).ok_or_else(garbled)? = Some(index),
                        Err(why) => lost.extend(count_out(holders, shard, reader, &why)?),
                    }
                }
            }
            let nobody = wanted.into_iter().filter(|shard| chosen[*shard] == Restores::Nobody);
            lost.extend(nobody.map(|shard| format!("no remaining rank can read the objects of shard {shard}")));
            if !lost.is_empty() {
                return Ok(Err(Lost(lost)));
            }
        }
    }

    /// Makes and unpacks the objects that come to this rank, and tells all ranks the place of each; returns the number
    /// of objects that changed their rank. Collective.
    fn read_objects(
        &mut self,
        session: &mut Session,
        holders: &mut [Vec<usize>],
        indexes: &[Index],
        survivors: &[Option<usize>],
        goes_on: bool,
    ) -> Brought<usize> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let loads: Vec<u64> = indexes.iter().flat_map(|index| index.rows.iter().map(|row| row.load)).collect();
        let shared = share(&loads, ranks);
        let kinds = agree(&*self.wire, self.kinds_of(indexes))?;
        let elsewhere = loop {
            // If a part of a shard could not be read, the choice of ranks changes: all start over.
            self.here.clear();
            self.map.clear();
            let chosen = choose(holders, ranks);
            let (mut elsewhere, mut shared, mut flaws, mut failed) = (0, shared.iter(), Vec::new(), Ok(()));
            for (shard, index) in indexes.iter().enumerate() {
                let was = if goes_on { survivors[shard] } else { Some(shard) };
                let is_orphan = goes_on && was.is_none();
                for row in &index.rows {
                    let among_all = shared.next().copied().unwrap_or(0);
                    let to = match chosen[shard] {
                        Restores::One(to) => to,
                        Restores::All => among_all,
                        Restores::Nobody => {
                            let why = format!("no remaining rank can read the objects of shard {shard}");
                            return Ok(Err(Lost(vec![why])));
                        }
                    };
                    elsewhere += usize::from(was != Some(to));
                    let key = Key { kind: kinds[shard][row.key.kind as usize], id: row.key.id };
                    self.map.insert(key, to as u32);
                    if to != rank || failed.is_err() || flaws.iter().any(|(of, _)| *of == shard) {
                        continue;
                    }
                    match self.read_object(session, shard as u32, row, key, is_orphan) {
                        Ok(None) => {}
                        Ok(Some(why)) => flaws.push((shard, format!("object {}: {why}", self.name(key)))),
                        Err(error) => failed = Err(error),
                    }
                }
            }
            agree(&*self.wire, failed)?;
            let told = gather(&*self.wire, &flaws)?;
            if told.iter().all(Vec::is_empty) {
                break elsewhere;
            }
            let mut lost = Vec::new();
            for (reader, told) in told.into_iter().enumerate() {
                for (shard, why) in &told {
                    lost.extend(count_out(holders, *shard, reader, why)?);
                }
            }
            if !lost.is_empty() {
                self.here.clear();
                self.map.clear();
                return Ok(Err(Lost(lost)));
            }
        };
        let total: usize = indexes.iter().map(|index| index.rows.len()).sum();
        if total != self.map.len() {
            let what = format!("the revision has {total} objects, and {} different ones", self.map.len());
            return Ok(Err(Lost(vec![what])));
        }
        let is_mine = |on: &u32| *on as usize == rank;
        debug_assert!(self.here.keys().all(|key| self.map.get(key).is_some_and(is_mine)), "an object is on two ranks");
        debug_assert_eq!(
            self.here.len(),
            self.map.values().filter(|on| is_mine(on)).count(),
            "an object is on no rank"
        );
        Ok(Ok(elsewhere))
    }

    /// For each shard, the number of each of its kinds here.
    fn kinds_of(&self, indexes: &[Index]) -> Result<Vec<Vec<u32>>> {
        let number = |name: &String, index: &Index, kind: usize| {
            let known = self.kinds.iter().position(|known| known.name == *name).map(|number| number as u32);
            let first = index.rows.iter().find(|row| row.key.kind as usize == kind);
            // A kind without objects may be gone.
            known.or(if first.is_none() { Some(u32::MAX) } else { None }).ok_or_else(|| {
                let id = first.map_or(0, |row| row.key.id);
                let why = "its kind is not registered here; register the kinds of the program that saved it, before the restore";
                fault(&format!("{name}[{id}]"), self.rank(), why)
            })
        };
        let of_index = |index: &Index| {
            if let Some(row) = index.rows.iter().find(|row| row.key.kind as usize >= index.kinds.len()) {
                let what = format!("the index of a shard names kind {} of {}", row.key.kind, index.kinds.len());
                return Err(Error::Damaged { what: vec![what] });
            }
            index.kinds.iter().enumerate().map(|(kind, name)| number(name, index, kind)).collect()
        };
        indexes.iter().map(of_index).collect()
    }

    /// Makes and unpacks one object. Returns the damage in the saved bytes, if any; another holder may have them
    /// undamaged.
    fn read_object(
        &mut self,
        session: &mut Session,
        shard: u32,
        row: &Row,
        key: Key,
        is_orphan: bool,
    ) -> Result<Option<String>> {
        let shards = session.shards()?;
        match shards.item(shard, DATA).map(|item| item.bytes) {
            Ok(there) if row.offset.checked_add(row.bytes).is_some_and(|end| end <= there) => {}
            Ok(there) => return Ok(Some(format!("the index gives {} bytes at {} of {there}", row.bytes, row.offset))),
            Err(error) => return Ok(Some(error.to_string())),
        }
        let mut packed = vec![0; row.bytes as usize];
        match shards.read(shard, DATA, row.offset, &mut packed) {
            Ok(bytes) if bytes == packed.len() => {}
            Ok(bytes) => return Ok(Some(format!("there are only {bytes} of {} bytes", packed.len()))),
            Err(error) => return Ok(Some(error.to_string())),
        }
        let mut object = self.make(key)?;
        unpack(&mut *object, &packed).map_err(|why| fault(&self.name(key), self.rank(), why))?;
        let measured = Measured { load: row.load, ..Measured::default() };
        self.here.insert(key, Held { object, measured, is_orphan });
        Ok(None)
    }
}

type ReadBy = Vec<(usize, std::result::Result<Index, String>)>;

fn told_of(read: Vec<(usize, Result<Index>)>) -> ReadBy {
    read.into_iter().map(|(shard, index)| (shard, index.map_err(|error| error.to_string()))).collect()
}

fn read_index(session: &mut Session, shard: u32) -> Result<Index> {
    let shards = session.shards()?;
    let bytes = shards.item(shard, INDEX).map(|item| item.bytes).map_err(|error| match error.kind() {
        ErrorKind::InvalidArgument => Error::argument(
            "the revision to restore",
            format!("it was saved without objects: {error}; save by checkpoint of the objects, or open another space"),
        ),
        _ => error,
    })?;
    let mut told = vec![0; bytes as usize];
    shards.read(shard, INDEX, 0, &mut told)?;
    decode(&told).map_err(|_| Error::Damaged { what: vec![format!("the index of objects of shard {shard}")] })
}

/// A revision without objects is not damaged, and no other revision is tried.
fn is_of_caller(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidArgument
}

/// Removes `reader` from the holders of the shard, because it could not read a part. Returns the loss, if it was the
/// last holder.
fn count_out(holders: &mut [Vec<usize>], shard: usize, reader: usize, why: &str) -> Result<Option<String>> {
    let holders = holders.get_mut(shard).ok_or_else(garbled)?;
    holders.retain(|holder| *holder != reader);
    Ok(holders.is_empty().then(|| format!("objects of shard {shard}, in all copies: {why}")))
}
