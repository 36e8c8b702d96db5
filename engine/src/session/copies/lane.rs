//! The owner's side: once the shard is published on the nearest level, sends its blocks to the holder. Blocks go
//! straight out of the portion if it can be mapped. A thread of its own reads blocks from a disk: no call of the
//! program waits for a disk.

use super::{
    post::Post,
    words::{Announced, CopyWord},
};
use crate::{
    capture::{Base, Contents, LogPlaces, differing},
    commit::RevisionKey,
    device::Mapped,
    error::{Error, Failure, Result},
    feed::Source,
    ground::{Thread, spawn},
    group::Group,
    restore::joined_rows,
    space::{
        Aligned, FrameReader, Portion,
        format::{BLOCK_BYTES, Frame, frames_in, hash},
        free,
    },
};
use std::{ops::Range, sync::Arc};

/// The longest piece. With shorter ones there are more messages to test.
const PIECE_BYTES: u64 = 8 << 20;
/// Shorter stretches are sent together.
const SHORT_BYTES: u64 = 256 << 10;

/// The transfer of one shard to one holder.
pub(in crate::session) struct CopyLane {
    /// The index of the copy's level.
    level: usize,
    holder: usize,
    state: LaneState,
    /// The newest complete revision at the holder, if its unchanged blocks are not sent again.
    old: Option<(RevisionKey, Arc<Base>)>,
    /// The contents that were sent, for the next `old`; only if `remembers`.
    pub(super) sent: Option<Arc<Base>>,
    remembers: bool,
    /// The source is in memory and can be mapped.
    is_mapped: bool,
}

enum LaneState {
    /// Waits for the source to be published.
    Waiting(Result<Source>),
    Reading(Reading),
    Sent,
    /// The holder knows why it gets no shard.
    Failed(Error),
    /// The same, because there was no shard to copy.
    GivenUp(Error),
}

/// The announcement for the holder, the pieces, and the holder's contents afterwards.
type Announcement = Result<(Announced, Vec<Stretch>, Option<Base>)>;

/// A thread that reads the blocks to send. Dropping it waits for the thread, because its blocks may be reused
/// afterwards.
struct Reading(Option<Thread<Announcement>>);

impl Reading {
    fn begin(source: Source, level: usize, key: RevisionKey, old: Option<(RevisionKey, Arc<Base>)>) -> Result<Reading> {
        let thread = spawn("mainstay-copy".to_owned(), move || announce(&source, level, key, old))?;
        Ok(Reading(Some(thread)))
    }

