//! Ranks without machine code, for the simulation, which makes their calls. Messages, the memory of slots, and saved
//! mailboxes are the real ones. Machine code, system calls, and the MPI library in C are left out.

use crate::{
    Error, Result, Wire,
    address::{Slot, Slots},
    gate::{self, Message, SYNCHRONOUS},
    memory,
    message::{Mailbox, Post, SavedMailbox},
};
use serde::{Deserialize, Serialize};
use std::{mem, ops::Range, sync::Once};

/// Messages that a rank has at a time, at most.
pub const MESSAGES_MAX: usize = 64;
/// Bytes of a message, at most.
pub const BYTES_MAX: usize = 3000;
/// The memory of a message: its record, and then its bytes.
const ROOM: usize = 4096;

/// The envelope of a message, or of a receive. A receive without a peer or a tag takes any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Envelope {
    pub peer: Option<u32>,
    pub tag: Option<i32>,
    pub context: u32,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub source: u32,
    pub tag: i32,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    pub bytes: Vec<u8>,
}

/// A rank between two processes, or in a checkpoint.
#[derive(Serialize, Deserialize)]
struct SavedRank {
    rank: u32,
    mailbox: SavedMailbox,
    #[serde(with = "serde_bytes")]
    memory: Vec<u8>,
}

/// A process with ranks.
pub struct Host {
    post: Post,
}

/// The memory of a slot that has messages.
fn used(slot: Slot) -> Range<usize> {
    slot.heap().start..slot.heap().start + MESSAGES_MAX * ROOM
}

/// The record of message number `at` of a rank.
fn address(slot: Slot, at: usize) -> usize {
    slot.heap().start + at * ROOM
}

/// The bytes of message number `at` of a rank.
fn data(slot: Slot, at: usize) -> usize {
    address(slot, at) + mem::size_of::<Message>()
}

fn failed(error: std::io::Error) -> Error {
    Error::system("the memory of a rank", error)
}

/// Gives back the memory of all ranks of this system process, which may be many hosts.
pub fn clear_memory() -> Result<()> {
    static RESERVED: Once = Once::new();
    let mut reserved = Ok(());
    RESERVED.call_once(|| reserved = memory::reserve(Slots::range()));
    reserved.and_then(|()| memory::clear_all()).map_err(failed)
}

impl Host {
    /// A host of a job in which rank r is on process `places[r]`.
    pub fn new(wire: Box<dyn Wire>, places: Vec<u32>) -> Result<Host> {
        let slots = Slots::of(places.len())?;
        let mut post = Post::new(wire, slots);
        post.begin(slots, places);
        Ok(Host { post })
    }

    pub fn process(&self) -> usize {
        self.post.process()
    }

    pub fn processes(&self) -> usize {
        self.post.processes()
    }

    /// A rank begins here.
    pub fn begin(&mut self, rank: u32) -> Result<()> {
        self.map(rank)?;
        self.post.enter(rank, Mailbox::default());
        Ok(())
    }

    /// A rank comes back from its saved bytes. Returns its number.
    pub fn bring_back(&mut self, saved: &[u8]) -> Result<u32> {
        let garbled = |error| Error::Refused(format!("a saved rank: {error}"));
        let SavedRank { rank, mailbox, memory } = postcard::from_bytes(saved).map_err(garbled)?;
        self.map(rank)?;
        let slot = self.post.slots().slot(rank as usize);
        memory::write(slot, used(slot).start, &memory).map_err(failed)?;
        self.post.enter(rank, Mailbox::bring_back(mailbox));
        Ok(rank)
    }

    /// The bytes of a rank. Nothing is in flight.
    pub fn saved(&mut self, rank: u32) -> Result<Vec<u8>> {
        let slot = self.post.slots().slot(rank as usize);
        let memory = memory::read(slot, used(slot).start, used(slot).len()).map_err(failed)?;
        let saved = SavedRank { rank, mailbox: self.post.mailbox(rank).save(), memory };
        postcard::to_stdvec(&saved).map_err(|error| Error::Refused(format!("saving a rank: {error}")))
    }

    /// Moves each of these ranks to a process; the same list on all processes. Nothing is in flight. Collective.
    pub fn move_ranks(&mut self, moves: &[(u32, u32)]) -> Result<()> {
        let me = self.process() as u32;
        for (rank, to) in moves {
            if self.post.process_of(*rank) != me || *to == me {
                continue;
            }
            let saved = self.saved(*rank)?;
            self.post.leave(*rank);
            memory::clear(self.post.slots().slot(*rank as usize)).map_err(failed)?;
            self.post.send_part(*to, &saved)?;
        }
        self.post.drain()?;
        for saved in self.post.parts() {
            self.bring_back(&saved)?;
        }
        // No rank runs before every process has its own.
        self.post.sum(&mut [0])?;
        moves.iter().for_each(|(rank, to)| self.post.place(*rank, *to));
        Ok(())
    }

