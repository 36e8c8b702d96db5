//! The post of a process: delivers the messages of its ranks, here and to other processes.

use super::{
    Wire,
    hosts::Control,
    mailbox::{Arrived, Body, Coming, Label, Mailbox, Posted},
};
use crate::{
    Error, Result,
    gate::{Message, SYNCHRONOUS},
    memory, mutant,
};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::address::{Slot, Slots};

/// The simulation has lower limits, so that small messages use every path.
const SMALL: bool = cfg!(feature = "simulation");
/// A message of more bytes waits with its sender until its receiver is ready.
const SHORT_MAX: u64 = if SMALL { 600 } else { 64 << 10 };
/// A receiver that holds more bytes of messages that it has not received gets no more of them: they wait with the sender.
const HELD_MAX: u64 = if SMALL { 4000 } else { 16 << 20 };
/// A long message between processes goes in pieces of this size.
const PIECE: usize = if SMALL { 500 } else { 4 << 20 };

/// The kinds of messages between processes.
pub(super) mod kind {
    /// A whole message.
    pub const SHORT: u32 = 1;
    /// The label of a message that waits with its sender.
    pub const LONG: u32 = 2;
    /// The receiver is ready for the long message `number`.
    pub const READY: u32 = 3;
    /// A piece of a long message.
    pub const PIECE: u32 = 4;
    /// The rank `source` has received `bytes` bytes of short messages of this process.
    pub const RECEIVED: u32 = 5;
    /// A word from one host to another: `number` is the word.
    pub const CONTROL: u32 = 6;
    /// A part of a rank that moves.
    pub const PART: u32 = 7;
}

/// A message of each kind from rank 1 to rank 0, with this body.
#[cfg(feature = "fuzzing")]
pub(crate) fn each_kind(body: &[u8]) -> Vec<Vec<u8>> {
    let head = |kind| Head {
        kind,
        reserved: 0,
        source: 1,
        destination: 0,
        context: 2,
        tag: 3,
        bytes: body.len() as u64,
        number: 4,
        offset: 0,
    };
    (kind::SHORT..=kind::PART).map(|kind| [head(kind).as_bytes(), body].concat()).collect()
}

#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub(super) struct Head {
    pub kind: u32,
    pub reserved: u32,
    pub source: u32,
    pub destination: u32,
    pub context: u32,
    pub tag: i32,
    pub bytes: u64,
    pub number: u64,
    pub offset: u64,
}

impl Head {
    fn label(&self) -> Label {
        Label { source: self.source, context: self.context, tag: self.tag, bytes: self.bytes }
    }
}

/// The post. `boxes` has the mailboxes of the ranks that are here.
pub(crate) struct Post {
    pub(super) wire: Box<dyn Wire>,
    pub(super) slots: Slots,
    pub(super) boxes: BTreeMap<u32, Mailbox>,
    /// The process of each rank.
    pub(super) places: Vec<u32>,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Bytes of short messages that ranks elsewhere have not received yet.
    pub(super) underway: BTreeMap<u32, u64>,
    /// Bytes of short messages that a rank here has received and its sender's process does not know of.
    pub(super) unannounced: BTreeMap<(u32, u32), u64>,
    pub(super) controls: Vec<Control>,
    pub(super) parts: Vec<Vec<u8>>,
    /// Bytes that each rank here has sent to each other rank.
    pub traffic: BTreeMap<(u32, u32), u64>,
}

impl Post {
    pub fn new(wire: Box<dyn Wire>, slots: Slots) -> Post {
        Post {
            wire,
            slots,
            boxes: BTreeMap::new(),
            places: Vec::new(),
            sent: 0,
            received: 0,
            underway: BTreeMap::new(),
            unannounced: BTreeMap::new(),
            controls: Vec::new(),
            parts: Vec::new(),
            traffic: BTreeMap::new(),
        }
    }

    pub fn process(&self) -> usize {
        self.wire.process()
    }

    pub fn processes(&self) -> usize {
        self.wire.processes()
    }

    pub fn slots(&self) -> Slots {
        self.slots
    }

    /// Begins anew, with other processes and no message in flight: `places` has the process of each rank.
    pub fn begin(&mut self, slots: Slots, places: Vec<u32>) {
        (self.slots, self.places) = (slots, places);
        (self.sent, self.received) = (0, 0);
        self.boxes.clear();
        self.underway.clear();
        self.unannounced.clear();
        self.controls.clear();
        self.parts.clear();
        self.traffic.clear();
    }

    /// A rank moves to another process. Nothing is in flight.
    pub fn place(&mut self, rank: u32, process: u32) {
        if self.boxes.contains_key(&rank) || !mutant::is("MovedNotPlaced") {
            self.places[rank as usize] = process;
        }
    }

