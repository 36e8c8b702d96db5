//! A step: messages are delivered in rounds, until no rank has any.
//!
//! Invariant: a rank leaves a step only when all do, which every rank decides from the words that the ranks swap in
//! each round; an error on one of them ends the step on all.

use crate::{
    index::Key,
    kind::{Kind, fault},
    load::processor_ns,
    mutant,
    objects::{Held, Objects},
    post::{Carried, Message, Parts, Post, To},
    tree::{below, decode, encode, garbled, gather, reduce},
    wire::Arriving,
};
use mainstay_engine::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Number of words that each rank sends to each other: bytes that it sends there, and whether it has work left, or has
/// failed.
const WORDS: usize = 2;
const BUSY: u64 = 1;
const FAILED: u64 = 2;
/// It has made objects that the others do not know.
const FRESH: u64 = 4;
/// It has parts of results.
const PARTS: u64 = 8;
/// An outside request asks to empty a node: only rank 0 knows.
const LEAVE: u64 = 16;
/// The ranks that may hold copies have changed since the last checkpoint; a rank that has replaced a lost one does not
/// know.
const HOLDERS: u64 = 32;

/// Bytes of a message's head: kind, method, index, length, root of a tree or `ONE`.
const HEAD: usize = 28;
const ONE: u32 = u32::MAX;

/// The common knowledge of all ranks once no message is left.
#[derive(Default)]
pub(crate) struct Drained {
    /// Any rank has parts of results.
    pub(crate) has_parts: bool,
    /// A node must be emptied.
    pub(crate) is_to_leave: bool,
    /// Other ranks will hold copies.
    pub(crate) holders_change: bool,
}

impl Objects {
    /// Ends a step: delivers all queued messages, and those that their handlers send, until no rank has any; combines
    /// the results; and balances the load, if it is time. An object's error is returned on all ranks: the step is not
    /// over, and the program goes back to a checkpoint, or ends; all other calls are refused. After an error in
    /// balancing the step is over, and the program may go on. Collective.
    pub fn step(&mut self) -> Result<()> {
        self.check_whole("step")?;
        if self.drain(false)?.has_parts {
            let brought = self.bring_results();
            self.is_torn = brought.is_err();
            brought?;
        } else {
            self.post.set_results(BTreeMap::new());
        }
        self.steps += 1;
        let since = self.since_failure.map(|since| since + 1);
        let after_failure = since.is_some_and(|since| since == self.options.after_failure);
        self.since_failure = since.filter(|_| !after_failure);
        let every = self.options.every > 0 && self.steps.is_multiple_of(self.options.every);
        if after_failure || every {
            self.balance(self.options.strategy)?;
        }
        Ok(())
    }

    /// Delivers until no message is left on any rank. `leave`: rank 0 has a request to empty a node. Collective.
    pub(crate) fn drain(&mut self, leave: bool) -> Result<Drained> {
        let drained = self.deliver_all(leave);
        self.is_torn |= drained.is_err();
        drained
    }

    fn deliver_all(&mut self, leave: bool) -> Result<Drained> {
        let ranks = self.ranks();
        let mut failed = Ok(());
        loop {
            let unknown = self.route();
            let state = self.state(&failed) | if leave { LEAVE } else { 0 };
            let to: Vec<u64> = self.leaving.iter().flat_map(|bytes| [bytes.len() as u64, state]).collect();
            let mut from = vec![0; ranks * WORDS];
            self.wire.swap(&to, &mut from)?;
            let all = from.chunks(WORDS).fold(0, |all, told| all | told[1]);
            if all & FAILED != 0 {
                return self.tell_failure(failed).map(|()| Drained::default());
            }
            if all & FRESH != 0 {
                self.tell_fresh()?;
                continue;
            }
            if all & BUSY == 0 {
                let has = |state| all & state != 0;
                return Ok(Drained { has_parts: has(PARTS), is_to_leave: has(LEAVE), holders_change: has(HOLDERS) });
            }
            failed = unknown.and(self.round(&from)?);
        }
    }