    /// Maps the memory of the rank's messages.
    fn map(&self, rank: u32) -> Result<()> {
        let slot = self.post.slots().slot(rank as usize);
        memory::map(slot, &used(slot), libc::PROT_READ | libc::PROT_WRITE, None).map_err(failed)
    }

    /// Writes the record of message number `at`. Returns its address.
    fn put(&self, rank: u32, at: usize, envelope: Envelope, flags: u32, bytes: usize) -> Result<usize> {
        let slot = self.post.slots().slot(rank as usize);
        let Envelope { peer, tag, context } = envelope;
        let peer = peer.map_or(gate::ANY_RANK, |peer| peer as i32);
        let (tag, data, bytes) = (tag.unwrap_or(gate::ANY_TAG), data(slot, at) as u64, bytes as u64);
        let (source, arrived_tag, arrived_bytes, taken, done, reserved) = Default::default();
        let message = Message {
            peer,
            tag,
            context,
            flags,
            data,
            bytes,
            source,
            arrived_tag,
            arrived_bytes,
            taken,
            done,
            reserved,
        };
        memory::put(slot, address(slot, at), &message).map_err(failed)?;
        Ok(address(slot, at))
    }

    /// Rank `rank` sends `bytes`, as its message number `at`.
    pub fn send(&mut self, rank: u32, at: usize, to: Envelope, is_synchronous: bool, bytes: &[u8]) -> Result<()> {
        let slot = self.post.slots().slot(rank as usize);
        memory::write(slot, data(slot, at), bytes).map_err(failed)?;
        let flags = if is_synchronous { SYNCHRONOUS } else { 0 };
        let address = self.put(rank, at, to, flags, bytes.len())?;
        self.post.send(rank, address)
    }

    /// Rank `rank` starts to receive `room` bytes at most, as its message number `at`.
    pub fn receive(&mut self, rank: u32, at: usize, from: Envelope, room: usize) -> Result<()> {
        let address = self.put(rank, at, from, 0, room)?;
        self.post.receive(rank, address)
    }

    /// A matched probe. False: no message fits.
    pub fn take(&mut self, rank: u32, at: usize, from: Envelope, room: usize) -> Result<bool> {
        let address = self.put(rank, at, from, 0, room)?;
        self.post.probe(rank, address, true)?;
        let slot = self.post.slots().slot(rank as usize);
        let message: Message = memory::get(slot, address).map_err(failed)?;
        memory::put(slot, address, &Message { done: 0, ..message }).map_err(failed)?;
        Ok(message.done != 0)
    }

    /// Starts to receive the message that a probe took.
    pub fn receive_taken(&mut self, rank: u32, at: usize) -> Result<()> {
        self.post.receive_taken(rank, address(self.post.slots().slot(rank as usize), at))
    }

    /// Takes back a receive. False: a message has matched it.
    pub fn withdraw(&mut self, rank: u32, at: usize) -> bool {
        self.post.withdraw(rank, address(self.post.slots().slot(rank as usize), at))
    }

    /// The message number `at`, once it is sent or received.
    pub fn done(&self, rank: u32, at: usize) -> Result<Option<Received>> {
        let slot = self.post.slots().slot(rank as usize);
        let message: Message = memory::get(slot, address(slot, at)).map_err(failed)?;
        if message.done == 0 {
            return Ok(None);
        }
        let bytes = message.arrived_bytes.min(message.bytes) as usize;
        let bytes = memory::read(slot, data(slot, at), bytes).map_err(failed)?;
        let (source, tag, sent_bytes) = (message.source as u32, message.arrived_tag, message.arrived_bytes);
        Ok(Some(Received { source, tag, sent_bytes, bytes }))
    }

    /// Whether anything happened to the rank's messages since it last asked.
    pub fn has_news(&mut self, rank: u32) -> bool {
        let mailbox = self.post.mailbox(rank);
        let has_news = mailbox.has_news();
        mailbox.see();
        has_news
    }

    /// Takes the messages that have arrived. Returns whether there were any.
    pub fn poll(&mut self) -> Result<bool> {
        self.post.poll()
    }

    /// Waits until nothing is in flight. Collective.
    pub fn drain(&mut self) -> Result<()> {
        self.post.drain()
    }

    /// Sends a word with a value to another process.
    pub fn tell(&mut self, process: usize, word: u64, value: u64) -> Result<()> {
        self.post.tell(process, word, value)
    }

    /// The words of other processes, each with its value.
    pub fn words(&mut self) -> Vec<(u64, u64)> {
        self.post.controls().into_iter().map(|control| (control.word, control.value)).collect()
    }
}