    pub fn process_of(&self, rank: u32) -> u32 {
        self.places[rank as usize]
    }

    pub fn enter(&mut self, rank: u32, mailbox: Mailbox) {
        self.boxes.insert(rank, mailbox);
    }

    pub fn leave(&mut self, rank: u32) -> Option<Mailbox> {
        self.boxes.remove(&rank)
    }

    pub fn mailbox(&mut self, rank: u32) -> &mut Mailbox {
        self.boxes.get_mut(&rank).expect("a rank of this process has a mailbox")
    }

    /// Rank `from` sends the message at `address` in its memory.
    pub fn send(&mut self, from: u32, address: usize) -> Result<()> {
        let message = self.message(from, address)?;
        let to = u32::try_from(message.peer).ok().filter(|to| (*to as usize) < self.slots.ranks);
        let to = to
            .ok_or_else(|| Error::Refused(format!("rank {from} sends to rank {}, which there is not", message.peer)))?;
        let label = Label { source: from, context: message.context, tag: message.tag, bytes: message.bytes };
        *self.traffic.entry((from, to)).or_default() += message.bytes;
        let is_long = message.bytes > SHORT_MAX || message.flags & SYNCHRONOUS != 0;
        if let Some(mailbox) = self.boxes.get_mut(&to) {
            if let Some(posted) = mailbox.take_posted(&label) {
                self.copy((from, message.data as usize), to, posted.message, label)?;
                return self.is_sent(from, address);
            }
            if !is_long && mailbox.held_bytes < HELD_MAX {
                let bytes = self.bytes(from, message.data as usize, message.bytes)?;
                self.mailbox(to).keep(label, Body::Here(bytes));
                return self.is_sent(from, address);
            }
            let number = self.let_wait(from, address);
            self.mailbox(to).keep(label, Body::WithSender(number));
            return Ok(());
        }
        if !is_long && self.underway.get(&to).is_none_or(|bytes| *bytes < HELD_MAX) {
            *self.underway.entry(to).or_default() += message.bytes;
            self.send_short(label, to, message.data as usize)?;
            return self.is_sent(from, address);
        }
        let number = self.let_wait(from, address);
        self.send_head(self.process_of(to), Head { number, ..self.head(kind::LONG, label, to) }, &[])
    }

    /// Rank `rank` starts to receive into the message at `address`.
    pub fn receive(&mut self, rank: u32, address: usize) -> Result<()> {
        let message = self.message(rank, address)?;
        let posted = posted(&message, address);
        let mailbox = self.mailbox(rank);
        match mailbox.find(&posted) {
            Some(index) => {
                let arrived = mailbox.take_arrived(index);
                self.receive_arrived(rank, address, arrived)
            }
            None => {
                mailbox.posted.push_back(posted);
                Ok(())
            }
        }
    }

    /// Fills in the label of the first message that fits. `takes`: takes it out of the queue.
    pub fn probe(&mut self, rank: u32, address: usize, takes: bool) -> Result<()> {
        let mut message = self.message(rank, address)?;
        let mailbox = self.mailbox(rank);
        let found = mailbox.find(&posted(&message, address));
        message.done = found.is_some().into();
        if let Some(index) = found {
            let label = mailbox.arrived[index].label;
            (message.source, message.arrived_tag) = (label.source as i32, label.tag);
            message.arrived_bytes = label.bytes;
            if takes {
                let number = mailbox.number();
                let arrived = mailbox.take_arrived(index);
                mailbox.taken.insert(number, arrived);
                message.taken = number;
            }
        }
        self.put(rank, address, &message)
    }

    /// Starts to receive the message that a probe took.
    pub fn receive_taken(&mut self, rank: u32, address: usize) -> Result<()> {
        let message = self.message(rank, address)?;
        let arrived = self.mailbox(rank).taken.remove(&message.taken);
        let arrived =
            arrived.ok_or_else(|| Error::Refused(format!("rank {rank} receives a message that it has not")))?;
        self.receive_arrived(rank, address, arrived)
    }

    /// Takes back a receive. False: a message has matched it.
    pub fn withdraw(&mut self, rank: u32, address: usize) -> bool {
        let posted = &mut self.mailbox(rank).posted;
        let before = posted.len();
        posted.retain(|one| one.message != address);
        posted.len() < before
    }

    /// Takes all messages from other processes that have arrived. False: there was none.
    pub fn poll(&mut self) -> Result<bool> {
        let mut any = false;
        loop {
            let mut came = None;
            // The bytes are the wire's until its next call.
            let mut take = |from: usize, bytes: &[u8]| came = Some((from, bytes.to_vec()));
            if !self.wire.receive(&mut take)? {
                return Ok(any);
            }
            if let Some((from, bytes)) = came {
                any = true;
                self.received += 1;
                self.take(from, &bytes)?;
            }
        }
    }

