//! How messages travel from rank to rank: while both ranks wait for them, or while their programs go on.

use crate::{
    error::{Error, Result},
    group::{Group, Message, Outgoing, Tested, encode},
    pool::Chunk,
    space::Aligned,
};
use serde::Serialize;
use std::{any::Any, collections::VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// The sender waits until the message is received. For ranks of which none that is waited for waits itself.
    Blocking,
    /// Messages are started as they come, and go on during later calls of the program. All must be through before the
    /// revision counts as complete; they are waited for only where all ranks are in one call.
    #[cfg_attr(not(test), expect(dead_code, reason = "aggregators wait; copies on other nodes are to go on"))]
    Background,
}

/// What this rank sends to another, in order.
pub(super) struct Outbox {
    to: usize,
    exchange: Exchange,
    under_way: VecDeque<Message>,
}

impl Outbox {
    pub(super) fn new(to: usize, exchange: Exchange) -> Outbox {
        Outbox { to, exchange, under_way: VecDeque::new() }
    }

    pub(super) fn to(&self) -> usize {
        self.to
    }

    /// Sends a value: its length, and then the value.
    pub(super) fn tell(&mut self, group: &dyn Group, value: &impl Serialize) -> Result<()> {
        let bytes = encode(value)?;
        let length = (bytes.len() as u64).to_le_bytes();
        match self.exchange {
            Exchange::Blocking => group.send(self.to, &length).and_then(|()| group.send(self.to, &bytes)),
            Exchange::Background => {
                self.start(group, Box::new(length))?;
                self.start(group, Box::new(bytes))
            }
        }
    }

    pub(super) fn start(&mut self, group: &dyn Group, bytes: Outgoing) -> Result<()> {
        self.under_way.push_back(group.start_send(self.to, bytes)?);
        Ok(())
    }

    /// Whether all messages that were started are through. Never waits.
    pub(super) fn is_through(&mut self, group: &dyn Group) -> Result<bool> {
        while let Some(message) = self.under_way.front() {
            if let Tested::UnderWay = group.test(*message)? {
                return Ok(false);
            }
            self.under_way.pop_front();
        }
        Ok(true)
    }
}

/// What this rank receives from another, in the order in which it is expected.
pub(super) struct Inbox {
    from: usize,
    exchange: Exchange,
    expected: VecDeque<Expected>,
}

enum Expected {
    Letter(Box<Letter>),
    UnderWay(Message),
}

/// A message that is expected, with the memory that it fills.
pub(super) enum Letter {
    /// The length of the word that comes next.
    Length([u8; 8]),
    Word(Vec<u8>),
    /// The first `bytes` bytes of `memory` belong at `at` in the log.
    Piece {
        at: u64,
        bytes: u64,
        memory: Memory,
    },
}

pub(super) enum Memory {
    Own(Aligned),
    Chunk(Chunk),
}

impl AsMut<[u8]> for Letter {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Letter::Length(bytes) => bytes,
            Letter::Word(bytes) => bytes,
            Letter::Piece { bytes, memory: Memory::Own(own), .. } => &mut own[..*bytes as usize],
            Letter::Piece { bytes, memory: Memory::Chunk(chunk), .. } => &mut chunk.bytes_mut()[..*bytes as usize],
        }
    }
}

impl Inbox {
    pub(super) fn new(from: usize, exchange: Exchange) -> Inbox {
        Inbox { from, exchange, expected: VecDeque::new() }
    }

    pub(super) fn exchange(&self) -> Exchange {
        self.exchange
    }

    /// Whether nothing is expected any more.
    pub(super) fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    pub(super) fn expect(&mut self, group: &dyn Group, letter: Letter) -> Result<()> {
        let letter = Box::new(letter);
        self.expected.push_back(match self.exchange {
            Exchange::Blocking => Expected::Letter(letter),
            Exchange::Background => Expected::UnderWay(group.start_receive(self.from, letter)?),
        });
        Ok(())
    }

    /// Expects a word, whose length comes first.
    pub(super) fn expect_word(&mut self, group: &dyn Group) -> Result<()> {
        self.expect(group, Letter::Length([0; 8]))
    }

    /// The next letter; `None` if none is expected, or if it is under way. In the background it never waits.
    pub(super) fn next(&mut self, group: &dyn Group) -> Result<Option<Letter>> {
        match self.expected.pop_front() {
            None => Ok(None),
            Some(Expected::Letter(mut letter)) => {
                group.receive(self.from, (*letter).as_mut())?;
                Ok(Some(*letter))
            }
            Some(Expected::UnderWay(message)) => match group.test(message)? {
                Tested::Received(filled) => {
                    let other = |_| Error::Internal { what: format!("{message:?} has filled something else") };
                    (filled as Box<dyn Any>).downcast().map(|letter| Some(*letter)).map_err(other)
                }
                Tested::UnderWay | Tested::Sent => {
                    self.expected.push_front(Expected::UnderWay(message));
                    Ok(None)
                }
            },
        }
    }
}
