//! Moving objects: they are packed, sent, and unpacked where they go.
//!
//! What must hold: an object leaves its rank only once all ranks know that every object could be packed; a failure
//! meanwhile loses objects, and the program goes back to a checkpoint.

use crate::{
    balance::{Strategy, Weighed, place},
    index::Key,
    kind::{fault, pack, unpack},
    objects::{Held, Objects},
    tree::{agree, garbled, gather},
    wire::Arriving,
};
use mainstay_engine::{Error, Result};

/// What moving objects came to; loads in the units in which they are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balanced {
    /// How many objects moved.
    pub moved: u64,
    /// Of the busiest rank before and after, and the average of all ranks that may have any.
    pub busiest_before: u64,
    pub busiest: u64,
    pub average: u64,
}

/// Kind, index, load, orphan, bytes: in front of a packed object.
const HEAD: usize = 29;

impl Objects {
    /// Moves objects by `strategy`, by what each has worked since the last time. Between two steps. Collective.
    pub fn balance(&mut self, strategy: Strategy) -> Result<Balanced> {
        let open = vec![true; self.ranks()];
        self.place_on(strategy, &open)
    }

    /// Moves all objects off the ranks that are `given_up` on any rank, and balances the others by `Refine`: for a node that
    /// is about to fail. All ranks name the same, and save afterwards, so that copies leave that node, too. Collective.
    pub fn evacuate(&mut self, given_up: &[usize]) -> Result<Balanced> {
        let told = gather(&*self.wire, &given_up.to_vec())?.concat();
        let open: Vec<bool> = (0..self.ranks()).map(|rank| !told.contains(&rank)).collect();
        if !open.contains(&true) {
            return Err(Error::argument("evacuate", "no rank would be left to have objects; name fewer ranks"));
        }
        self.place_on(Strategy::Refine, &open)
    }

    fn place_on(&mut self, strategy: Strategy, open: &[bool]) -> Result<Balanced> {
        self.drain()?;
        let mine: Vec<(Key, u64, bool)> =
            self.here.iter().map(|(key, held)| (*key, held.load, held.is_orphan)).collect();
        let told = gather(&*self.wire, &mine)?;
        let mut all: Vec<(Key, Weighed)> = Vec::new();
        for (rank, objects) in told.into_iter().enumerate() {
            let weighed = |(key, load, is_orphan)| (key, Weighed { load, rank, is_orphan });
            all.extend(objects.into_iter().map(weighed));
        }
        all.sort_unstable_by_key(|(key, _)| *key);
        let weighed: Vec<Weighed> = all.iter().map(|(_, weighed)| *weighed).collect();
        let placed = place(strategy, &weighed, open);
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
        let balanced = Balanced {
            moved: moves.len() as u64,
            busiest_before: busiest(&|at| weighed[at].rank),
            busiest: busiest(&|at| placed[at]),
            average: weighed.iter().map(|object| object.load).sum::<u64>() / count,
        };
        self.migrate(&moves)?;
        for held in self.here.values_mut() {
            // What was long ago counts less and less.
            held.load /= 2;
            held.is_orphan = false;
        }
        Ok(balanced)
    }

    /// Moves each of these from one rank to another; the same on all ranks. Collective.
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
        self.wire.exchange(&sent, &mut arriving, &mut || ())?;
        for (key, from, to) in moves {
            if *from == rank {
                self.here.remove(key);
            }
            self.map.insert(*key, *to as u32);
        }
        let unpacked = arriving.iter().try_for_each(|Arriving { from, bytes }| self.unpack_all(*from, bytes));
        agree(&*self.wire, unpacked)
    }

    fn pack_into(&self, key: Key, into: &mut Vec<u8>) -> Result<()> {
        let gone = || Error::Internal { what: format!("{} is not where it was", self.name(key)) };
        let held = self.here.get(&key).ok_or_else(gone)?;
        let at = into.len();
        into.extend_from_slice(&key.kind.to_le_bytes());
        into.extend_from_slice(&key.id.to_le_bytes());
        into.extend_from_slice(&held.load.to_le_bytes());
        into.push(u8::from(held.is_orphan));
        into.extend_from_slice(&[0; 8]);
        let bytes = pack(&*held.object, into).map_err(|why| fault(&self.name(key), self.rank(), why))?;
        into[at + HEAD - 8..at + HEAD].copy_from_slice(&(bytes as u64).to_le_bytes());
        Ok(())
    }

    fn unpack_all(&mut self, from: usize, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(garbled)?;
            let long = |at: usize| head[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            let kind = head[..4].try_into().map_or(0, u32::from_le_bytes);
            let (key, load, is_orphan) = (Key { kind, id: long(4) }, long(12), head[20] != 0);
            let length = usize::try_from(long(21)).map_err(|_| garbled())?;
            let (body, rest) = rest.split_at_checked(length).ok_or_else(garbled)?;
            bytes = rest;
            let mut object = self.make(key)?;
            unpack(&mut *object, body)
                .map_err(|why| fault(&self.name(key), self.rank(), format!("it came from rank {from}, and {why}")))?;
            self.here.insert(key, Held { object, load, is_orphan });
        }
        Ok(())
    }
}