    fn take(&mut self, from: usize, bytes: &[u8]) -> Result<()> {
        let Ok((head, body)) = Head::read_from_prefix(bytes) else { return Ok(()) };
        let is_of_ranks = [kind::SHORT, kind::LONG, kind::READY, kind::PIECE].contains(&head.kind);
        if is_of_ranks && !(self.boxes.contains_key(&head.destination) && (head.source as usize) < self.places.len()) {
            let Head { source, destination, .. } = head;
            return Err(Error::Refused(format!(
                "a message from rank {source} to rank {destination}: no such sender, or the receiver is not here"
            )));
        }
        match head.kind {
            kind::SHORT => self.take_short(&head, body),
            kind::LONG => self.take_long(&head),
            kind::READY => self.send_pieces(&head),
            kind::PIECE => self.take_piece(&head, body),
            kind::RECEIVED => {
                if let Some(bytes) = self.underway.get_mut(&head.source) {
                    *bytes = bytes.saturating_sub(head.bytes);
                }
                Ok(())
            }
            kind::CONTROL => {
                self.controls.push(Control { from, word: head.number, value: head.offset });
                Ok(())
            }
            kind::PART => {
                self.parts.push(body.to_vec());
                Ok(())
            }
            _ => Err(Error::Refused("a message between hosts is of no known kind".to_owned())),
        }
    }

    fn take_short(&mut self, head: &Head, body: &[u8]) -> Result<()> {
        let (rank, label) = (head.destination, head.label());
        match self.mailbox(rank).take_posted(&label) {
            Some(posted) => {
                self.store(rank, posted.message, label, body)?;
                self.announce(rank, label)
            }
            None => {
                self.mailbox(rank).keep(label, Body::Here(body.to_vec()));
                Ok(())
            }
        }
    }

    fn take_long(&mut self, head: &Head) -> Result<()> {
        let (rank, label) = (head.destination, head.label());
        match self.mailbox(rank).take_posted(&label) {
            Some(posted) => self.ask_for(rank, posted.message, label, head.number),
            None => {
                self.mailbox(rank).keep(label, Body::WithSender(head.number));
                Ok(())
            }
        }
    }

    /// The receiver is ready: sends a long message of a rank of this process.
    fn send_pieces(&mut self, head: &Head) -> Result<()> {
        let (from, to) = (head.destination, head.source);
        let Some(address) = self.mailbox(from).sending.remove(&head.number) else {
            return Err(Error::Refused(format!("rank {to} asks rank {from} for a message that it does not send")));
        };
        let message = self.message(from, address)?;
        let label = Label { source: from, context: message.context, tag: message.tag, bytes: message.bytes };
        let (process, slot) = (self.process_of(to), self.slots.slot(from as usize));
        let whole = message.bytes as usize;
        for offset in (0..whole.max(1)).step_by(PIECE) {
            let head = Head { number: head.number, offset: offset as u64, ..self.head(kind::PIECE, label, to) };
            let bytes = (whole - offset).min(PIECE);
            let (wire, sent) = (&mut self.wire, &mut self.sent);
            *sent += 1;
            memory::with_bytes(slot, message.data as usize + offset, bytes, |body| {
                wire.send(process as usize, head.as_bytes(), body)
            })
            .map_err(|_| wild(from))??;
        }
        self.is_sent(from, address)
    }

    fn take_piece(&mut self, head: &Head, body: &[u8]) -> Result<()> {
        let (rank, key) = (head.destination, (head.source, head.number));
        let Some(mut coming) = self.mailbox(rank).coming.remove(&key) else { return Ok(()) };
        let message = self.message(rank, coming.message)?;
        let room = message.bytes.saturating_sub(head.offset).min(body.len() as u64) as usize;
        memory::write(self.slot(rank), message.data as usize + head.offset as usize, &body[..room])
            .map_err(|_| wild(rank))?;
        coming.left = coming.left.saturating_sub(body.len() as u64);
        if coming.left > 0 {
            self.mailbox(rank).coming.insert(key, coming);
            return Ok(());
        }
        self.is_received(rank, coming.message, coming.label)
    }

    /// Gives the rank a message that arrived before its receive.
    fn receive_arrived(&mut self, rank: u32, address: usize, arrived: Arrived) -> Result<()> {
        let label = arrived.label;
        match arrived.body {
            Body::Here(bytes) => {
                self.store(rank, address, label, &bytes)?;
                self.announce(rank, label)
            }
            Body::WithSender(number) => self.ask_for(rank, address, label, number),
        }
    }

