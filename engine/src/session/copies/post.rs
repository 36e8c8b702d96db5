//! Messages between an owner and its holder, which move on while both programs compute. Between two ranks there is one
//! queue of messages for all levels: a word describes the pieces after it.

use super::words::CopyWord;
use crate::{
    error::{Error, Result},
    feed::Landing,
    ground::{Instant, pause},
    group::{Group, Message, Outgoing, Tested, decode, encode},
    space::{Aligned, format::MANIFEST_BYTES_MAX},
};
use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// No word is longer: it has a manifest, and a list of pieces.
const WORD_BYTES_MAX: u64 = 2 * MANIFEST_BYTES_MAX;
/// Time for a failed group to end its messages. Afterwards their memory stays lent.
const END_MAX: Duration = Duration::from_millis(200);

/// The messages that this rank sends and receives.
#[derive(Default)]
pub(in crate::session) struct Post {
    outboxes: BTreeMap<usize, VecDeque<Message>>,
    inboxes: BTreeMap<usize, Inbox>,
    /// The first message that failed: it and all later ones never come.
    failed: Option<Error>,
}

/// The messages from an owner, in the order of sending.
#[derive(Default)]
struct Inbox {
    under_way: VecDeque<Message>,
    /// The number of words still to come, each with its pieces.
    words: u32,
}

/// An expected message, with the memory that it fills.
pub(in crate::session) enum Letter {
    /// The length of the next word.
    Length([u8; 8]),
    Word(Vec<u8>),
    Piece(Piece),
}

/// A stretch of a shard's log on the level with this index.
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
    /// Starts to send a word to a holder: first its length, then the word.
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

    /// The ranks from which this one has expected words.
    pub(in crate::session) fn senders(&self) -> Vec<usize> {
        self.inboxes.keys().copied().collect()
    }

    /// Expects one more word from an owner.
    pub(in crate::session) fn expect(&mut self, from: usize) {
        self.inboxes.entry(from).or_default().words += 1;
    }

    /// The next letter from an owner; `None` if none has come. Never waits.
    pub(in crate::session) fn next(&mut self, group: &dyn Group, from: usize) -> Result<Option<Letter>> {
        self.check()?;
        let next = self.inboxes.get_mut(&from).map_or(Ok(None), |inbox| inbox.next(group, from));
        self.note(next)
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Keeps the error of `result`, if there is one, for the next call.
    pub(in crate::session) fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Expects a letter from an owner, after those that are already expected.
    pub(in crate::session) fn receive(&mut self, group: &dyn Group, from: usize, letter: Letter) -> Result<()> {
        self.inboxes.entry(from).or_default().expect(group, from, letter)
    }

    /// Whether all sent messages have arrived, and all expected ones have come. Never waits.
    pub(in crate::session) fn is_through(&mut self, group: &dyn Group) -> Result<bool> {
        self.check()?;
        let sent = self.are_sent(group);
        let sent = self.note(sent)?;
        Ok(sent && self.inboxes.values().all(|inbox| inbox.words == 0 && inbox.under_way.is_empty()))
    }

    /// Ends the messages under way after the group has failed: each fails, and its memory is not touched any more.
    /// Waits only until the group reports that, and no longer than `END_MAX`.
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

    /// The next letter; `None` if none has come. Never waits.
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

/// Memory for a word of the received length.
pub(in crate::session) fn room_for(length: [u8; 8], from: usize) -> Result<Letter> {
    let (length, mut bytes) = (u64::from_le_bytes(length), Vec::new());
    let refused = || Error::GroupFailed { what: format!("a message of {length} bytes from rank {from}") };
    if length > WORD_BYTES_MAX || bytes.try_reserve_exact(length as usize).is_err() {
        return Err(refused());
    }
    bytes.resize(length as usize, 0);
    Ok(Letter::Word(bytes))
}

/// Memory for a piece. Without it, neither this piece nor any later message can come.
pub(super) fn room_for_piece(bytes: u64, from: usize) -> Result<Aligned> {
    let no_memory = || Error::GroupFailed {
        what: format!("there is no memory for {bytes} bytes of a shard that rank {from} sends"),
    };
    Aligned::zeroed(bytes).ok_or_else(no_memory)
}

pub(in crate::session) fn word(bytes: &[u8]) -> Result<CopyWord> {
    decode(bytes)
}

/// A word, written again.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_word(bytes: &[u8]) -> Result<Vec<u8>> {
    encode(&word(bytes)?)
}

/// The words by which a shard with these contents goes to its holder, in whole and in parts.
#[cfg(feature = "fuzzing")]
pub(crate) fn words_of(contents: &crate::capture::Contents, portion_bytes: u64) -> Result<Vec<Vec<u8>>> {
    use crate::{capture::Size, commit::RevisionKey, space::format::PhaseRecord};
    let failure = crate::error::Failure::from(&Error::Internal { what: "gone".to_owned() });
    let shard = super::words::Announced {
        level: 1,
        key: RevisionKey::default(),
        shards: 2,
        contents: contents.encode(),
        hash: [5; 16],
        phases: PhaseRecord::default(),
        carried: Some((RevisionKey::default(), vec![(0, 2), (4, 1)])),
        pieces: vec![(0, portion_bytes), (portion_bytes, 4096)],
    };
    let words = [
        CopyWord::Size(Box::new(Size::measured(contents.blocks))),
        CopyWord::Shard(Box::new(shard)),
        CopyWord::GivenUp(0, failure),
    ];
    words.iter().map(encode).collect()
}