    /// This rank's word for all others.
    fn state(&self, failed: &Result<()>) -> u64 {
        let busy =
            !self.queue.is_empty() || !self.parked.is_empty() || self.leaving.iter().any(|bytes| !bytes.is_empty());
        let states = [
            (busy, BUSY),
            (failed.is_err(), FAILED),
            (!self.fresh.is_empty(), FRESH),
            (self.post.has_parts(), PARTS),
            (self.holders_change, HOLDERS),
        ];
        states.into_iter().filter(|(is_so, _)| *is_so).fold(0, |all, (_, state)| all | state)
    }

    /// Sends the outgoing messages, delivers local ones meanwhile, and then the incoming ones. The inner error comes
    /// from an object here.
    fn round(&mut self, told: &[u64]) -> Result<Result<()>> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let mut leaving = std::mem::replace(&mut self.leaving, vec![Vec::new(); ranks]);
        let each = leaving.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty());
        let sent: Vec<(usize, &[u8])> = each.map(|(to, bytes)| (to, &bytes[..])).collect();
        let mut arriving = Vec::new();
        for (from, told) in told.chunks(WORDS).enumerate().filter(|(from, told)| *from != rank && told[0] > 0) {
            let mut bytes = std::mem::take(&mut self.arrived[from]);
            bytes.resize(usize::try_from(told[0]).map_err(|_| garbled())?, 0);
            arriving.push(Arriving { from, bytes });
        }
        let mut failed = Ok(());
        let queue = std::mem::take(&mut self.queue);
        let Objects { wire, here, kinds, post, .. } = self;
        let mut work = Work { rank, here, kinds, post };
        let mut rest = queue.iter();
        let mut meanwhile = || {
            let Some(message) = rest.next().filter(|_| failed.is_ok()) else { return false };
            failed = work.deliver(message.carried());
            true
        };
        wire.exchange(&sent, &mut arriving, &mut meanwhile)?;
        post.keep(queue);
        leaving.iter_mut().for_each(emptied);
        self.leaving = leaving;
        for Arriving { from, mut bytes } in arriving {
            failed = failed.and_then(|()| self.take_in(from, &bytes));
            emptied(&mut bytes);
            self.arrived[from] = bytes;
        }
        Ok(failed)
    }

    /// Delivers the messages from a rank.
    pub(crate) fn take_in(&mut self, from: usize, bytes: &[u8]) -> Result<()> {
        let Some((epoch, mut rest)) = bytes.split_first_chunk() else { return Err(garbled()) };
        if u64::from_le_bytes(*epoch) != self.epoch && !mutant::is("OlderEpochTaken") {
            // From before a failure: the receivers have gone back since.
            return Ok(());
        }
        while !rest.is_empty() {
            let (message, after) = parse(rest).ok_or_else(garbled)?;
            rest = after;
            if let To::All { root, .. } = message.to {
                if root as usize >= self.ranks() {
                    return Err(garbled());
                }
                self.pass_on(message, root as usize);
            }
            if let To::One(key) = message.to
                && !self.here.contains_key(&key)
            {
                let why =
                    format!("rank {from} has sent it a message, and it is not there: the ranks have different maps");
                return Err(fault(&self.name(key), self.rank(), why));
            }
            let rank = self.rank();
            let Objects { here, kinds, post, .. } = self;
            Work { rank, here, kinds, post }.deliver(message)?;
        }
        Ok(())
    }

    /// Sorts the queued messages by destination. Fails if this rank does not know the destination object, unless
    /// another rank announces that it has just made it.
    fn route(&mut self) -> Result<()> {
        let rank = self.rank();
        for message in std::mem::take(&mut self.parked).into_iter().chain(self.post.take()) {
            match message.to {
                To::One(key) => match self.map.get(&key).copied() {
                    Some(to) if to as usize == rank => self.queue.push_back(message),
                    Some(to) => {
                        self.leave(to as usize, message.carried());
                        self.post.keep([message]);
                    }
                    None => self.parked.push(message),
                },
                To::All { kind, .. } => {
                    let message = Message { to: To::All { kind, root: rank as u32 }, ..message };
                    self.pass_on(message.carried(), rank);
                    self.queue.push_back(message);
                }
            }
        }
        self.parked.first().map_or(Ok(()), |message| Err(self.nowhere(message)))
    }

    fn nowhere(&self, message: &Message) -> Error {
        let To::One(key) = message.to else { return garbled() };
        let (to, method) = (self.name(key), message.method);
        let why = format!("a message to {to} (method {method}), which no rank has made; send to an index that exists");
        match message.from {
            Some(from) => fault(&self.name(from), self.rank(), format!("it has sent {why}")),
            None => Error::argument(format!("objects on rank {}", self.rank()), format!("the program has sent {why}")),
        }
    }

    fn pass_on(&mut self, message: Carried<'_>, root: usize) {
        for to in below(self.rank(), root, self.ranks()).collect::<Vec<_>>() {
            self.leave(to, message);
        }
    }

    fn leave(&mut self, to: usize, message: Carried<'_>) {
        let bytes = &mut self.leaving[to];
        if bytes.is_empty() {
            bytes.extend_from_slice(&self.epoch.to_le_bytes());
        }
        write(message, bytes);
    }

    /// Ends a step after an object has failed on this rank or another: the same error on all. Collective.
    fn tell_failure(&mut self, failed: Result<()>) -> Result<()> {
        self.queue.clear();
        self.leaving.iter_mut().for_each(Vec::clear);
        if matches!(&failed, Err(error) if error.kind() == ErrorKind::GroupFailed) {
            return failed;
        }
        crate::tree::agree(&*self.wire, failed)
    }

    /// Announces the objects that were made since the last time to all ranks. Collective.
    fn tell_fresh(&mut self) -> Result<()> {
        let names = self.kind_names();
        let told = gather(&*self.wire, &(names, std::mem::take(&mut self.fresh)))?;
        same_kinds(&told.iter().map(|(names, _)| names).collect::<Vec<_>>())?;
        for (rank, (_, keys)) in told.into_iter().enumerate() {
            for key in keys {
                if let Some(other) = self.map.insert(key, rank as u32) {
                    let why = format!("rank {other} has made one of this index, too; let one rank make each");
                    return Err(fault(&self.name(key), rank, why));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn kind_names(&self) -> Vec<String> {
        self.kinds.iter().map(|kind| kind.name.clone()).collect()
    }

    /// Combines the contributions to results. Collective.
    fn bring_results(&mut self) -> Result<()> {
        type Contributed = std::result::Result<Parts, u32>;
        let mine: Contributed = Ok(self.post.take_parts());
        let all = reduce(&*self.wire, encode(&mine)?, |low, high| {
            let (low, high): (Contributed, Contributed) = (decode(&low)?, decode(&high)?);
            encode(&low.and_then(|low| unite(low, high?)))
        })?;
        let all: Contributed = decode(&all)?;
        let parts = all.map_err(|number| {
            let why = "its parts have different operations, or not as many values; let all objects contribute alike";
            Error::argument(format!("result {number} over objects"), why)
        })?;
        self.post.set_results(parts.iter().map(|(number, part)| (*number, part.values())).collect());
        Ok(())
    }
}

/// Fails if the same number means different kinds on different ranks.
pub(crate) fn same_kinds(told: &[&Vec<String>]) -> Result<()> {
    let Some(other) = told.iter().position(|names| *names != told[0]) else { return Ok(()) };
    let why = format!(
        "rank 0 has registered {}, rank {other} {}; register the same kinds in the same order on all ranks",
        told[0].join(", "),
        told[other].join(", ")
    );
    Err(Error::argument("kinds of objects", why))
}

/// Merges both; fails with the number of a result that has mismatched parts.
pub(crate) fn unite(mut all: Parts, more: Parts) -> std::result::Result<Parts, u32> {
    for (number, part) in more {
        let is_one = match all.get_mut(&number) {
            Some(mine) => mine.add_all(&part),
            None => all.insert(number, part).is_none(),
        };
        if !is_one {
            return Err(number);
        }
    }
    Ok(all)
}

/// The data needed to call a handler.
struct Work<'a> {
    rank: usize,
    here: &'a mut BTreeMap<Key, Held>,
    kinds: &'a [Kind],
    post: &'a Post,
}

impl Work<'_> {
    /// Calls the handlers of the objects here that the message is for.
    fn deliver(&mut self, message: Carried<'_>) -> Result<()> {
        let Work { rank, here, kinds, post } = self;
        let call = |key: Key, held: &mut Held| {
            let begun = processor_ns();
            post.begin_work(Some(key));
            let done = held.object.receive(message.method, message.bytes, post);
            let (told, sent) = post.end_work();
            held.measured.load += told.unwrap_or_else(|| processor_ns().saturating_sub(begun));
            for (to, bytes) in sent {
                *held.measured.sent.entry(to).or_default() += bytes;
            }
            done.map_err(|error| match error.kind() {
                ErrorKind::GroupFailed => error,
                _ => {
                    let object = kinds.get(key.kind as usize).map_or_else(String::new, |kind| kind.object(key.id));
                    let method = held.object.method(message.method);
                    fault(&object, *rank, format!("its method {method} failed: {error}"))
                }
            })
        };
        match message.to {
            To::One(key) => here.get_mut(&key).map_or(Ok(()), |held| call(key, held)),
            To::All { kind, .. } => {
                let all = Key { kind, id: 0 }..=Key { kind, id: u64::MAX };
                here.range_mut(all).try_for_each(|(key, held)| call(*key, held))
            }
        }
    }
}

/// Keeps memory for reuse, unless it is very large.
fn emptied(bytes: &mut Vec<u8>) {
    const KEPT_BYTES_MAX: usize = 16 << 20;
    bytes.clear();
    bytes.shrink_to(KEPT_BYTES_MAX);
}

pub(crate) fn write(message: Carried<'_>, into: &mut Vec<u8>) {
    let (kind, id, root) = match message.to {
        To::One(Key { kind, id }) => (kind, id, ONE),
        To::All { kind, root } => (kind, 0, root),
    };
    into.extend_from_slice(&kind.to_le_bytes());
    into.extend_from_slice(&message.method.to_le_bytes());
    into.extend_from_slice(&id.to_le_bytes());
    into.extend_from_slice(&(message.bytes.len() as u64).to_le_bytes());
    into.extend_from_slice(&root.to_le_bytes());
    into.extend_from_slice(message.bytes);
}

/// The first message, and the bytes after it; `None` if it contradicts itself.
fn parse(bytes: &[u8]) -> Option<(Carried<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let word = |at: usize| head[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let long = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let (kind, method, id, length, root) = (word(0)?, word(4)?, long(8)?, long(16)?, word(24)?);
    let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let to = if root == ONE { To::One(Key { kind, id }) } else { To::All { kind, root } };
    Some((Carried { to, method, bytes: body }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_what_is_cut_short_is_refused() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let key = Key { kind: random.u32(..), id: random.u64(..) };
            let to = if random.bool() { To::One(key) } else { To::All { kind: key.kind, root: random.u32(..9) } };
            let bytes: Vec<u8> = (0..random.usize(..50)).map(|_| random.u8(..)).collect();
            let message = Carried { to, method: random.u32(..), bytes: &bytes };
            let mut written = Vec::new();
            write(message, &mut written);
            let whole = written.clone();
            written.extend_from_slice(b"more");
            assert_eq!(parse(&written), Some((message, &b"more"[..])));
            assert_eq!(parse(&whole[..random.usize(..whole.len())]), None);
        }
    }
}