    /// Gets a message that waits with its sender.
    fn ask_for(&mut self, rank: u32, address: usize, label: Label, number: u64) -> Result<()> {
        let sender = label.source;
        if let Some(mailbox) = self.boxes.get_mut(&sender) {
            let Some(sending) = mailbox.sending.remove(&number) else { return Err(wild(sender)) };
            let data = self.message(sender, sending)?.data as usize;
            self.copy((sender, data), rank, address, label)?;
            return self.is_sent(sender, sending);
        }
        let coming = Coming { message: address, label, left: label.bytes };
        self.mailbox(rank).coming.insert((sender, number), coming);
        let asks = Label { source: rank, ..label };
        self.send_head(self.process_of(sender), Head { number, ..self.head(kind::READY, asks, sender) }, &[])
    }

    /// The sender's process learns how much of its short messages was received, now and then.
    fn announce(&mut self, rank: u32, label: Label) -> Result<()> {
        let process = self.process_of(label.source);
        if process as usize == self.process() {
            return Ok(());
        }
        let bytes = self.unannounced.entry((rank, process)).or_default();
        *bytes += label.bytes;
        if *bytes < HELD_MAX / 4 {
            return Ok(());
        }
        let received = Label { source: rank, bytes: std::mem::take(bytes), ..label };
        self.send_head(process, self.head(kind::RECEIVED, received, 0), &[])
    }

    fn send_short(&mut self, label: Label, to: u32, data: usize) -> Result<()> {
        let (head, process) = (self.head(kind::SHORT, label, to), self.process_of(to));
        let (wire, slot) = (&mut self.wire, self.slots.slot(label.source as usize));
        self.sent += 1;
        memory::with_bytes(slot, data, label.bytes as usize, |body| wire.send(process as usize, head.as_bytes(), body))
            .map_err(|_| wild(label.source))??;
        Ok(())
    }

    pub(super) fn send_head(&mut self, process: u32, head: Head, body: &[u8]) -> Result<()> {
        self.sent += 1;
        Ok(self.wire.send(process as usize, head.as_bytes(), body)?)
    }

    pub(super) fn head(&self, kind: u32, label: Label, destination: u32) -> Head {
        let Label { source, context, tag, bytes } = label;
        Head { kind, reserved: 0, source, destination, context, tag, bytes, number: 0, offset: 0 }
    }

    /// The message stays with its sender; returns its number.
    fn let_wait(&mut self, from: u32, address: usize) -> u64 {
        let mailbox = self.mailbox(from);
        let number = mailbox.number();
        mailbox.sending.insert(number, address);
        number
    }

    fn copy(&mut self, (from, data): (u32, usize), to: u32, address: usize, label: Label) -> Result<()> {
        let message = self.message(to, address)?;
        let bytes = label.bytes.min(message.bytes) as usize;
        memory::copy((self.slot(from), data), (self.slot(to), message.data as usize), bytes).map_err(|_| wild(to))?;
        self.is_received(to, address, label)
    }

    fn store(&mut self, rank: u32, address: usize, label: Label, bytes: &[u8]) -> Result<()> {
        let message = self.message(rank, address)?;
        let bytes = &bytes[..bytes.len().min(message.bytes as usize)];
        memory::write(self.slot(rank), message.data as usize, bytes).map_err(|_| wild(rank))?;
        self.is_received(rank, address, label)
    }

    fn is_received(&mut self, rank: u32, address: usize, label: Label) -> Result<()> {
        let message = self.message(rank, address)?;
        let (source, arrived_tag, arrived_bytes) = (label.source as i32, label.tag, label.bytes);
        self.put(rank, address, &Message { source, arrived_tag, arrived_bytes, done: 1, ..message })?;
        self.mailbox(rank).events += 1;
        Ok(())
    }

    fn is_sent(&mut self, rank: u32, address: usize) -> Result<()> {
        let message = self.message(rank, address)?;
        self.put(rank, address, &Message { done: 1, ..message })?;
        self.mailbox(rank).events += 1;
        Ok(())
    }

    fn slot(&self, rank: u32) -> Slot {
        self.slots.slot(rank as usize)
    }

    fn message(&self, rank: u32, address: usize) -> Result<Message> {
        memory::get(self.slot(rank), address).map_err(|_| wild(rank))
    }

    fn put(&self, rank: u32, address: usize, message: &Message) -> Result<()> {
        memory::put(self.slot(rank), address, message).map_err(|_| wild(rank))
    }

    fn bytes(&self, rank: u32, data: usize, bytes: u64) -> Result<Vec<u8>> {
        memory::read(self.slot(rank), data, bytes as usize).map_err(|_| wild(rank))
    }
}

fn posted(message: &Message, address: usize) -> Posted {
    Posted { message: address, source: message.peer, context: message.context, tag: message.tag }
}

fn wild(rank: u32) -> Error {
    Error::Refused(format!("rank {rank} named memory outside its slot to its MPI library"))
}
