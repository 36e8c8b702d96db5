//! Messages between a ward and its holder, which go on while both programs do. What lies between two ranks is one row of
//! messages, whichever levels they belong to: a word says what the pieces after it are.

use super::words::CopyWord;
use crate::{
    error::{Error, Result},
    feed::Landing,
    ground::{Instant, pause},
    group::{Group, Message, Outgoing, Tested, decode, encode},
    space::Aligned,
};
use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// So long a group that has failed may take to end its messages; the memory of others stays lent.
const END_MAX: Duration = Duration::from_millis(200);

/// What this rank sends and receives.
#[derive(Default)]
pub(in crate::session) struct Post {
    outboxes: BTreeMap<usize, VecDeque<Message>>,
    inboxes: BTreeMap<usize, Inbox>,
    /// The first message that failed: what was to come with it and after it never does.
    failed: Option<Error>,
}

/// What this rank receives from a ward, in the order in which it is sent.
#[derive(Default)]
struct Inbox {
    under_way: VecDeque<Message>,
    /// How many words are still to come, each with its pieces.
    words: u32,
}

/// A message that is expected, with the memory that it fills.
pub(in crate::session) enum Letter {
    /// The length of the word that comes next.
    Length([u8; 8]),
    Word(Vec<u8>),
    Piece(Piece),
}

/// A stretch of a shard's log, of the level with this number.
pub(in crate::session) struct Piece {
    pub(in crate::session) level: usize,
    pub(super) at: u64,
    pub(super) memory: Landing,
}

impl AsMut<[u8]> for Letter {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Letter::Length(bytes) => bytes,
            Letter::Word(bytes) => bytes,
            Letter::Piece(Piece { memory: Landing::Portion(mapped), .. }) => mapped.as_mut(),
            Letter::Piece(Piece { memory: Landing::Own(own, bytes) | Landing::Spread(own, bytes, ..), .. }) => {
                &mut own[..*bytes as usize]
            }
        }
    }
}

impl Post {
    /// Starts to send a word to a holder: its length, and then the word.
    pub(in crate::session) fn tell(&mut self, group: &dyn Group, to: usize, word: &CopyWord) -> Result<()> {
        let bytes = encode(word)?;
        self.send(group, to, Box::new((bytes.len() as u64).to_le_bytes()))?;
        self.send(group, to, Box::new(bytes))
    }

    pub(in crate::session) fn send(&mut self, group: &dyn Group, to: usize, bytes: Outgoing) -> Result<()> {
        let message = group.start_send(to, bytes)?;
        self.outboxes.entry(to).or_default().push_back(message);
        Ok(())
    }

    /// The ranks from which this one has expected a word.
    pub(in crate::session) fn senders(&self) -> Vec<usize> {
        self.inboxes.keys().copied().collect()
    }

    /// Expects a word more from a ward.
    pub(in crate::session) fn expect(&mut self, from: usize) {
        self.inboxes.entry(from).or_default().words += 1;
    }

    /// The next letter from a ward that has come; `None` if none has. Never waits.
    pub(in crate::session) fn next(&mut self, group: &dyn Group, from: usize) -> Result<Option<Letter>> {
        self.check()?;
        let next = self.inboxes.get_mut(&from).map_or(Ok(None), |inbox| inbox.next(group, from));
        self.note(next)
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Keeps the error, if `result` is one, for whoever asks after the messages next.
    pub(in crate::session) fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Expects a letter from a ward behind those that are expected already.
    pub(in crate::session) fn receive(&mut self, group: &dyn Group, from: usize, letter: Letter) -> Result<()> {
        self.inboxes.entry(from).or_default().expect(group, from, letter)
    }

    /// Whether all that was started is through, and all that is expected has come. Never waits.
    pub(in crate::session) fn is_through(&mut self, group: &dyn Group) -> Result<bool> {
        self.check()?;
        let sent = self.are_sent(group);
        let sent = self.note(sent)?;
        Ok(sent && self.inboxes.values().all(|inbox| inbox.words == 0 && inbox.under_way.is_empty()))
    }

    /// Brings what is under way to its end, once the group has failed: a message that is not through is over with an error
    /// then, and its memory is touched no more. Waits no longer than it takes a group to tell so.
    pub(in crate::session) fn end(self, group: &dyn Group) {
        let sent = self.outboxes.into_values().flatten();
        let awaited = self.inboxes.into_values().flat_map(|inbox| inbox.under_way);
        let mut under_way: Vec<Message> = sent.chain(awaited).collect();
        let begun = Instant::now();
        while !under_way.is_empty() && begun.elapsed() < END_MAX {
            under_way.retain(|message| matches!(group.test(*message), Ok(Tested::UnderWay)));
            pause(u32::MAX);
        }
    }

    fn are_sent(&mut self, group: &dyn Group) -> Result<bool> {
        let mut sent = true;
        for outbox in self.outboxes.values_mut() {
            while let Some(message) = outbox.front() {
                if let Tested::UnderWay = group.test(*message)? {
                    sent = false;
                    break;
                }
                outbox.pop_front();
            }
        }
        Ok(sent)
    }
}

impl Inbox {
    fn expect(&mut self, group: &dyn Group, from: usize, letter: Letter) -> Result<()> {
        self.under_way.push_back(group.start_receive(from, Box::new(letter))?);
        Ok(())
    }

    /// The next letter that has come; `None` if none has. Never waits.
    fn next(&mut self, group: &dyn Group, from: usize) -> Result<Option<Letter>> {
        if self.under_way.is_empty() && self.words > 0 {
            self.words -= 1;
            self.expect(group, from, Letter::Length([0; 8]))?;
        }
        let Some(message) = self.under_way.front().copied() else { return Ok(None) };
        match group.test(message)? {
            Tested::Received(filled) => {
                self.under_way.pop_front();
                let other = |_| Error::Internal { what: format!("{message:?} has filled something else") };
                (filled as Box<dyn Any>).downcast().map(|letter| Some(*letter)).map_err(other)
            }
            Tested::UnderWay | Tested::Sent => Ok(None),
        }
    }
}

/// Room for a word whose length has come.
pub(in crate::session) fn room_for(length: [u8; 8], from: usize) -> Result<Letter> {
    let (length, mut bytes) = (u64::from_le_bytes(length) as usize, Vec::new());
    let refused = |_| Error::GroupFailed { what: format!("a message of {length} bytes from rank {from}") };
    bytes.try_reserve_exact(length).map_err(refused)?;
    bytes.resize(length, 0);
    Ok(Letter::Word(bytes))
}

/// Room for a piece, as for a word: without it neither this piece comes nor what is sent after it.
pub(super) fn room_for_piece(bytes: u64, from: usize) -> Result<Aligned> {
    let no_memory = || Error::GroupFailed {
        what: format!("there is no memory for {bytes} bytes of a shard that rank {from} sends"),
    };
    Aligned::zeroed(bytes).ok_or_else(no_memory)
}

pub(in crate::session) fn word(bytes: &[u8]) -> Result<CopyWord> {
    decode(bytes)
}