    /// The result, once the thread has ended; `None` before.
    fn ended(&mut self) -> Option<Announcement> {
        let thread = self.0.take_if(|thread| thread.is_finished())?;
        let panicked =
            |_| Err(Error::Internal { what: "the thread that reads a shard to be copied panicked".to_owned() });
        Some(thread.join().unwrap_or_else(panicked))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Blocks that do not change until they are sent.
enum SentBlocks {
    Mapped(Mapped),
    Read(Aligned),
}

/// A part of the blocks.
pub(in crate::session) struct Stretch {
    of: Arc<SentBlocks>,
    bytes: Range<usize>,
}

impl AsRef<[u8]> for Stretch {
    fn as_ref(&self) -> &[u8] {
        let all = match &*self.of {
            SentBlocks::Mapped(mapped) => mapped.as_ref(),
            SentBlocks::Read(read) => read,
        };
        &all[self.bytes.clone()]
    }
}

impl CopyLane {
    /// `old`: the revision that the holder has already; `remembers`: keep the sent contents as the next `old`;
    /// `is_mapped`: the source is in memory.
    pub(in crate::session) fn new(
        level: usize,
        holder: usize,
        source: Result<Source>,
        old: Option<(RevisionKey, Arc<Base>)>,
        remembers: bool,
        is_mapped: bool,
    ) -> CopyLane {
        CopyLane { level, holder, state: LaneState::Waiting(source), old, sent: None, remembers, is_mapped }
    }

    /// Starts to send once the source is published, and read if necessary. An error is one of the group.
    pub(in crate::session) fn start(&mut self, group: &dyn Group, post: &mut Post, key: RevisionKey) -> Result<()> {
        let Some((announced, has_source)) = self.announced(key) else { return Ok(()) };
        self.state = match announced {
            Ok((announced, stretches, sent)) => {
                self.sent = sent.filter(|_| self.remembers).map(Arc::new);
                post.tell(group, self.holder, &CopyWord::Shard(Box::new(announced)))?;
                stretches.into_iter().try_for_each(|stretch| post.send(group, self.holder, Box::new(stretch)))?;
                LaneState::Sent
            }
            Err(error) => {
                post.tell(group, self.holder, &CopyWord::GivenUp(self.level, Failure::from(&error)))?;
                if has_source { LaneState::Failed(error) } else { LaneState::GivenUp(error) }
            }
        };
        Ok(())
    }

    /// The data to send, and whether there was a source. `None` until that is known, and after it was returned. Never
    /// waits.
    fn announced(&mut self, key: RevisionKey) -> Option<(Announcement, bool)> {
        match &mut self.state {
            LaneState::Waiting(Ok(source)) if !source.is_ended() => None,
            LaneState::Waiting(source) => {
                let gone = Error::Internal { what: "a shard is copied twice".to_owned() };
                let source = std::mem::replace(source, Err(gone));
                let has_source = source.as_ref().is_ok_and(Source::has_not_failed);
                let (level, old) = (self.level, self.old.take());
                match source {
                    Ok(source) if has_source && !self.is_mapped => match Reading::begin(source, level, key, old) {
                        Ok(reading) => {
                            self.state = LaneState::Reading(reading);
                            None
                        }
                        Err(error) => Some((Err(error), true)),
                    },
                    source => Some((source.and_then(|source| announce(&source, level, key, old)), has_source)),
                }
            }
            LaneState::Reading(reading) => Some((reading.ended()?, true)),
            LaneState::Sent | LaneState::Failed(_) | LaneState::GivenUp(_) => None,
        }
    }

    /// The failure to report; none if there was no shard to copy.
    pub(super) fn failure(&self) -> Result<()> {
        if let LaneState::Failed(error) = &self.state { Err(error.clone()) } else { Ok(()) }
    }

    /// The outcome of the lane; messages may still be under way. `None` before.
    pub(in crate::session) fn poll(&self) -> Option<Result<()>> {
        match &self.state {
            LaneState::Waiting(_) | LaneState::Reading(_) => None,
            LaneState::Sent => Some(Ok(())),
            LaneState::Failed(error) | LaneState::GivenUp(error) => Some(Err(error.clone())),
        }
    }
}

/// Describes a shard: the announcement, the pieces, and the holder's contents afterwards. Blocks that are unchanged
/// since `old` are not sent.
pub(in crate::session) fn announce(
    source: &Source,
    level: usize,
    key: RevisionKey,
    old: Option<(RevisionKey, Arc<Base>)>,
) -> Announcement {
    let (portion, manifest) = source.published()?;
    let (shards, phases) = source.described();
    let rows = joined_rows(&portion, &manifest)?;
    // The holder must compute the same hash.
    let hash = hash(&rows);
    let (contents, log) = (Contents::of(manifest.clone()), LogPlaces::of(&manifest.runs));
    let differing = old.map(|(old, base)| (old, differing(&contents, &rows, &base)));
    let (wanted, carried) = match differing {
        Some((old, blocks)) => {
            let spans = blocks.iter().map(|range| (range.start, range.end - range.start)).collect();
            (log.in_portion(&blocks), Some((old, spans)))
        }
        None => (manifest.runs.iter().map(|run| run.first_block..run.stretch().end()).collect(), None),
    };
    let (pieces, stretches) = cut(&portion, &manifest.frames, &wanted)?;
    let contents = contents.encode();
    let sent = Base::new(&manifest, rows);
    Ok((Announced { level, key, shards, contents, hash, phases, carried, pieces }, stretches, sent))
}

/// Cuts these blocks of the portion into pieces; short stretches share one. Returns the offset of each piece in the
/// log, and its length.
#[allow(clippy::type_complexity)]
pub(super) fn cut(
    portion: &Portion,
    frames: &[Frame],
    blocks: &[Range<u64>],
) -> Result<(Vec<(u64, u64)>, Vec<Stretch>)> {
    let (mut pieces, mut stretches, mut from) = (Vec::new(), Vec::new(), 0);
    let mut add = |stretch: Stretch| {
        let bytes = stretch.bytes.len() as u64;
        pieces.push((from, bytes));
        stretches.push(stretch);
        from += bytes;
    };
    let (mut rest, mut reader) = (blocks, FrameReader::default());
    while let Some(first) = rest.first() {
        let bytes = (first.end - first.start) * BLOCK_BYTES;
        if bytes >= SHORT_BYTES {
            let blocks = Arc::new(blocks_of(portion, frames, first)?);
            for begin in (0..bytes).step_by(PIECE_BYTES as usize) {
                let end = bytes.min(begin + PIECE_BYTES);
                add(Stretch { of: blocks.clone(), bytes: begin as usize..end as usize });
            }
            rest = &rest[1..];
            continue;
        }
        let mut total = 0;
        let is_taken = |range: &&Range<u64>| {
            let bytes = (range.end - range.start) * BLOCK_BYTES;
            total += bytes;
            bytes < SHORT_BYTES && total <= PIECE_BYTES
        };
        let (together, others) = rest.split_at(rest.iter().take_while(is_taken).count());
        let total: u64 = together.iter().map(|range| (range.end - range.start) * BLOCK_BYTES).sum();
        let mut read = Aligned::zeroed(total).ok_or_else(|| portion.out_of_memory(total))?;
        let mut into = &mut read[..total as usize];
        for range in together {
            let (now, later) = into.split_at_mut(((range.end - range.start) * BLOCK_BYTES) as usize);
            reader.read(portion, frames, range.start * BLOCK_BYTES, now)?;
            into = later;
        }
        add(Stretch { of: Arc::new(SentBlocks::Read(read)), bytes: 0..total as usize });
        rest = others;
    }
    Ok((pieces, stretches))
}

fn blocks_of(portion: &Portion, frames: &[Frame], blocks: &Range<u64>) -> Result<SentBlocks> {
    let count = blocks.end - blocks.start;
    let (at, bytes) = (blocks.start * BLOCK_BYTES, count * BLOCK_BYTES);
    let is_plain = frames_in(frames, free::Blocks { first: blocks.start, count }).is_empty();
    if is_plain && let Ok(mapped) = portion.map(at, bytes) {
        return Ok(SentBlocks::Mapped(mapped));
    }
    let mut read = Aligned::zeroed(bytes).ok_or_else(|| portion.out_of_memory(bytes))?;
    FrameReader::default().read(portion, frames, at, &mut read[..bytes as usize])?;
    Ok(SentBlocks::Read(read))
}
