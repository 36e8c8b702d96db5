//! Moving objects: they are packed, sent, and unpacked on their new rank.
//!
//! Invariant: an object leaves its rank only once all ranks know that every object has arrived. Objects are lost only
//! if a rank fails meanwhile, and then the program goes back to a checkpoint.

use crate::{
    balance::{Strategy, Weighed, place},
    index::Key,
    kind::{fault, pack, unpack},
    mutant,
    objects::{Held, Measured, Objects},
    tree::{agree, decode, encode, garbled, gather},
    wire::Arriving,
};
use mainstay_engine::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of moving objects; loads in the objects' own units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balanced {
    /// Number of objects that moved.
    pub moved: u64,
    /// Loads of the busiest rank before and after, and the average of all ranks that may have objects.
    pub busiest_before: u64,
    pub busiest: u64,
    pub average: u64,
    /// Bytes that objects have sent to objects on other ranks, with the old and with the new places.
    pub sent_before: u64,
    pub sent: u64,
}

/// An object and its work, as the ranks exchange them.
type Borne = (Key, u64, bool);

/// Head of a packed object.
#[derive(Serialize, Deserialize)]
struct Head {
    key: Key,
    measured: Measured,
    is_orphan: bool,
    bytes: u64,
}

/// Checks that all ranks have asked for the same strategy.
fn check_alike(asked: &[Option<&str>]) -> Result<()> {
    let Some(other) = asked.iter().position(|one| *one != asked[0]) else { return Ok(()) };
    let named = |rank: usize| asked[rank].unwrap_or("an unknown one");
    let why = format!("rank 0 asks for {}, rank {other} for {}; name the same on all ranks", named(0), named(other));
    Err(Error::argument("strategy", why))
}

impl Objects {
    /// Moves objects by `strategy`, based on the work of each since the last time. Between two steps. Collective.
    pub fn balance(&mut self, strategy: Strategy) -> Result<Balanced> {
        self.balance_by(Ok(strategy))
    }

    /// The same with a strategy that may be invalid on some ranks, such as one from a name that was read: all ranks get
    /// the error. Collective.
    pub fn balance_by(&mut self, strategy: Result<Strategy>) -> Result<Balanced> {
        self.check_whole("balance")?;
        let balanced = self.place_by(strategy)?;
        for held in self.here.values_mut() {
            held.measured.age();
            held.is_orphan = false;
        }
        Ok(balanced)
    }

    /// Moves all objects off the ranks that are `given_up` on any rank, and balances the others by `Refine`: for a node
    /// that is about to fail. These ranks have no objects as long as they are given up; with none given up, all may
    /// have objects again. Save afterwards: from that checkpoint on they hold no copies of others either. If an object
    /// cannot be packed or unpacked, all stay in place. Collective.
    pub fn evacuate(&mut self, given_up: &[usize]) -> Result<Balanced> {
        self.check_whole("evacuate")?;
        let told = gather(&*self.wire, &given_up.to_vec())?.concat();
        if let Some(rank) = told.iter().find(|rank| **rank >= self.ranks()) {
            let why = format!("there is no rank {rank}, as there are {} in all; name some of those", self.ranks());
            return Err(Error::argument("evacuate", why));
        }
        if (0..self.ranks()).all(|rank| told.contains(&rank)) {
            return Err(Error::argument("evacuate", "no rank would be left to have objects; name fewer ranks"));
        }
        let before = (self.is_given_up, self.holders_change);
        (self.is_given_up, self.holders_change) = (told.contains(&self.rank()), true);
        let balanced = self.balance(Strategy::Refine);
        if matches!(&balanced, Err(error) if error.kind() != ErrorKind::GroupFailed) {
            (self.is_given_up, self.holders_change) = before;
        }
        balanced
    }

