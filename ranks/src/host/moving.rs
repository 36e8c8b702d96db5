//! Moving ranks between processes while the job runs: for an even load, or to leave a node.
//!
//! Invariants: ranks move only when nothing is in flight and every rank is at the gate. All processes know the place of
//! every rank, and change it together. A rank is on one process.

use super::job::Job;
use crate::{
    Error, Result,
    address::PAGE,
    memory,
    message::{Mailbox, Post},
    rank::{Rank, SavedPair, saved_pair},
    save::{check_fits, map_areas, pair_from_bytes, pair_to_bytes, protect_areas, saved_parts},
};
use mainstay_engine::HandoverCounts;
use mainstay_objects::{
    Strategy,
    balance::{self, Weighed},
    graph,
};
use serde::{Deserialize, Serialize};
use std::{
    str::FromStr,
    time::{Duration, Instant},
};

/// When ranks move, and how the places are chosen.
#[derive(Debug, Clone, Copy)]
pub struct Balance {
    pub strategy: Strategy,
    /// The time between two looks at the load.
    pub every: Duration,
}

impl FromStr for Balance {
    type Err = Error;

    /// `STRATEGY:SECONDS`, as in `refine:300`.
    fn from_str(text: &str) -> Result<Balance> {
        let wrong = || Error::Refused(format!("balance {text:?}: it is no STRATEGY:SECONDS, such as refine:300"));
        let (strategy, seconds) = text.split_once(':').ok_or_else(wrong)?;
        let every = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let every = every.filter(|every| !every.is_zero()).ok_or_else(wrong)?;
        Ok(Balance { strategy: strategy.parse()?, every })
    }
}

/// A process, as all others know it while ranks leave a node.
#[derive(Serialize, Deserialize)]
struct Site {
    name: String,
    host: String,
    /// The lowest process on its node.
    lowest: usize,
    is_given_up: bool,
    /// On process 0: the node that a request names.
    asked: Option<String>,
}

impl Site {
    fn is_on(&self, node: &str) -> bool {
        // For nodes with the same name, `mainstay status` prints the lowest rank too.
        [&*self.name, &*self.host].contains(&node) || format!("{}/{}", self.name, self.lowest) == node
    }
}

/// The parts of a moving rank, in the order in which they are sent. Parts of ranks from other processes may arrive between
/// them.
#[derive(Serialize, Deserialize)]
enum Part<'a> {
    Record(#[serde(with = "serde_bytes")] &'a [u8]),
    Memory {
        rank: u32,
        address: u64,
        #[serde(with = "serde_bytes")]
        bytes: &'a [u8],
    },
    End {
        rank: u32,
    },
}

/// A piece of memory of a moving rank has at most this many bytes.
const PIECE: usize = 1 << 20;

