//! Saving objects: an index of them, and their packed bytes, one after another, as two streams of this rank's shard.
//!
//! Invariant: no message is in flight; if an object cannot be packed, no rank has saved anything.

use crate::{
    deliver::Drained,
    index::Key,
    kind::{fault, pack},
    mutant,
    objects::Objects,
    tree::{agree, gather},
};
use mainstay_engine::{Error, HandoverCounts, Result, Session, count};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub(crate) const INDEX: &str = "objects/index";
pub(crate) const DATA: &str = "objects/data";
/// Number of nodes that are named if none is the requested one.
const NAMED_MAX: usize = 20;
/// Bytes packed at once, so that memory for a few objects is enough.
const AT_ONCE: usize = 4 << 20;

/// The list of a rank's saved objects.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Index {
    /// The names of kinds, by number.
    pub(crate) kinds: Vec<String>,
    pub(crate) steps: u64,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) key: Key,
    /// In the stream of this rank's shard.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) load: u64,
}

impl Objects {
    /// Delivers the messages in flight, and saves all objects, with the protected regions of `session`, as the next
    /// revision; returns its number at t2, as `Session::checkpoint`. If an object cannot be packed, nothing is saved,
    /// and the error on all ranks names the object. If there is a request to empty a node (`mainstay evacuate`), all
    /// objects leave it first, and so do the copies that it holds. Collective.
    pub fn checkpoint(&mut self, session: &mut Session) -> Result<u64> {
        self.check_whole("checkpoint")?;
        let node = session.node_to_leave()?;
        let drained = if mutant::is("MessagesNotSaved") { Drained::default() } else { self.drain(node.is_some())? };
        self.holders_change = drained.holders_change;
        let left = if drained.is_to_leave { Some(self.leave_node(session, node)?) } else { None };
        let mut handed = HandoverCounts::default();
        if self.holders_change {
            handed = session.hold_copies(!self.is_given_up)?;
            self.holders_change = false;
        }
        if let Some(left) = left.filter(|_| self.rank() == 0) {
            session.has_left(left.map(|objects| (objects, handed)))?;
        }
        self.save(session)
    }

    /// All objects leave the node named on rank 0. Returns their number, or why they stay. Collective.
    fn leave_node(&mut self, session: &mut Session, node: Option<String>) -> Result<std::result::Result<u64, String>> {
        let told = gather(&*self.wire, &(node, session.node()?, self.is_given_up))?;
        let node = told.first().and_then(|(node, ..)| node.clone()).unwrap_or_default();
        let is_on = |name: &str, host: &str, lowest: usize| {
            // For nodes with the same name, `mainstay status` prints the lowest rank too.
            [name, host].contains(&node.as_str()) || format!("{name}/{lowest}") == node
        };
        let (mut on_node, mut ranks, mut leaving) = (0, Vec::new(), 0);
        for (rank, (_, (name, host, lowest), is_given_up)) in told.iter().enumerate() {
            let leaves = is_on(name, host, *lowest);
            on_node += usize::from(leaves);
            if leaves {
                leaving += self.map.values().filter(|on| **on as usize == rank).count() as u64;
            }
            // Ranks of nodes that were emptied before have none either.
            ranks.extend((leaves || *is_given_up).then_some(rank));
        }
        Ok(match on_node {
            0 => {
                let names: BTreeSet<&str> = told.iter().map(|(_, (name, ..), _)| name.as_str()).collect();
                let names = names.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
                Err(format!("no rank of the job is on node {node}; the job's nodes are: {names}"))
            }
            all if all == self.ranks() => Err(format!(
                "node {node} has all {}: there is no other for the objects to go to",
                count(all as u64, "rank")
            )),
            _ if ranks.len() == self.ranks() => {
                Err(format!("all nodes other than {node} were emptied before: there is none for the objects to go to"))
            }
            _ => match self.evacuate(&ranks) {
                Err(error @ Error::GroupFailed { .. }) => return Err(error),
                Err(error) => Err(error.to_string()),
                Ok(_) => Ok(leaving),
            },
        })
    }

    pub(crate) fn save(&mut self, session: &mut Session) -> Result<u64> {
        let is_empty = self.queue.is_empty() && self.parked.is_empty() && self.leaving.iter().all(Vec::is_empty);
        debug_assert!(is_empty, "a message is in flight");
        self.protect_mark(session)?;
        let sized = self.index();
        let index = agree(&*self.wire, sized)?;
        let told = crate::tree::encode(&index)?;
        let Some(saver) = self.saver.take() else {
            return Err(Error::Internal { what: "objects that no session knows are saved".to_owned() });
        };
        let saved = session.save_as(&saver, |session| self.save_indexed(session, &index, &told));
        self.saver = Some(saver);
        saved
    }

    fn save_indexed(&mut self, session: &mut Session, index: &Index, told: &[u8]) -> Result<u64> {
        let bytes = index.rows.last().map_or(0, |row| row.offset + row.bytes);
        let begun = session.begin(bytes + told.len() as u64);
        if let Err(error @ Error::GroupFailed { .. }) = begun {
            return Err(error);
        }
        begun?;
        let written = self.write(session, index, told);
        if let Err(error) = agree(&*self.wire, written) {
            if error.kind() != mainstay_engine::ErrorKind::GroupFailed {
                session.abandon()?;
            }
            return Err(error);
        }
        let number = session.checkpoint()?;
        if self.saved_as.is_none_or(|(_, rank)| rank as usize != self.rank()) {
            self.saved_as = Some((number, self.rank() as u32));
        }
        Ok(number)
    }

    /// The list of objects to save, with their sizes.
    fn index(&self) -> Result<Index> {
        let (mut rows, mut offset) = (Vec::with_capacity(self.here.len()), 0);
        for (key, held) in &self.here {
            let bytes = held.object.bytes();
            let bytes = bytes.map_err(|error| {
                fault(&self.name(*key), self.rank(), format!("its size could not be determined: {error}"))
            })? as u64;
            rows.push(Row { key: *key, offset, bytes, load: held.measured.load });
            let too_much = || fault(&self.name(*key), self.rank(), format!("its reported size is {bytes} bytes"));
            offset = offset.checked_add(bytes).ok_or_else(too_much)?;
        }
        Ok(Index { kinds: self.kind_names(), steps: self.steps, rows })
    }

    fn write(&self, session: &mut Session, index: &Index, told: &[u8]) -> Result<()> {
        session.write(INDEX, 0, told)?;
        let (mut packed, mut at) = (Vec::new(), 0);
        for (held, row) in self.here.values().zip(&index.rows) {
            let sized = pack(&*held.object, &mut packed);
            let bytes = sized.map_err(|why| fault(&self.name(row.key), self.rank(), why))? as u64;
            if bytes != row.bytes {
                let why = format!("it was {} bytes when it was sized, and is {bytes} now that it is packed", row.bytes);
                return Err(fault(&self.name(row.key), self.rank(), why));
            }
            if packed.len() >= AT_ONCE {
                session.write(DATA, at, &packed)?;
                at += packed.len() as u64;
                packed.clear();
            }
        }
        session.write(DATA, at, &packed)
    }
}