    /// Moves objects to the ranks chosen by `strategy`, which must be the same on all ranks. Collective.
    pub(crate) fn place_by(&mut self, strategy: Result<Strategy>) -> Result<Balanced> {
        self.drain(false)?;
        let mine: Vec<Borne> = self.here.iter().map(|(key, held)| (*key, held.measured.load, held.is_orphan)).collect();
        let asked = strategy.as_ref().ok().map(Strategy::to_string);
        let told: Vec<(Option<String>, bool, Vec<Borne>)> = gather(&*self.wire, &(asked, self.is_given_up, mine))?;
        let strategy = strategy?;
        let asked: Vec<Option<&str>> = told.iter().map(|(asked, ..)| asked.as_deref()).collect();
        check_alike(&asked)?;
        let mut open: Vec<bool> = told.iter().map(|(_, is_given_up, _)| !is_given_up).collect();
        if !open.contains(&true) {
            // All others have failed.
            open.fill(true);
            (self.is_given_up, self.holders_change) = (false, true);
        }
        let mut all: Vec<(Key, Weighed)> = Vec::new();
        for (rank, (.., objects)) in told.into_iter().enumerate() {
            let weighed = |(key, load, is_orphan)| (key, Weighed { load, rank, is_orphan });
            all.extend(objects.into_iter().map(weighed));
        }
        all.sort_unstable_by_key(|(key, _)| *key);
        let weighed: Vec<Weighed> = all.iter().map(|(_, weighed)| *weighed).collect();
        let placed = match strategy {
            Strategy::Graph => self.place_by_graph(&all, &weighed, &open)?,
            other => place(other, &weighed, &open),
        };
        let busiest = |rank_of: &dyn Fn(usize) -> usize| {
            let mut loads = vec![0_u64; open.len()];
            weighed.iter().enumerate().for_each(|(at, object)| loads[rank_of(at)] += object.load);
            loads.into_iter().max().unwrap_or(0)
        };
        let moves: Vec<(Key, usize, usize)> = all
            .iter()
            .zip(&placed)
            .filter(|((_, weighed), to)| weighed.rank != **to)
            .map(|((key, weighed), to)| (*key, weighed.rank, *to))
            .collect();
        let count = open.iter().filter(|open| **open).count() as u64;
        let sent_before = self.sent_elsewhere();
        self.migrate(&moves)?;
        // Objects that have moved here have brought their counts of sent bytes.
        let sent = gather(&*self.wire, &[sent_before, self.sent_elsewhere()])?;
        let sum = |at: usize| sent.iter().fold(0_u64, |sum, rank| sum.saturating_add(rank[at]));
        Ok(Balanced {
            moved: moves.len() as u64,
            busiest_before: busiest(&|at| weighed[at].rank),
            busiest: busiest(&|at| placed[at]),
            average: weighed.iter().map(|object| object.load).sum::<u64>() / count,
            sent_before: sum(0),
            sent: sum(1),
        })
    }

    /// Lets one rank cut the graph and uses its result: the result of other ranks could depend on their machine.
    /// Collective.
    fn place_by_graph(&self, all: &[(Key, Weighed)], weighed: &[Weighed], open: &[bool]) -> Result<Vec<usize>> {
        type Placed = std::result::Result<Vec<u32>, String>;
        let of_held = |(key, held): (&Key, &Held)| {
            held.measured.sent.iter().map(|(to, bytes)| (*key, *to, *bytes)).collect::<Vec<_>>()
        };
        let mine: Vec<(Key, Key, u64)> = self.here.iter().flat_map(of_held).collect();
        let told = gather(&*self.wire, &mine)?;
        let mut placed: Option<Placed> = None;
        if self.rank() == 0 {
            let at = |key: Key| all.binary_search_by_key(&key, |(known, _)| *known).ok();
            let sent: Vec<(usize, usize, u64)> =
                told.into_iter().flatten().filter_map(|(from, to, bytes)| Some((at(from)?, at(to)?, bytes))).collect();
            let cut = crate::graph::place(weighed, &sent, open).map_err(|error| error.to_string());
            placed = Some(cut.map(|ranks| ranks.into_iter().map(|rank| rank as u32).collect()));
        }
        let placed = gather(&*self.wire, &placed)?.swap_remove(0).ok_or_else(garbled)?;
        let placed = placed.map_err(|why| Error::argument("strategy \"graph\"", why))?;
        if placed.len() != all.len() || placed.iter().any(|rank| !open.get(*rank as usize).is_some_and(|open| *open)) {
            return Err(garbled());
        }
        Ok(placed.into_iter().map(|rank| rank as usize).collect())
    }

