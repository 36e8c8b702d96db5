//! The mailbox of one rank: the receives that it waits for, and the messages that it has not received.

use crate::{
    gate::{ANY_RANK, ANY_TAG},
    mutant,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A message's label, by which receives are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub source: u32,
    pub context: u32,
    pub tag: i32,
    pub bytes: u64,
}

/// A receive that no message has matched. `message` is its address in the rank's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Posted {
    pub message: usize,
    pub source: i32,
    pub context: u32,
    pub tag: i32,
}

impl Posted {
    pub fn fits(&self, label: &Label) -> bool {
        self.context == label.context
            && (self.source == ANY_RANK || self.source == label.source as i32)
            && (self.tag == ANY_TAG || self.tag == label.tag)
    }
}

/// The bytes of a message that nobody has received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Body {
    Here(#[serde(with = "serde_bytes")] Vec<u8>),
    /// With its sender, under this number.
    WithSender(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arrived {
    pub label: Label,
    pub body: Body,
}

/// A receive with its bytes on their way: they come in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Coming {
    pub message: usize,
    pub label: Label,
    pub left: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(super) posted: VecDeque<Posted>,
    pub(super) arrived: VecDeque<Arrived>,
    /// Messages that a matched probe took out, by their numbers.
    pub(super) taken: BTreeMap<u64, Arrived>,
    /// Messages of this rank that wait for their receivers: their addresses, by their numbers.
    pub(super) sending: BTreeMap<u64, usize>,
    /// By the sender and its number. None while ranks are saved.
    pub(super) coming: BTreeMap<(u32, u64), Coming>,
    pub(super) last_number: u64,
    /// The bytes in `arrived`.
    pub(super) held_bytes: u64,
    /// Counts completed and arrived messages, and those that the rank had seen at its last wait.
    pub(super) events: u64,
    seen: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedMailbox {
    posted: VecDeque<Posted>,
    arrived: VecDeque<Arrived>,
    taken: BTreeMap<u64, Arrived>,
    sending: BTreeMap<u64, usize>,
    last_number: u64,
    /// The rank has not seen the last event.
    has_news: bool,
}

impl SavedMailbox {
    /// Whether all its messages come from ranks of a job with this number of ranks.
    pub fn is_of(&self, ranks: usize) -> bool {
        self.arrived.iter().chain(self.taken.values()).all(|arrived| (arrived.label.source as usize) < ranks)
    }
}

impl Mailbox {
    /// The first message that arrived and fits.
    pub(super) fn find(&self, receive: &Posted) -> Option<usize> {
        let fits = |arrived: &Arrived| receive.fits(&arrived.label);
        if mutant::is("NewestFirst") {
            return self.arrived.iter().rposition(fits);
        }
        self.arrived.iter().position(fits)
    }

    pub(super) fn take_arrived(&mut self, index: usize) -> Arrived {
        let arrived = self.arrived.remove(index).expect("found just now");
        if let Body::Here(bytes) = &arrived.body {
            self.held_bytes -= bytes.len() as u64;
        }
        arrived
    }

    pub(super) fn keep(&mut self, label: Label, body: Body) {
        if let Body::Here(bytes) = &body {
            self.held_bytes += bytes.len() as u64;
        }
        self.arrived.push_back(Arrived { label, body });
        self.events += 1;
    }

    /// The first receive that the message fits, taken out.
    pub(super) fn take_posted(&mut self, label: &Label) -> Option<Posted> {
        let index = self.posted.iter().position(|posted| posted.fits(label))?;
        self.posted.remove(index)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Whether anything happened since the rank last asked.
    pub fn has_news(&self) -> bool {
        self.events != self.seen
    }

    pub fn see(&mut self) {
        self.seen = self.events;
    }

    pub fn save(&self) -> SavedMailbox {
        debug_assert!(self.coming.is_empty(), "nothing is in flight while ranks are saved");
        SavedMailbox {
            posted: self.posted.clone(),
            arrived: self.arrived.clone(),
            taken: if mutant::is("TakenNotSaved") { BTreeMap::new() } else { self.taken.clone() },
            sending: if mutant::is("WaitingNotSaved") { BTreeMap::new() } else { self.sending.clone() },
            last_number: self.last_number,
            has_news: self.has_news(),
        }
    }

    pub fn bring_back(saved: SavedMailbox) -> Mailbox {
        let bytes = |arrived: &Arrived| if let Body::Here(bytes) = &arrived.body { bytes.len() as u64 } else { 0 };
        Mailbox {
            held_bytes: saved.arrived.iter().map(bytes).sum(),
            posted: saved.posted,
            arrived: saved.arrived,
            taken: saved.taken,
            sending: saved.sending,
            coming: BTreeMap::new(),
            last_number: saved.last_number,
            events: u64::from(saved.has_news),
            seen: 0,
        }
    }
}
