//! What a ward does: once its shard is published on the nearest level, it sends the blocks to the holder, out of the
//! portion where there can be a mapping of it.

use super::{
    post::Post,
    words::{Announced, Word},
};
use crate::{
    capture::Contents,
    commit::RevisionKey,
    device::Mapped,
    error::{Error, Failure, Result},
    feed::Source,
    group::Group,
    restore::rows_of,
    space::{
        Aligned, Portion,
        format::{BLOCK_BYTES, HASH_BYTES, Hashing, Manifest, Run},
    },
};
use std::{ops::Range, sync::Arc};

/// The longest piece: with many short ones each would be tested for.
const PIECE_BYTES: u64 = 8 << 20;

/// The way of one shard to one holder.
pub(super) struct Lane {
    /// The number of the level that the copy is for.
    pub(super) level: usize,
    pub(super) holder: usize,
    pub(super) state: State,
}

pub(super) enum State {
    /// Waits for the source to be published.
    Waiting(Result<Source>),
    Sent,
    /// The holder was told why nothing comes.
    Failed(Error),
    /// The same, as there is nothing to copy.
    GivenUp(Error),
}

/// A run's blocks, which stay as they are until they are sent.
enum Blocks {
    Mapped(Mapped),
    Read(Aligned),
}

/// A part of a run.
pub(super) struct Stretch {
    of: Arc<Blocks>,
    bytes: Range<usize>,
}

impl AsRef<[u8]> for Stretch {
    fn as_ref(&self) -> &[u8] {
        let all = match &*self.of {
            Blocks::Mapped(mapped) => mapped.as_ref(),
            Blocks::Read(read) => read,
        };
        &all[self.bytes.clone()]
    }
}

impl Lane {
    /// Starts to send, if the source is published by now. An error is one of the group.
    pub(super) fn start(&mut self, group: &dyn Group, post: &mut Post, key: RevisionKey) -> Result<()> {
        let State::Waiting(source) = &self.state else { return Ok(()) };
        if source.as_ref().is_ok_and(|source| !source.is_ended()) {
            return Ok(());
        }
        let source = source.as_ref().map_err(Error::clone);
        let has_source = source.as_ref().is_ok_and(|source| source.has_not_failed());
        let announced = source.and_then(|source| announce(source, self.level, key));
        self.state = match announced {
            Ok((announced, stretches)) => {
                post.tell(group, self.holder, &Word::Shard(Box::new(announced)))?;
                stretches.into_iter().try_for_each(|stretch| post.send(group, self.holder, Box::new(stretch)))?;
                State::Sent
            }
            Err(error) => {
                post.tell(group, self.holder, &Word::GivenUp(self.level, Failure::from(&error)))?;
                if has_source { State::Failed(error) } else { State::GivenUp(error) }
            }
        };
        Ok(())
    }

    /// What is to be told: a failure, unless there was nothing to copy.
    pub(super) fn failure(&self) -> Result<()> {
        if let State::Failed(error) = &self.state { Err(error.clone()) } else { Ok(()) }
    }

    /// Whether the lane has come to its end, but for messages under way.
    pub(super) fn poll(&self) -> Option<Result<()>> {
        match &self.state {
            State::Waiting(_) => None,
            State::Sent => Some(Ok(())),
            State::Failed(error) | State::GivenUp(error) => Some(Err(error.clone())),
        }
    }
}

/// What is told of a shard, and the pieces that follow.
pub(super) fn announce(source: &Source, level: usize, key: RevisionKey) -> Result<(Announced, Vec<Stretch>)> {
    let (portion, manifest) = source.published()?;
    let (shards, phases) = source.described();
    let hash = hash_of_rows(&portion, &manifest)?;
    let (mut pieces, mut stretches, mut from) = (Vec::new(), Vec::new(), 0);
    for run in &manifest.runs {
        let bytes = run.blocks * BLOCK_BYTES;
        let blocks = Arc::new(blocks_of(&portion, run)?);
        for begin in (0..bytes).step_by(PIECE_BYTES as usize) {
            let end = bytes.min(begin + PIECE_BYTES);
            pieces.push((from + begin, end - begin));
            stretches.push(Stretch { of: blocks.clone(), bytes: begin as usize..end as usize });
        }
        from += bytes;
    }
    let contents = Contents::of(manifest).encode();
    Ok((Announced { level, key, shards, contents, hash, phases, pieces }, stretches))
}

fn blocks_of(portion: &Portion, run: &Run) -> Result<Blocks> {
    let (at, bytes) = (run.first_block * BLOCK_BYTES, run.blocks * BLOCK_BYTES);
    if let Ok(mapped) = portion.map(at, bytes) {
        return Ok(Blocks::Mapped(mapped));
    }
    let mut read = Aligned::zeroed(bytes).ok_or_else(|| portion.out_of_memory(bytes))?;
    portion.read_into(at, &mut read[..bytes as usize])?;
    Ok(Blocks::Read(read))
}

/// The hash of the hashes of all blocks, in the order of the log: what the holder has must have the same.
fn hash_of_rows(portion: &Portion, manifest: &Manifest) -> Result<[u8; HASH_BYTES]> {
    let mut all = Hashing::default();
    rows_of(portion, &manifest.runs)?.iter().for_each(|row| all.add(row));
    Ok(all.hash())
}