    /// Bytes that the objects here have sent to objects that are on other ranks now.
    fn sent_elsewhere(&self) -> u64 {
        let mine = self.rank() as u32;
        let sent = self.here.values().flat_map(|held| &held.measured.sent);
        let elsewhere = sent.filter(|(to, _)| self.map.get(to).is_some_and(|rank| *rank != mine));
        elsewhere.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Moves each of these from one rank to another; the same list on all ranks. Collective.
    fn migrate(&mut self, moves: &[(Key, usize, usize)]) -> Result<()> {
        let (rank, ranks) = (self.rank(), self.ranks());
        if moves.is_empty() {
            return Ok(());
        }
        let mut leaving = vec![Vec::new(); ranks];
        let packed = moves
            .iter()
            .filter(|(_, from, _)| *from == rank)
            .try_for_each(|(key, _, to)| self.pack_into(*key, &mut leaving[*to]));
        agree(&*self.wire, packed)?;
        let told: Vec<u64> = leaving.iter().map(|bytes: &Vec<u8>| bytes.len() as u64).collect();
        let mut coming = vec![0; ranks];
        self.wire.swap(&told, &mut coming)?;
        let sent: Vec<(usize, &[u8])> =
            leaving.iter().enumerate().filter(|(_, b)| !b.is_empty()).map(|(to, b)| (to, &b[..])).collect();
        let mut arriving = Vec::new();
        for (from, bytes) in coming.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
            arriving.push(Arriving { from, bytes: vec![0; usize::try_from(bytes).map_err(|_| garbled())?] });
        }
        self.wire.exchange(&sent, &mut arriving, &mut || false)?;
        drop(leaving);
        let mut came = BTreeMap::new();
        let unpacked =
            arriving.into_iter().try_for_each(|Arriving { from, bytes }| self.unpack_all(from, &bytes, &mut came));
        // Until then each object stays on its old rank.
        agree(&*self.wire, unpacked)?;
        for (key, from, to) in moves {
            if *from == rank && !mutant::is("MovedStays") {
                let left = self.here.remove(key);
                debug_assert!(left.is_some(), "an object leaves a rank where it is not");
            }
            if *from != rank || !mutant::is("MoveNotNoted") {
                self.map.insert(*key, *to as u32);
            }
        }
        self.here.append(&mut came);
        Ok(())
    }

    pub(crate) fn pack_into(&self, key: Key, into: &mut Vec<u8>) -> Result<()> {
        let gone = || Error::Internal { what: format!("{} is not where it was", self.name(key)) };
        let held = self.here.get(&key).ok_or_else(gone)?;
        let mut packed = Vec::new();
        let bytes = pack(&*held.object, &mut packed).map_err(|why| fault(&self.name(key), self.rank(), why))? as u64;
        let head = Head { key, measured: held.measured.clone(), is_orphan: held.is_orphan, bytes };
        let head = encode(&head)?;
        into.extend_from_slice(&(head.len() as u64).to_le_bytes());
        into.extend_from_slice(&head);
        into.extend_from_slice(&packed);
        Ok(())
    }

    pub(crate) fn unpack_all(&self, from: usize, mut bytes: &[u8], came: &mut BTreeMap<Key, Held>) -> Result<()> {
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk().ok_or_else(garbled)?;
            let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| garbled())?;
            let (head, rest) = rest.split_at_checked(length).ok_or_else(garbled)?;
            let Head { key, measured, is_orphan, bytes: length } = decode(head)?;
            let length = usize::try_from(length).map_err(|_| garbled())?;
            let (body, rest) = rest.split_at_checked(length).ok_or_else(garbled)?;
            bytes = rest;
            let mut object = self.make(key)?;
            unpack(&mut *object, body)
                .map_err(|why| fault(&self.name(key), self.rank(), format!("it came from rank {from}, and {why}")))?;
            came.insert(key, Held { object, measured, is_orphan });
        }
        Ok(())
    }
}