impl Job<'_> {
    /// Moves ranks if the time for it has come. Between a checkpoint's drain and the next turn. Collective.
    pub(super) fn balance(&mut self, balance: Balance) -> Result<()> {
        let (places, loads) = self.loads()?;
        let open = vec![true; self.post.processes()];
        let moved = self.place_anew(balance.strategy, &places, &loads, &open)?;
        if moved > 0 {
            self.session.remark(&format!("{moved} of {} ranks moved, for an even load", places.len()));
        }
        self.ranks.iter_mut().for_each(|rank| rank.busy = Duration::ZERO);
        self.post.traffic.clear();
        self.balanced_at = Instant::now();
        Ok(())
    }

    /// All ranks leave the node that a request names, if one does. Collective, before a checkpoint.
    pub(super) fn leave_node(&mut self) -> Result<()> {
        let (name, host, lowest) = self.session.node()?;
        let asked = self.session.node_to_leave()?;
        let mine = Site { name, host, lowest, is_given_up: self.is_given_up, asked };
        let sites: Vec<Site> = self.post.gather(&mine)?;
        let Some(node) = sites.first().and_then(|first| first.asked.clone()) else { return Ok(()) };
        let open: Vec<bool> = sites.iter().map(|site| !site.is_on(&node) && !site.is_given_up).collect();
        let on_node = sites.iter().filter(|site| site.is_on(&node)).count();
        let refused = match () {
            () if on_node == 0 => Some(format!("no process runs on node {node}")),
            () if !open.contains(&true) => Some("no node would be left to run on".to_owned()),
            () => None,
        };
        if let Some(why) = refused {
            return Ok(self.session.has_left(Err(why))?);
        }
        self.is_given_up = !open[self.post.process()];
        let (places, loads) = self.loads()?;
        let moved = self.place_anew(Strategy::Refine, &places, &loads, &open)?;
        let handed: HandoverCounts = self.session.hold_copies(!self.is_given_up)?;
        if self.post.process() == 0 {
            self.session.has_left(Ok((moved, handed)))?;
        }
        Ok(())
    }

    /// The process of each rank, and the time that it has worked. Collective.
    fn loads(&mut self) -> Result<(Vec<usize>, Vec<u64>)> {
        let mut words = vec![0; self.post.slots().ranks];
        for rank in &self.ranks {
            words[rank.number as usize] = rank.busy.as_micros() as u64;
        }
        self.post.sum(&mut words)?;
        let places = (0..words.len()).map(|rank| self.post.process_of(rank as u32) as usize).collect();
        Ok((places, words))
    }

    /// Moves ranks to the processes that the strategy chooses among those that are `open`. Returns their number.
    /// Process 0 chooses, because another machine could choose otherwise. Collective.
    fn place_anew(&mut self, strategy: Strategy, places: &[usize], loads: &[u64], open: &[bool]) -> Result<u64> {
        let traffic: Vec<(u32, u32, u64)> =
            self.post.traffic.iter().map(|((from, to), bytes)| (*from, *to, *bytes)).collect();
        let traffic = match strategy {
            Strategy::Graph => self.post.gather(&traffic)?.concat(),
            _ => Vec::new(),
        };
        let mut chosen = vec![0; places.len()];
        if self.post.process() == 0 {
            let weighed =
                places.iter().zip(loads).map(|(rank, load)| Weighed { load: *load, rank: *rank, is_orphan: false });
            let weighed: Vec<Weighed> = weighed.collect();
            let sent: Vec<(usize, usize, u64)> =
                traffic.iter().map(|(from, to, bytes)| (*from as usize, *to as usize, *bytes)).collect();
            let placed = match strategy {
                Strategy::Graph => graph::place(&weighed, &sent, open)?,
                other => balance::place(other, &weighed, open),
            };
            chosen = placed.into_iter().map(|process| process as u64).collect();
        }
        self.post.sum(&mut chosen)?;
        let moves = (0..places.len()).filter(|rank| chosen[*rank] != places[*rank] as u64);
        let moves: Vec<(u32, u32)> = moves.map(|rank| (rank as u32, chosen[rank] as u32)).collect();
        self.move_ranks(&moves)?;
        Ok(moves.len() as u64)
    }

    /// Moves each of these ranks to a process; the same list on all processes. Collective.
    fn move_ranks(&mut self, moves: &[(u32, u32)]) -> Result<()> {
        let me = self.post.process() as u32;
        for (number, to) in moves {
            if let Some(at) = self.ranks.iter().position(|rank| rank.number == *number) {
                let rank = self.ranks.remove(at);
                self.saver.give_up(self.session, *number)?;
                send(rank, *to, &mut self.post)?;
            }
        }
        self.post.drain()?;
        for part in self.post.parts() {
            self.take_part(&part)?;
        }
        // No rank runs before every process has its own: they may use the same files.
        self.post.sum(&mut [0])?;
        for (number, to) in moves {
            self.post.place(*number, *to);
            if *to == me && !self.ranks.iter().any(|rank| rank.number == *number) {
                return Err(Error::Refused(format!("rank {number} has not arrived")));
            }
        }
        self.ranks.sort_by_key(|rank| rank.number);
        Ok(())
    }

    /// Takes in a part of a rank that moves here.
    fn take_part(&mut self, bytes: &[u8]) -> Result<()> {
        let garbled = |_| Error::Refused("a part of a rank that moves cannot be read".to_owned());
        match postcard::from_bytes::<Part>(bytes).map_err(garbled)? {
            Part::Record(record) => {
                let pair = pair_from_bytes(record)?;
                check_fits(&pair, pair.rank.number, self.post.slots())?;
                let slot = self.post.slots().slot(pair.rank.number as usize);
                map_areas(slot, &pair.rank)?;
                self.arriving.insert(pair.rank.number, pair);
            }
            Part::Memory { rank, address, bytes } => {
                if !self.arriving.contains_key(&rank) {
                    return Err(Error::Refused("memory of an unknown rank arrives".to_owned()));
                }
                let slot = self.post.slots().slot(rank as usize);
                memory::write(slot, address as usize, bytes)
                    .map_err(|error| Error::system("the memory of a rank", error))?;
            }
            Part::End { rank } => {
                if let Some(SavedPair { rank, mailbox }) = self.arriving.remove(&rank) {
                    let slot = self.post.slots().slot(rank.number as usize);
                    protect_areas(slot, &rank)?;
                    self.post.enter(rank.number, Mailbox::bring_back(mailbox));
                    self.ranks.push(Rank::bring_back(slot, rank)?);
                }
            }
        }
        Ok(())
    }
}

/// Sends a rank to another process, and gives its slot back. Pages of zeros are not sent.
fn send(mut rank: Rank, to: u32, post: &mut Post) -> Result<()> {
    let slot = rank.system.slot;
    let mailbox = post.leave(rank.number).ok_or_else(|| Error::Refused("a rank has no mailbox".to_owned()))?;
    let pair = saved_pair(&mut rank, &mailbox)?;
    let record = pair_to_bytes(&pair)?;
    let mut tell = |part: &Part| {
        let bytes = postcard::to_stdvec(part).map_err(|error| Error::Refused(format!("a part of a rank: {error}")))?;
        post.send_part(to, &bytes)
    };
    tell(&Part::Record(&record))?;
    for part in saved_parts(slot, &pair.rank) {
        for begin in part.clone().step_by(PIECE) {
            let bytes = PIECE.min(part.end - begin);
            memory::with_bytes(slot, begin, bytes, |bytes| {
                used(bytes).try_for_each(|(at, bytes)| {
                    tell(&Part::Memory { rank: rank.number, address: (begin + at) as u64, bytes })
                })
            })
            .map_err(|error| Error::system("the memory of a rank", error))??;
        }
    }
    tell(&Part::End { rank: rank.number })?;
    memory::clear(slot).map_err(|error| Error::system("the slot of a rank that has left", error))
}

/// The runs of pages that are not all zero.
fn used(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_used = |page: &[u8]| page.iter().any(|byte| *byte != 0);
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_used(&bytes[at..bytes.len().min(at + PAGE)]) {
            at += PAGE;
        }
        let begin = at;
        while at < bytes.len() && is_used(&bytes[at..bytes.len().min(at + PAGE)]) {
            at += PAGE;
        }
        let end = at.min(bytes.len());
        (begin < end).then(|| (begin, &bytes[begin..end]))
    })
}
